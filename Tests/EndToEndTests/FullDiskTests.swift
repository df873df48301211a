import Foundation
import Testbed
import Testing

/// A disk that is full, and has room again.
@Suite(.enabled(if: geteuid() == 0, "mounting a small file system takes root"))
struct FullDiskTests {
    @Test func aFullDiskLosesNothingAndIsSaid() async throws {
        try await Self.onSmallDisk { fixture, filler in
            _ = try await Self.fill(fixture, filler)
            try Self.makeRoom(filler)
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            let sent = await fixture.bluez.framesSentCount(TestWorld.addresses[0])
            #expect(status.balance.received == sent, "what waited in memory is there")
        }
    }

    @Test func aStopAndAStartOnAFullDiskLoseNothing() async throws {
        try await Self.onSmallDisk { fixture, filler in
            let before = try await Self.fill(fixture, filler).balance
            let stop = await fixture.gateway.stop()
            #expect(stop.status == 0)
            try await fixture.gateway.start()
            let again = try await fixture.eventually("records on a full disk") { status in
                status.health.contains { $0.name == "store-unwritable" }
                    && status.balance.buffered >= 2
            }.balance
            try Self.makeRoom(filler)
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            #expect(status.balance.stored >= before.stored + before.buffered + again.buffered)
        }
    }

    @Test func onAFullDiskNothingIsPairedOrForgottenByHalf() async throws {
        try await Self.onSmallDisk { fixture, filler in
            let (worn, other) = (TestWorld.addresses[0], TestWorld.addresses[1])
            _ = try await Self.fill(fixture, filler)
            let pairing = try await fixture.gateway.command(["pair", other, "--enrollment", "e0"])
            #expect(pairing.status == 1)
            #expect(pairing.complaint.contains("disk"), "\(pairing.complaint)")
            #expect(await fixture.bluez.wait { !$0.isConnected(other) }, "its link is undone")
            let forgetting = try await fixture.gateway.command(["forget", worn])
            #expect(forgetting.status == 1, "\(forgetting.complaint)")
            #expect(try await fixture.gateway.status().sensors.map(\.address) == [worn])
            let sent = await fixture.bluez.framesSentCount(worn)
            #expect(await fixture.bluez.wait { $0.framesSentCount(worn) > sent }, "it streams on")
            try Self.makeRoom(filler)
            try await fixture.eventually("room again") { status in
                !status.health.contains { $0.name == "store-unwritable" }
            }
            try await fixture.command("pair", other, "--enrollment", "e0")
            try await fixture.eventually("both deliver") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored > 0 }
            }
            await fixture.expectExactlyOnce(try await fixture.settle().balance)
        }
    }

    /// The filler is emptied first: a child that another test starts may have inherited it, and would keep
    /// its bytes.
    private static func makeRoom(_ filler: String) throws {
        truncate(filler, 0)
        try FileManager.default.removeItem(atPath: filler)
    }

    /// Runs a world whose state directory is on a disk of a megabyte, with a strap on; `body` gets the path
    /// of the file to fill it with.
    private static func onSmallDisk(
        _ body: (TestWorld, String) async throws -> Void
    ) async throws {
        let disk = FileManager.default.temporaryDirectory
            .appending(path: "disk-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: true)
        let mounted = try await Command.run(
            "/bin/mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk])
        try #require(mounted.status == 0)
        var setup = TestWorld.Setup()
        setup.settings = ["EDGE_GATEWAY_STATE": disk + "/state"]
        setup.straps = 2
        try await TestWorld.run(setup) { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.delivered >= 2 }
            try await body(fixture, disk + "/filler")
        }
        _ = try await Command.run("/bin/umount", ["-l", disk])
        try? FileManager.default.removeItem(atPath: disk)
    }

    /// Fills the disk, and waits until that is reported and samples wait in memory.
    private static func fill(_ fixture: TestWorld, _ filler: String) async throws -> GatewayStatus {
        // It ends when the disk is full.
        _ = try await Command.run("/bin/dd", ["if=/dev/zero", "of=\(filler)", "bs=4k"])
        return try await fixture.eventually("a full disk said") { status in
            status.health.contains { $0.name == "store-unwritable" }
                && status.balance.buffered >= 4
        }
    }
}
