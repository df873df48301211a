import Foundation
import Testbed
import Testing

/// What the real binary tells a service manager that watches it.
@Suite(.serialized) struct WatchdogTests {
    /// The socket that systemd would listen on.
    private final class NotifySocket: Sendable {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "notify-\(UInt32.random(in: 0 ... .max))").path
        private let descriptor: Int32

        init() throws {
            descriptor = socket(
                AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
            let bound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            try #require(bound == 0)
        }

        deinit {
            close(descriptor)
            unlink(path)
        }

        /// What has come since the last time.
        func take() -> [String] {
            var messages: [String] = []
            var buffer = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
                guard count > 0 else { return messages }
                messages.append(String(decoding: buffer.prefix(count), as: UTF8.self))
            }
        }

        /// Waits until it was fed so often.
        func expectFed(_ times: Int, withinSeconds seconds: Int = 120) async throws {
            let deadline = ContinuousClock.now + .seconds(seconds)
            var fed = 0
            while fed < times {
                try #require(ContinuousClock.now < deadline, "fed \(fed) times in \(seconds) s")
                fed += take().filter { $0 == "WATCHDOG=1" }.count
                try await Task.sleep(for: .milliseconds(50))
            }
        }

        /// Waits until nothing has come for so many seconds.
        func expectSilence(seconds: Int, withinSeconds limit: Int = 60) async throws {
            let deadline = ContinuousClock.now + .seconds(limit)
            repeat {
                try #require(ContinuousClock.now < deadline, "it is fed on after \(limit) s")
                try await Task.sleep(for: .seconds(seconds))
            } while !take().isEmpty
        }
    }

    /// A file system in a file, which can be frozen.
    private static func mountedDisk() async throws -> String {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "frozen-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let make = """
            truncate -s 64M '\(path).img' && mkfs.ext4 -q -F '\(path).img' \
            && mount -o loop '\(path).img' '\(path)'
            """
        let made = try await Command.run("/bin/sh", ["-c", make])
        try #require(made.status == 0, "\(made.complaint)")
        return path
    }

    private static func remove(_ disk: String) async {
        _ = try? await Command.run("/bin/sh", ["-c", "umount -l '\(disk)'; rm -rf '\(disk)'*"])
    }

    private static func freeze(_ disk: String, _ flag: String) async throws {
        let outcome = try await Command.run("/sbin/fsfreeze", [flag, disk])
        try #require(outcome.status == 0, "\(outcome.complaint)")
    }

    @Test(.enabled(if: geteuid() == 0, "needs loop mounts"))
    func aWriterThatHangsIsNotFedForAndOneThatGoesOnIs() async throws {
        let disk = try await Self.mountedDisk()
        let settings = ["EDGE_GATEWAY_STATE": disk + "/state"]
        try await TestWorld.run(settings: settings, starts: false) { fixture in
            let systemd = try NotifySocket()
            try await fixture.gateway.start(with: [
                "NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "900000",
            ])
            try await fixture.command("pair", TestWorld.addresses[0])
            try await systemd.expectFed(3)
            try await Self.freeze(disk, "-f")
            // The next commit, of a second, does not come back.
            try await systemd.expectSilence(seconds: 3)
            try await Self.freeze(disk, "-u")
            try await systemd.expectFed(3)
            #expect(await fixture.gateway.stop().status == 0)
            #expect(systemd.take().contains("STOPPING=1"))
        }
        await Self.remove(disk)
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
