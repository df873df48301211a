import Foundation
import Synchronization

/// A message bus of one's own: the real `dbus-daemon` on a Unix socket in a fresh directory.
///
/// It allows everything to everybody who can reach the socket, and the directory is open to its
/// owner alone. The daemon dies with this process.
public actor PrivateBus {
    /// The fault while the bus started.
    public struct Fault: Error, Sendable, CustomStringConvertible {
        /// One line: what was tried and why it failed.
        public let description: String
    }

    /// The address for clients, also in `DBUS_SYSTEM_BUS_ADDRESS`; the same after `restart()`.
    public nonisolated let address: String

    /// The daemon's process ID; empty while it is not running.
    package nonisolated func processes() -> [pid_t] { current.withLock { $0 } }

    private let directory: String
    private nonisolated let current = Mutex<[pid_t]>([])
    private var daemon: ChildProcess? {
        didSet { current.withLock { $0 = daemon.map { [$0.pid] } ?? [] } }
    }

    private init(directory: String) {
        self.directory = directory
        address = "unix:path=\(directory)/bus"
    }

    /// Starts a bus.
    ///
    /// - Throws: `Fault`, when there is no `dbus-daemon` or no room for its socket.
    public static func start() async throws -> PrivateBus {
        var template = Array("/tmp/private-bus-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Fault(description: "create directory for the bus: \(errorText())")
        }
        let path = String(
            decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let bus = PrivateBus(directory: path)
        do {
            try await bus.writeConfiguration()
            try await bus.startDaemon()
        } catch {
            try? FileManager.default.removeItem(atPath: path)
            throw error
        }
        return bus
    }

    /// Kills the daemon, as a crash does, and starts another one on the same address. Every client
    /// loses its connection.
    public func restart() async throws {
        await daemon?.stop()
        daemon = nil
        try await startDaemon()
    }

    /// Kills the daemon and leaves the address dead until `restart()`.
    public func halt() async {
        await daemon?.stop()
        daemon = nil
    }

    /// Kills the daemon and removes the directory.
    public func stop() async {
        await halt()
        try? FileManager.default.removeItem(atPath: directory)
    }

    private func startDaemon() async throws {
        let program = "/usr/bin/dbus-daemon"
        guard access(program, X_OK) == 0 else {
            throw Fault(description: "start the bus: no \(program), install package dbus")
        }
        do {
            daemon = try await ChildProcess.start(
                program,
                [
                    "--nofork", "--nopidfile", "--print-address",
                    "--config-file=\(directory)/bus.conf",
                ],
                log: "\(directory)/log"
            ).0
        } catch {
            let log = try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)
            throw Fault(description: "start the bus: \(error) \(log?.suffix(500) ?? "")")
        }
    }

    private func writeConfiguration() throws {
        // The limits are those of a session bus: a system bus cuts a client off at 128 open calls.
        let configuration = """
            <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
            <busconfig>
              <listen>\(address)</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow user="*"/>
                <allow own="*"/>
                <allow send_destination="*" eavesdrop="true"/>
                <allow eavesdrop="true"/>
              </policy>
              <limit name="max_incoming_bytes">1000000000</limit>
              <limit name="max_outgoing_bytes">1000000000</limit>
              <limit name="max_message_size">1000000000</limit>
              <limit name="max_completed_connections">10000</limit>
              <limit name="max_connections_per_user">10000</limit>
              <limit name="max_match_rules_per_connection">50000</limit>
              <limit name="max_replies_per_connection">50000</limit>
            </busconfig>
            """
        do {
            try configuration.write(
                toFile: "\(directory)/bus.conf", atomically: false, encoding: .utf8)
        } catch {
            throw Fault(description: "write bus configuration: \(error)")
        }
    }

    private static func errorText() -> String {
        String(cString: strerror(errno))
    }
}
