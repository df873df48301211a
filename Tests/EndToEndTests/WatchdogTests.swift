import Foundation
import Testbed
import Testing

/// What the real binary tells a service manager that watches it.
@Suite(.serialized) struct WatchdogTests {
    @Test(.enabled(if: geteuid() == 0, "needs loop mounts"))
    func aWriterThatHangsIsNotFedForAndOneThatGoesOnIs() async throws {
        try await FrozenDisk.with { disk in
            try await watchWriter(on: disk)
        }
    }

    private func watchWriter(on disk: FrozenDisk) async throws {
        let settings = ["EDGE_GATEWAY_STATE": disk.state]
        try await TestWorld.run(settings: settings, starts: false) { fixture in
            let systemd = try NotifySocket()
            try await fixture.gateway.start(with: [
                "NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "900000",
            ])
            try await fixture.command("pair", TestWorld.addresses[0])
            try await systemd.expectFed(3)
            try await disk.whileFrozen {
                // The next commit, of a second, does not come back.
                try await systemd.expectSilence(seconds: 3)
            }
            try await systemd.expectFed(3)
            #expect(await fixture.gateway.stop().status == 0)
            #expect(systemd.take().contains("STOPPING=1"))
        }
    }

    @Test func aServiceManagerThatIsBusyHoldsUpNoCommand() async throws {
        try await TestWorld.run(starts: false) { fixture in
            let systemd = try NotifySocket()
            systemd.fill()
            try await fixture.gateway.start(with: [
                "NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "30000",
            ])
            try await fixture.command("pair", TestWorld.addresses[0])
            try await systemd.expect("READY=1\nSTATUS=recording")
            try await systemd.expectFed(3)
            #expect(await fixture.gateway.stop().status == 0)
        }
    }

    @Test func aDaemonWithoutAWatchdogFeedsNone() async throws {
        try await TestWorld.run(starts: false) { fixture in
            let systemd = try NotifySocket()
            try await fixture.gateway.start(with: ["NOTIFY_SOCKET": systemd.path])
            #expect(await fixture.gateway.stop().status == 0)
            let messages = systemd.take()
            #expect(messages.contains { $0.hasPrefix("READY=1") })
            #expect(!messages.contains { $0.contains("WATCHDOG") })
        }
    }
}
