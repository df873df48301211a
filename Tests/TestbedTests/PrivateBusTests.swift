import Foundation
import Testbed
import Testing

@Suite struct PrivateBusTests {
    /// Whether a bus answers at the address, by the words of a client that is not ours.
    private func answers(_ address: String) async throws -> Bool {
        try await Command.run(
            "/usr/bin/dbus-send",
            [
                "--bus=\(address)", "--print-reply", "--dest=org.freedesktop.DBus",
                "/org/freedesktop/DBus", "org.freedesktop.DBus.GetId",
            ]
        ).status == 0
    }

    @Test func aBusAnswersUntilItIsStoppedAndLeavesNothingBehind() async throws {
        let bus = try await PrivateBus.start()
        #expect(try await answers(bus.address))
        let socket = String(bus.address.dropFirst("unix:path=".count))
        let directory = URL(filePath: socket).deletingLastPathComponent()
        #expect(FileManager.default.fileExists(atPath: socket))
        await bus.stop()
        #expect(try await !answers(bus.address))
        #expect(!FileManager.default.fileExists(atPath: directory.path))
    }

    @Test func aBusComesBackOnTheSameAddress() async throws {
        let bus = try await PrivateBus.start()
        await bus.halt()
        #expect(try await !answers(bus.address))
        try await bus.restart()
        #expect(try await answers(bus.address))
        try await bus.restart()
        #expect(try await answers(bus.address))
        await bus.stop()
    }
}
