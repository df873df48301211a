import Figures
import Foundation
import Testbed

/// Something that records straps into SQLite.
protocol Recorder: Sendable {
    /// What it is called in the table.
    var name: String { get }
    /// Its database; the table `sample` has one row a notification.
    var database: String { get }
    /// Its process.
    var pid: pid_t { get async throws }
    /// Lets it record these straps.
    func start(_ straps: [String]) async throws
    /// Ends it and removes what it wrote.
    func remove() async
    /// The end of its log.
    func logTail() -> String
}

/// `edge-gateway run` with its default settings, paired to the straps through its own command.
struct Ours: Recorder {
    let name = "edge-gateway"
    let gateway: GatewayProcess
    var database: String { gateway.directory.path + "/state/queue.sqlite" }
    var pid: pid_t {
        get async throws {
            guard let pid = await gateway.processID else {
                throw FixtureFault(description: "the gateway does not run")
            }
            return pid
        }
    }

    init(binary: URL, bus: PrivateBus) throws {
        gateway = try GatewayProcess(binary: binary, busAddress: bus.address)
    }

    func start(_ straps: [String]) async throws {
        try await gateway.start()
        for strap in straps { try await gateway.succeed(["pair", strap]) }
    }

    func remove() async { await gateway.remove() }
    func logTail() -> String { gateway.logTail(lines: 10) }
}

/// `peer.py`: bleak and sqlite3.
actor Peer: Recorder {
    nonisolated let name = "bleak + sqlite3"
    nonisolated let directory: URL
    nonisolated var database: String { directory.appending(path: "peer.sqlite").path }
    private nonisolated var log: String { directory.appending(path: "log").path }
    private let python: String
    private let script: String
    private let busAddress: String
    private var process: ChildProcess?

    var pid: pid_t {
        get throws {
            guard let process, process.isRunning else {
                throw FixtureFault(description: "the peer does not run")
            }
            return process.pid
        }
    }

    init(python: String, script: String, bus: PrivateBus) throws {
        self.python = python
        self.script = script
        busAddress = bus.address
        directory = FileManager.default.temporaryDirectory
            .appending(path: "peer-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    func start(_ straps: [String]) async throws {
        var environment = ProcessInfo.processInfo.environment
        environment["DBUS_SYSTEM_BUS_ADDRESS"] = busAddress
        // The peer has Python's own.
        environment["GLIBC_TUNABLES"] = nil
        process = try await ChildProcess.launch(
            python, [script, database] + straps, environment: environment, log: log)
    }

    func remove() async {
        await process?.stop()
        try? FileManager.default.removeItem(at: directory)
    }

    nonisolated func logTail() -> String {
        let text = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(10).joined(separator: "\n")
    }
}
