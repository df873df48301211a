import BlueZ
import Foundation
import Testbed
import Testing

#if canImport(Glibc)
    import Glibc
#endif

/// Frames over sockets (`bluetooth.notifications`), through the real binary, dbus-daemon and descriptors.
@Suite(.serialized) struct NotificationTests {
    private static let strap = TestWorld.addresses[0]
    private static let socket = ["EDGE_GATEWAY_BLUETOOTH_NOTIFICATIONS": "socket"]

    private func call(_ member: String, by other: DBusConnection) async throws {
        _ = try await other.call(
            destination: "org.bluez",
            path: SimulatedBlueZ.devicePath(Self.strap) + "/service0006/char0007",
            interface: "org.bluez.GattCharacteristic1", member: member, deadline: .seconds(10))
    }

    /// Waits until frames come in a way.
    @discardableResult
    private func comes(by way: String, _ world: TestWorld) async throws -> GatewayStatus {
        try await world.eventually("frames by \(way)") {
            $0.sensors.first?.notifications == way
        }
    }

    /// Waits until the daemon has one socket of packets open. It may have more for a moment: the answer that
    /// brought a socket holds a descriptor of its own until it is let go.
    private func hasOneSocket(_ world: TestWorld) async throws {
        var counts: [Int] = []
        var way: String?
        do {
            try await world.eventually("one socket") { status in
                counts.append(try await sockets(of: world))
                way = status.sensors.first?.notifications
                return counts.last == 1
            }
        } catch {
            Issue.record(
                """
                sockets counted, look by look: \(counts); frames come by \(way ?? "nothing"), after \
                \(await world.bluez.callCount("AcquireNotify")) AcquireNotify, \
                \(await world.bluez.callCount("StartNotify")) StartNotify
                """)
            throw error
        }
    }

    /// How many sockets of packets the daemon has open: those of frames.
    private func sockets(of world: TestWorld) async throws -> Int {
        let pid = try #require(await world.gateway.processID)
        // Num RefCount Protocol Flags Type St Inode Path; SOCK_SEQPACKET is 5 (proc(5)).
        // Not by contentsOfFile, which ends after the first 4 KiB.
        let file = try FileHandle(forReadingFrom: URL(filePath: "/proc/\(pid)/net/unix"))
        let table = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
        var ofPackets: Set<String> = []
        for line in table.split(separator: "\n") {
            let fields = line.split(separator: " ")
            if fields.count >= 7, fields[4] == "0005" { ofPackets.insert("socket:[\(fields[6])]") }
        }
        let directory = "/proc/\(pid)/fd"
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        return names.count { name in
            let target = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "\(directory)/\(name)")
            return target.map { ofPackets.contains($0) } ?? false
        }
    }

    @Test func framesOverASocketAreEachDeliveredOnceAndNobodyDoublesThem() async throws {
        try await TestWorld.run(settings: Self.socket) { world in
            try await world.put(on: 0)
            try await comes(by: "socket", world)
            let other = try await DBusConnection.open(address: world.bus.address)
            await #expect(throws: BlueZFault.notifyAcquired) {
                try await call("StartNotify", by: other)
            }
            other.close()
            try await world.eventually("a delivery") { $0.balance.delivered >= 3 }
            let status = try await world.settle()
            #expect(await world.bluez.framesSentCount(Self.strap) == status.balance.received)
            #expect(await world.bluez.callCount("StartNotify") == 1, "the other program's alone")
            #expect(status.balance.doubled == 0)
            #expect(status.sensors.first?.fullSockets == nil)
            await world.expectExactlyOnce(status.balance)
            let metrics = try await Command.run(
                "/usr/bin/curl",
                [
                    "-s", "--unix-socket", world.gateway.directory.path + "/control.sock",
                    "http://localhost/metrics",
                ]
            ).output
            #expect(metrics.contains(#"edge_gateway_sensor_notification_socket{sensor="1"} 1"#))
            #expect(metrics.contains(#"edge_gateway_sensor_socket_full_total{sensor="1"} 0"#))
        }
    }

    @Test func linksThatAreLostAndARestartOfBluetoothdLeaveNoSocketBehind() async throws {
        try await TestWorld.run(settings: Self.socket) { world in
            try await world.put(on: 0)
            try await comes(by: "socket", world)
            try await hasOneSocket(world)
            for _ in 0..<3 {
                let stored = try await world.gateway.status().balance.stored
                await world.bluez.drop(Self.strap)
                try await world.eventually("frames again") { $0.balance.stored > stored }
            }
            try await world.bluez.setDaemon(running: false)
            try await world.eventually("without bluetoothd") {
                $0.sensors.first?.link == "suspended"
            }
            try await world.bluez.setDaemon(running: true)
            try await comes(by: "socket", world)
            try await hasOneSocket(world)
            let status = try await world.settle()
            #expect(await world.bluez.framesSentCount(Self.strap) == status.balance.received)
            await world.expectExactlyOnce(status.balance)
        }
    }

    @Test func besideAnotherProgramFramesComeBySignals() async throws {
        try await TestWorld.run(settings: Self.socket) { world in
            await world.bluez.inject(
                ScriptedFault("AcquireNotify", times: 1, .error(BlueZFault.inProgress)))
            try await world.put(on: 0)
            try await comes(by: "signal", world)
            try await world.eventually("a delivery") { $0.balance.delivered >= 3 }
            #expect(world.gateway.logTail().contains("there is no socket for them"))
            // At the next link there is one.
            await world.bluez.drop(Self.strap)
            try await comes(by: "socket", world)
            // And it is taken away.
            let other = try await DBusConnection.open(address: world.bus.address)
            try await call("StopNotify", by: other)
            other.close()
            try await comes(by: "signal", world)
            let status = try await world.settle()
            await world.expectExactlyOnce(status.balance)
        }
    }

    @Test func aSocketThatFillsWhileTheGatewaySleepsIsReported() async throws {
        try await TestWorld.run(settings: Self.socket) { world in
            try await world.put(on: 0)
            try await comes(by: "socket", world)
            await world.bluez.setSendsFrames(false)
            let pid = try #require(await world.gateway.processID)
            kill(pid, SIGSTOP)
            await world.bluez.burst(600, from: Self.strap)
            let unsent = await world.bluez.framesUnsentCount(Self.strap)
            kill(pid, SIGCONT)
            #expect(unsent > 0)
            try await world.eventually("the full socket") {
                $0.sensors.first?.fullSockets == 1
            }
            let status = try await world.settle()
            let sent = await world.bluez.framesSentCount(Self.strap)
            #expect(status.balance.received == sent - unsent)
            #expect(world.gateway.logTail().contains("the socket of frames was full"))
            await world.expectExactlyOnce(status.balance)
        }
    }

    @Test func anUnknownWayIsRefusedWithTheWaysThereAre() async throws {
        try await TestWorld.run(
            settings: ["EDGE_GATEWAY_BLUETOOTH_NOTIFICATIONS": "pigeon"], starts: false
        ) { world in
            let outcome = try await world.gateway.command(["run"])
            #expect(outcome.status != 0)
            #expect(outcome.complaint.contains("bluetooth.notifications"))
            #expect(outcome.complaint.contains("pigeon"))
            #expect(outcome.complaint.contains("signal, socket"))
        }
    }
}
