import Foundation
import Testbed
import Testing

/// The daemon is told to stop while the disk blocks a write for longer than its services are given to end.
@Suite(.serialized, .enabled(if: geteuid() == 0, "needs loop mounts")) struct HeldUpStopTests {
    private static let strap = TestWorld.addresses[0]
    /// Numbered in their rate.
    private static let frames = (100..<140).map { [0x00, UInt8($0)] }

    /// The frames that waited for the change were lost.
    @Test func framesThatComeWhileAStrapChangesPatientsAreStored() async throws {
        try await run(commitSeconds: 60) { world in
            let link = await world.exchange.invite(patient: TestWorld.patients[1])
            try await world.command("enroll", "-", "--name", "second", input: link)
        } writing: { world in
            _ = try? await world.gateway.command(["pair", Self.strap, "--enrollment", "second"])
        }
    }

    /// The frames that the recorder had not taken by then were lost.
    @Test func framesThatComeWhileACommitIsHeldUpAreStored() async throws {
        try await run(commitSeconds: 1) { _ in
        } writing: { world in
            await world.bluez.emit([0x00, 90], from: Self.strap)
        }
    }

    /// Freezes the disk under a gateway, lets `writing` make it write, sends frames and stops it. The disk goes on
    /// when the daemon waits for its services no longer.
    private func run(
        commitSeconds: Int, _ prepare: @escaping (TestWorld) async throws -> Void,
        writing: @escaping @Sendable (TestWorld) async -> Void
    ) async throws {
        try await FrozenDisk.with { disk in
            var settings = Self.settings(commitSeconds: commitSeconds)
            settings["EDGE_GATEWAY_STATE"] = disk.state
            try await TestWorld.run(straps: 2, settings: settings) { world in
                try await world.put(on: 0)
                try await prepare(world)
                try await world.hush()
                var written: Task<Void, Never>?
                try await disk.whileFrozen {
                    written = Task { await writing(world) }
                    let pid = try #require(await world.gateway.processID)
                    try await Self.expect("a write waits") { Self.isHeldUp(pid) }
                    // In more than one batch.
                    for frame in Self.frames {
                        await world.bluez.emit(frame, from: Self.strap)
                        try await Task.sleep(for: .milliseconds(50))
                    }
                    await world.gateway.beginStop()
                    // For longer than services have to end.
                    try await Task.sleep(for: .seconds(5))
                }
                #expect(await world.gateway.stop().status == 0)
                await written?.value
                try await Self.expectAll(world)
            }
        }
    }

    private static func settings(commitSeconds: Int) -> [String: String] {
        [
            "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "600",
            "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "\(commitSeconds)",
        ]
    }

    /// After the next start the store has all frames that were sent.
    private static func expectAll(_ world: TestWorld) async throws {
        try await world.gateway.start()
        let status = try await world.gateway.status()
        #expect(await world.bluez.framesSentCount(strap) == status.balance.received)
        #expect(status.balance.addsUp)
    }

    private static func expect(_ what: String, _ holds: () async -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while await !holds() {
            try #require(ContinuousClock.now < deadline, "not within a minute: \(what)")
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Whether a thread of the daemon waits for the disk.
    private static func isHeldUp(_ pid: pid_t) -> Bool {
        let folder = "/proc/\(pid)/task"
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return threads.contains { thread in
            let line = try? String(contentsOfFile: "\(folder)/\(thread)/stat", encoding: .utf8)
            return line?.split(separator: ")").last?.hasPrefix(" D") ?? false
        }
    }
}
