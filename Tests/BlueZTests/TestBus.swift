import BlueZ
import Foundation
import Synchronization
import Testbed
import Testing

/// A real dbus-daemon of the test's own, on a socket in a temporary directory.
final class TestBus: Sendable {
    let address: String
    private let directory: URL
    private let process: pid_t
    private let isRunning = Mutex(true)

    init() throws {
        directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("bus-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let configuration = directory.appendingPathComponent("bus.conf")
        let socket = directory.appendingPathComponent("socket").path
        address = "unix:path=\(socket)"
        try """
        <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
        <busconfig>
          <listen>\(address)</listen>
          <auth>EXTERNAL</auth>
          <policy context="default">
            <allow send_destination="*" eavesdrop="true"/>
            <allow eavesdrop="true"/>
            <allow own="*"/>
          </policy>
        </busconfig>
        """.write(to: configuration, atomically: true, encoding: .utf8)
        process = try Self.spawn(configuration: configuration.path)
    }

    /// Starts the daemon and waits until it has printed its address, that is, until it listens.
    private static func spawn(configuration: String) throws -> pid_t {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { for end in ends { close(end) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        let arguments = [
            "dbus-daemon", "--config-file=\(configuration)", "--nofork", "--nopidfile",
            "--print-address",
        ]
        var argv: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var process = pid_t()
        try #require(
            posix_spawn(&process, "/usr/bin/dbus-daemon", &actions, nil, &argv, environ) == 0)
        var byte: UInt8 = 0
        try #require(read(ends[0], &byte, 1) == 1)
        return process
    }

    func open() async throws -> DBusConnection {
        try await DBusConnection.open(address: address)
    }

    /// Ends the daemon at once, as a crash would.
    func stop() {
        let mustWait = isRunning.withLock { isRunning in
            defer { isRunning = false }
            return isRunning
        }
        guard mustWait else { return }
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
    }

    deinit {
        stop()
        try? FileManager.default.removeItem(at: directory)
    }
}

/// A service that answers every call by a function.
func serve(
    _ connection: DBusConnection, name: String,
    answer: @escaping @Sendable (DBusMessage) -> DBusMessage?
) async throws -> Task<Void, Never> {
    try await connection.requestName(name)
    return Task {
        for await batch in connection.incoming() {
            for message in batch where message.kind == .call {
                if let reply = answer(message) { connection.send(reply) }
            }
        }
    }
}
