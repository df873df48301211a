import Foundation
import Testbed
import Testing

/// The simulation judged by a client that is not ours: bleak 3.1.0, which thousands use with the
/// real bluetoothd. Runs where `.build-oracles` has it.
@Suite struct SimulatedBlueZBleakTests {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    /// `ORACLES` names another virtual environment.
    private static let oracles =
        ProcessInfo.processInfo.environment["ORACLES"].map { URL(filePath: $0) }
        ?? root.appending(path: ".build-oracles")
    private static let python = oracles.appending(path: "bin/python").path
    private static var hasBleak: Bool { FileManager.default.isExecutableFile(atPath: python) }

    private struct Report: Decodable {
        var name: String?
        var services: [String]?
        var location: String?
        var maker: String?
        var frames: [String]?
        var error: String?
    }

    private static let address = "C0:00:00:00:00:01"

    /// Runs the script and returns what it printed.
    private func run(address: String, bus: String, frames: Int) async throws -> Data {
        let script = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "bleak_check.py")
        let environment = ProcessInfo.processInfo.environment.merging([
            "DBUS_SYSTEM_BUS_ADDRESS": bus
        ]) { $1 }
        let outcome = try await Command.run(
            Self.python, [script.path, address, String(frames)], environment: environment)
        return Data(outcome.output.utf8)
    }

    /// Lets bleak use a bluetoothd with these habits.
    private func report(
        frames: Int, habits: BlueZHabits
    ) async throws -> (Report, sent: [String]) {
        var habits = habits
        // At 20 times the pace, 30 s are over before a slow Python has called Connect.
        habits.temporaryMilliseconds = 600_000
        let bus = try await PrivateBus.start()
        let strap = SimulatedStrap(
            address: Self.address, name: "HR-01", heart: try .fiveMinutes())
        let bluez = try await SimulatedBlueZ.start(
            on: bus, straps: [strap], habits: habits, pace: .realTime(speed: 20))
        let data = try await run(address: Self.address, bus: bus.address, frames: frames)
        let sent = await bluez.framesSent(Self.address).prefix(frames).map { frame in
            frame.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        await bluez.stop()
        await bus.stop()
        return (try JSONDecoder().decode(Report.self, from: data), sent)
    }

    @Test(.enabled(if: hasBleak), .timeLimit(.minutes(10)))
    func bleakFindsConnectsReadsAndReceives() async throws {
        var habits = BlueZHabits()
        habits.connectedUnsignalled = 0
        let (report, sent) = try await report(frames: 20, habits: habits)
        #expect(report.error == nil)
        #expect(report.name == "HR-01")
        #expect(report.services == ["180a", "180d", "180f"])
        #expect(report.location == "01")
        #expect(report.maker == "Testbed")
        #expect(report.frames == sent)
        #expect(sent.count == 20)
    }

    /// What bleak 3.1.0 does with the real bluetoothd when that does not tell of the connection.
    @Test(.enabled(if: hasBleak), .timeLimit(.minutes(10)))
    func bleakFailsAsItDoesWithTheRealOneWhenConnectedIsNotTold() async throws {
        var habits = BlueZHabits()
        habits.connectedUnsignalled = 1
        let (report, _) = try await report(frames: 1, habits: habits)
        #expect(report.error == "failed to discover services, device disconnected")
    }
}
