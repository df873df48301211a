import Foundation
import Subprocess
import SystemPackage

/// A program that is run to its end without blocking a thread of Swift's pool: there are as few of
/// those as cores, and two that wait for a child bring everything else to a halt.
public enum Command {
    /// The outcome of a program.
    public struct Outcome: Sendable {
        /// The exit code; 128 + signal when one ended it.
        public let status: Int32
        /// Standard output.
        public let output: String
        /// Standard error.
        public let complaint: String
    }

    /// The most that is read of each stream, in bytes; a longer one is an error.
    private static let outputBytesMax = 64 << 20
    /// A program that takes longer is killed: a daemon that was expected to refuse to start, say.
    private static let patience = Duration.seconds(900)

    /// The program that took too long.
    public struct Overdue: Error, CustomStringConvertible {
        public let description: String
    }

    /// Runs a program.
    ///
    /// - Parameters:
    ///   - program: an absolute path.
    ///   - words: its arguments.
    ///   - environment: instead of this process's own.
    ///   - directory: instead of this process's own.
    ///   - input: for its standard input.
    /// - Throws: ``Overdue`` when it has not ended after a quarter of an hour, or what kept it from running.
    public static func run(
        _ program: String, _ words: [String], environment: [String: String]? = nil,
        directory: String? = nil, input: String = ""
    ) async throws -> Outcome {
        try await withThrowingTaskGroup(of: Outcome.self) { group in
            group.addTask {
                try await runToItsEnd(program, words, environment, directory, input)
            }
            group.addTask {
                try await Task.sleep(for: patience)
                throw Overdue(
                    description: "\(([program] + words).joined(separator: " ")): "
                        + "not done after \(patience)")
            }
            defer { group.cancelAll() }
            guard let outcome = try await group.next() else { throw CancellationError() }
            return outcome
        }
    }

    private static func runToItsEnd(
        _ program: String, _ words: [String], _ environment: [String: String]?,
        _ directory: String?, _ input: String
    ) async throws -> Outcome {
        let variables = environment ?? ProcessInfo.processInfo.environment
        let standardInput = try namelessFile(holding: input)
        let result = try await Subprocess.run(
            .path(FilePath(program)), arguments: Arguments(words),
            environment: .custom(
                Dictionary(
                    uniqueKeysWithValues: variables.map {
                        (Environment.Key(stringLiteral: $0.key), $0.value)
                    })),
            workingDirectory: directory.map { FilePath($0) },
            input: .fileDescriptor(standardInput, closeAfterSpawningProcess: true),
            output: .string(limit: outputBytesMax), error: .string(limit: outputBytesMax))
        let status: Int32 =
            switch result.terminationStatus {
            case .exited(let code): code
            case .signaled(let signal): 128 + signal
            }
        return Outcome(
            status: status, output: result.standardOutput,
            complaint: result.standardError)
    }

    /// A file without a name that holds a text, open at its beginning.
    ///
    /// Through a pipe, as `.string` sends it, swift-subprocess 1.0.2 ends our own process ("FileDescriptor 8 was
    /// not closed") when the program ends before it has read everything.
    private static func namelessFile(holding text: String) throws -> FileDescriptor {
        var path = Array("/tmp/input.XXXXXX".utf8CString)
        let descriptor = mkstemp(&path)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        unlink(path)
        let file = FileDescriptor(rawValue: descriptor)
        do {
            _ = try file.writeAll(text.utf8)
            _ = try file.seek(offset: 0, from: FileDescriptor.SeekOrigin.start)
        } catch {
            try? file.close()
            throw error
        }
        return file
    }
}
