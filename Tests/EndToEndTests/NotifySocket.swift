import Basics
import Foundation
import Testing

/// The socket on which systemd would listen to the daemon.
final class NotifySocket: Sendable {
    let path = FileManager.default.temporaryDirectory
        .appending(path: "notify-\(UInt32.random(in: 0 ... .max))").path
    private let descriptor: Int32

    init() throws {
        descriptor = socket(
            AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let descriptor = descriptor
        try #require(UnixSocket.withAddress(path) { bind(descriptor, $0, $1) } == 0)
    }

    deinit {
        close(descriptor)
        unlink(path)
    }

    /// Leaves no room for a message until it is taken.
    func fill() {
        let sender = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(sender) }
        while UnixSocket.withAddress(
            path, { sendto(sender, "", 0, Int32(MSG_DONTWAIT), $0, $1) }) == 0
        {}
    }

    /// What has come since the last time.
    func take() -> [String] {
        var messages: [String] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            guard count >= 0 else { return messages }
            messages.append(String(decoding: buffer.prefix(count), as: UTF8.self))
        }
    }

    /// Waits until this has come.
    func expect(_ message: String) async throws {
        try await expect(message) { take().contains(message) }
    }

    /// Waits until it was fed so often.
    func expectFed(_ times: Int) async throws {
        var fed = 0
        try await expect("fed \(times) times") {
            fed += take().filter { $0 == "WATCHDOG=1" }.count
            return fed >= times
        }
    }

    /// Waits until nothing has come for so many seconds.
    func expectSilence(seconds: Int) async throws {
        try await expect("silence") {
            try await Task.sleep(for: .seconds(seconds))
            return take().isEmpty
        }
    }

    private func expect(_ what: String, _ holds: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(120)
        while try await !holds() {
            try #require(ContinuousClock.now < deadline, "not within 2 minutes: \(what)")
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
