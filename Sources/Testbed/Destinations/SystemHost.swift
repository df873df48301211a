import Foundation
import Synchronization

/// Why a real system cannot be used.
public struct SystemFault: Error, CustomStringConvertible {
    /// The fault, and the remedy where that is known.
    public let description: String

    public init(_ description: String) { self.description = description }
}

/// Runs the programs of one real system: a directory of its own for their data, which goes with them,
/// and a log of what they complain about. They die with this process, however it dies.
public final class SystemHost: Sendable {
    private struct Running {
        var child: ChildProcess
        /// The signal that ends it.
        var end: Int32
    }

    /// The repository.
    public static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    /// Python with the libraries of third parties, which Tests/Conformance/setup installs.
    public static let judgesPython = root.appending(path: ".build-oracles/bin/python").path
    /// Python with a FHIR server, which Tests/Conformance/setup installs as well.
    public static let fhirPython = root.appending(path: ".build-fhir/bin/python").path
    /// Debian's Python, with Debian's libraries.
    public static let debianPython = "/usr/bin/python3"

    /// An HTTP server may take so long to start, in tenths of a second; a loaded machine needs a few seconds.
    private static let startTenthsMax = 300
    /// A request takes this long at most, in seconds.
    private static let requestSecondsMax = 60

    /// Where the programs keep their data.
    public let directory: String
    private let running = Mutex<[Running]>([])

    private init() throws {
        // Not below TMPDIR: the path of a Unix socket has room for some hundred bytes.
        directory = "/tmp/system-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o700])
    }

    /// Starts a system. What was started is ended, and the directory removed, when that fails.
    ///
    /// - Parameters:
    ///   - kind: what it is for, in the words of `deploy/setup --destinations`.
    ///   - programs: absolute paths of what it takes.
    /// - Throws: ``SystemFault`` when a program is missing, or what `body` throws.
    public static func start<System>(
        _ kind: String, needs programs: [String], _ body: (SystemHost) async throws -> System
    ) async throws -> System {
        for program in programs where !FileManager.default.isExecutableFile(atPath: program) {
            let remedy =
                [judgesPython, fhirPython].contains(program)
                ? "Tests/Conformance/setup makes it"
                : "deploy/setup --destinations \(kind), or --test, installs it"
            throw SystemFault("\(kind) needs \(program): \(remedy)")
        }
        let host = try SystemHost()
        do {
            return try await body(host)
        } catch {
            await host.stop()
            throw error
        }
    }

    /// Where the programs complain.
    public var log: String { path("log") }

    /// A file in the directory.
    public func path(_ name: String) -> String { "\(directory)/\(name)" }

    /// Writes a file that its owner alone can read.
    ///
    /// - Returns: its path.
    @discardableResult
    public func write(_ text: String, to name: String) throws -> String {
        let path = path(name)
        guard
            FileManager.default.createFile(
                atPath: path, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        else { throw SystemFault("cannot write \(path)") }
        return path
    }

    /// Starts a program that goes on.
    ///
    /// - Parameters:
    ///   - program: an absolute path.
    ///   - words: its arguments.
    ///   - environment: more variables than a home and a path.
    ///   - output: the file in the directory for its standard output.
    ///   - end: the signal that ends it.
    public func launch(
        _ program: String, _ words: [String], environment: [String: String] = [:],
        output: String? = nil, end: Int32 = SIGKILL
    ) async throws {
        let standard = ["HOME": directory, "PATH": "/usr/bin:/bin"]
        let child = try await ChildProcess.launch(
            program, words, environment: standard.merging(environment) { $1 }, log: log,
            output: output.map(path))
        running.withLock { $0.append(Running(child: child, end: end)) }
    }

    /// Starts a script of Tests/Conformance that prints its port as its only line.
    ///
    /// - Returns: the port.
    /// - Throws: ``SystemFault`` with the end of its log when it prints none.
    public func script(_ name: String, _ words: [String], python: String) async throws -> Int {
        let path = Self.root.appending(path: "Tests/Conformance/\(name)").path
        do {
            let (child, line) = try await ChildProcess.start(python, [path] + words, log: log)
            running.withLock { $0.append(Running(child: child, end: SIGKILL)) }
            if let port = Int(line.trimmingCharacters(in: .whitespacesAndNewlines)) { return port }
        } catch is ChildProcess.Fault {}
        throw SystemFault("\(name) does not start: \(logTail)")
    }

    /// Runs a program to its end.
    ///
    /// - Returns: what it prints.
    /// - Throws: ``SystemFault`` with its complaint when it leaves with another status than 0.
    @discardableResult
    public func run(_ program: String, _ words: [String]) async throws -> String {
        // Also when the caller is cancelled: what is killed in the middle leaves children that still write.
        let outcome = try await Task { [directory] in
            try await Command.run(program, words, directory: directory)
        }.value
        guard outcome.status == 0 else {
            throw SystemFault(
                "\(program) left with \(outcome.status): \(outcome.output)\(outcome.complaint)")
        }
        return outcome.output
    }

    /// Waits until a server answers, half a minute at least.
    ///
    /// - Throws: ``SystemFault`` with the end of its log when it does not.
    public func wait(for address: String) async throws {
        for _ in 0..<Self.startTenthsMax {
            let outcome = try await Self.curl(
                ["-o", "/dev/null", "-w", "%{http_code}", address])
            if let status = Int(outcome.output), 100..<500 ~= status { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw SystemFault("\(address) does not answer: \(logTail)")
    }

    /// The answer of a server.
    ///
    /// - Throws: ``SystemFault`` when it does not answer, or with a status of 400 or more.
    public func get(_ address: String) async throws -> Data { try await ask([address], address) }

    /// The answer of a server to an empty POST, as ``get(_:)`` does.
    @discardableResult
    public func post(_ address: String) async throws -> Data {
        try await ask(["-X", "POST", address], address)
    }

    private func ask(_ words: [String], _ address: String) async throws -> Data {
        let outcome = try await Self.curl(["-S", "--fail"] + words)
        guard outcome.status == 0 else { throw SystemFault("\(address): \(outcome.complaint)") }
        return Data(outcome.output.utf8)
    }

    private static func curl(_ words: [String]) async throws -> Command.Outcome {
        try await Command.run(
            "/usr/bin/curl",
            ["-s", "--globoff", "--noproxy", "*", "--max-time", "\(requestSecondsMax)"] + words)
    }

    /// The end of the log.
    public var logTail: String {
        String(((try? String(contentsOfFile: log, encoding: .utf8)) ?? "").suffix(500))
    }

    /// Ends the programs, the last one first, and removes the directory.
    public func stop() async {
        let all = running.withLock { running in
            defer { running = [] }
            return running
        }
        for one in all.reversed() {
            one.child.signal(one.end)
            _ = await one.child.wait()
        }
        try? FileManager.default.removeItem(atPath: directory)
    }
}
