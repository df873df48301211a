import Basics
import Synchronization
import Testing

@testable import BlueZ

/// Meeting a bluetoothd that answers with an error.
@Suite struct BlueZClientTests {
    /// What a client slept for; it does not really sleep.
    private final class Naps: Sendable {
        private let naps = Mutex<[Duration]>([])

        var all: [Duration] { naps.withLock { $0 } }

        var clock: UptimeClock {
            UptimeClock(
                now: { .zero }, sleep: { nap, _ in self.naps.withLock { $0.append(nap) } })
        }
    }

    /// Nothing asked again until the gateway was started anew, though `status` said that it resumes by itself.
    @Test(
        .timeLimit(.minutes(1)),
        arguments: [
            "org.freedesktop.DBus.Error.AccessDenied", "org.bluez.Error.Failed",
            "org.freedesktop.DBus.Error.LimitsExceeded",
        ])
    func aDaemonThatRefusesToShowItsTreeIsAskedAgain(error: String) async throws {
        let bus = try TestBus()
        let refusals = Mutex(2)
        let daemon = try await serve(try await bus.open(), name: Names.service) { call in
            let isRefused = refusals.withLock { left in
                left -= 1
                return left >= 0
            }
            return isRefused
                ? .error(to: call, DBusFault(name: error))
                : .reply(to: call, body: [.dictionary(key: "o", value: "a{sa{sv}}", [])])
        }
        defer { daemon.cancel() }
        let naps = Naps()
        let client = BlueZClient(connection: try await bus.open(), clock: naps.clock)
        try await client.start()
        var refused: [String] = []
        search: for await batch in client.events() {
            for event in batch {
                if case .daemonRefused(let fault) = event { refused.append(fault.name) }
                if case .daemonBack = event { break search }
            }
        }
        #expect(refused == [error, error])
        #expect(naps.all == [BlueZClient.refusedPause, BlueZClient.refusedPause])
        await client.close()
    }
}
