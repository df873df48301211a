import Foundation
import Testbed
import Testing

@Suite struct PrivateBusTests {
    /// Whether a bus answers at the address, by the words of a client that is not ours.
    private func answers(_ address: String) throws -> Bool {
        let client = Process()
        client.executableURL = URL(filePath: "/usr/bin/dbus-send")
        client.arguments = [
            "--bus=\(address)", "--print-reply", "--dest=org.freedesktop.DBus",
            "/org/freedesktop/DBus", "org.freedesktop.DBus.GetId",
        ]
        client.standardOutput = FileHandle.nullDevice
        client.standardError = FileHandle.nullDevice
        try client.run()
        client.waitUntilExit()
        return client.terminationStatus == 0
    }

    @Test func aBusAnswersUntilItIsStoppedAndLeavesNothingBehind() async throws {
        let bus = try await PrivateBus.start()
        #expect(try answers(bus.address))
        let socket = String(bus.address.dropFirst("unix:path=".count))
        let directory = URL(filePath: socket).deletingLastPathComponent()
        #expect(FileManager.default.fileExists(atPath: socket))
        await bus.stop()
        #expect(try !answers(bus.address))
        #expect(!FileManager.default.fileExists(atPath: directory.path))
    }

    @Test func aBusComesBackOnTheSameAddress() async throws {
        let bus = try await PrivateBus.start()
        await bus.halt()
        #expect(try !answers(bus.address))
        try await bus.restart()
        #expect(try answers(bus.address))
        try await bus.restart()
        #expect(try answers(bus.address))
        await bus.stop()
    }
}
