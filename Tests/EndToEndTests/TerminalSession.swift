import Foundation
import Testbed
import Testing

/// A program under a pseudo-terminal: what it shows, and where to type.
struct TerminalSession {
    let running: Task<Command.Outcome, any Error>
    private let fixture: TestWorld
    private let shown: String
    private let keys: FileHandle

    /// Begins `edge-gateway` with these words; the home directory of its person is the gateway's.
    ///
    /// - Parameters:
    ///   - name: of its files; none is used twice.
    ///   - afterwards: what a shell does once the command has ended, in the same terminal.
    static func begin(
        _ fixture: TestWorld, _ words: String, name: String = "terminal",
        afterwards: String? = nil
    ) throws -> TerminalSession {
        let gateway = fixture.gateway
        let shown = gateway.directory.appending(path: "\(name).shown").path
        let pipe = gateway.directory.appending(path: "\(name).keys").path
        try #require(mkfifo(pipe, 0o600) == 0)
        let line = "'\(gateway.binary.path)' \(words)"
        // A shell that a signal to the command ended as well would do nothing afterwards.
        let program = afterwards.map { "trap : INT; \(line); \($0)" } ?? "exec \(line)"
        let running = Task {
            try await Command.run(
                "/bin/bash",
                ["-c", #"exec /usr/bin/script -qefc "$0" "$1" < "$2""#, program, shown, pipe],
                environment: gateway.environment.merging(["HOME": gateway.directory.path]) { $1 },
                directory: gateway.directory.path)
        }
        // Opened for reading as well, it waits for nobody and never ends early.
        let keys = try #require(FileHandle(forUpdatingAtPath: pipe))
        return TerminalSession(running: running, fixture: fixture, shown: shown, keys: keys)
    }

    /// All that it has shown.
    var text: String { (try? String(contentsOfFile: shown, encoding: .utf8)) ?? "" }

    func type(_ line: String) throws { try keys.write(contentsOf: Data((line + "\n").utf8)) }

    func pressControlC() throws { try keys.write(contentsOf: Data([3])) }

    /// Waits until it has shown these words so many times.
    func see(_ words: String, times: Int = 1) async throws {
        do {
            try await fixture.eventually("it shows \(words)") { _ in
                text.components(separatedBy: words).count > times
            }
        } catch {
            Issue.record("it shows:\n\(text)")
            throw error
        }
    }
}
