import CGlibc
import Foundation
import Synchronization

/// A program that dies with us, however we die.
///
/// `setpriv --pdeathsig KILL` asks the kernel to kill the child when its parent goes. To the kernel
/// the parent is the *thread* that started it, and threads of a pool come and go; so each child has
/// a thread of its own that starts it and then only waits for its end.
public final class ChildProcess: Sendable {
    /// Why a program could not be started.
    public struct Fault: Error, CustomStringConvertible {
        /// One line: what was started and why it failed.
        public var description: String
    }

    /// Its process.
    public let pid: pid_t
    /// The exit code, or 128 + signal, once it is over.
    private let end = Mutex<Int32?>(nil)
    /// How often a wait looks whether the end has come.
    private static let waitPause = Duration.milliseconds(2)

    private init(pid: pid_t) {
        self.pid = pid
    }

    /// Starts a program and waits for the first line it prints, the only one it may print.
    ///
    /// - Parameters:
    ///   - program: an absolute path.
    ///   - arguments: without the program's own name.
    ///   - log: path of a file for its standard error.
    /// - Returns: the process, and its first line of standard output.
    public static func start(
        _ program: String, _ arguments: [String], log: String
    ) async throws -> (ChildProcess, firstLine: String) {
        try await withCheckedThrowingContinuation { continuation in
            let thread = Thread {
                let child: ChildProcess
                let output: Int32
                do {
                    (child, output) = try spawn(
                        "/usr/bin/setpriv", ["--pdeathsig", "KILL", "--", program] + arguments,
                        log: log)
                } catch {
                    continuation.resume(throwing: error)
                    return
                }
                let line = readLine(output)
                close(output)
                if line.isEmpty {
                    kill(child.pid, SIGKILL)
                    child.reap()
                    continuation.resume(throwing: Fault(description: "start \(program): no output"))
                    return
                }
                continuation.resume(returning: (child, firstLine: line))
                child.reap()
            }
            thread.stackSize = 256 * 1024
            thread.start()
        }
    }

    /// Starts a program that goes on.
    ///
    /// - Parameters:
    ///   - program: an absolute path.
    ///   - arguments: without the program's own name.
    ///   - environment: instead of this process's own.
    ///   - log: path of a file for its standard error.
    ///   - output: path of a file for its standard output, which nobody reads otherwise.
    public static func launch(
        _ program: String, _ arguments: [String], environment: [String: String], log: String,
        output file: String? = nil
    ) async throws -> ChildProcess {
        try await withCheckedThrowingContinuation { continuation in
            let thread = Thread {
                do {
                    let (child, output) = try spawn(
                        "/usr/bin/setpriv", ["--pdeathsig", "KILL", "--", program] + arguments,
                        environment: environment, log: log, file: file)
                    close(output)
                    continuation.resume(returning: child)
                    child.reap()
                } catch {
                    continuation.resume(throwing: error)
                }
            }
            thread.stackSize = 256 * 1024
            thread.start()
        }
    }

    /// Whether it has not ended.
    public var isRunning: Bool { status == nil }

    /// The exit code, or 128 + signal; nil while it runs.
    public var status: Int32? { end.withLock { $0 } }

    /// Sends it a signal, if it has not ended.
    public func signal(_ number: Int32) {
        end.withLock { if $0 == nil { _ = kill(pid, number) } }
    }

    /// Waits for its end.
    ///
    /// - Returns: the exit code, or 128 + signal.
    public func wait() async -> Int32 {
        while true {
            if let status = end.withLock({ $0 }) { return status }
            try? await Task.sleep(for: Self.waitPause)
        }
    }

    /// Kills the program and waits until it is gone.
    public func stop() async {
        signal(SIGKILL)
        _ = await wait()
    }

    private func reap() {
        // Look without taking first: while the lock is free, the pid must still be the child's.
        var information = siginfo_t()
        while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        end.withLock {
            var status: Int32 = 0
            while waitpid(pid, &status, 0) == -1, errno == EINTR {}
            // WIFSIGNALED and WEXITSTATUS are macros that Swift does not see.
            let signal = status & 0x7f
            $0 = signal == 0 ? status >> 8 & 0xff : 128 + signal
        }
    }

    private static func spawn(
        _ program: String, _ arguments: [String], environment: [String: String]? = nil, log: String,
        file: String? = nil
    ) throws -> (ChildProcess, output: Int32) {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else {
            throw Fault(description: "start \(program): \(String(cString: strerror(errno)))")
        }
        defer { close(ends[1]) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        if let file {
            posix_spawn_file_actions_addopen(
                &actions, 1, file, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        } else {
            posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        }
        posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)

        // A listening socket that a child inherits keeps its port long after it was closed here. Closing those
        // of a list made here would miss what another thread opens meanwhile.
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)

        // A server ignores or blocks signals that the child wants.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        var defaults = sigset_t()
        sigfillset(&defaults)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF))

        var words: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) }
        words.append(nil)
        defer { for word in words { free(word) } }
        let environment = environment ?? ProcessInfo.processInfo.environment
        var variables = environment.map { strdup("\($0.key)=\($0.value)") }
        variables.append(nil)
        defer { for variable in variables { free(variable) } }
        var pid: pid_t = 0
        let result = posix_spawn(&pid, program, &actions, &attributes, words, variables)
        guard result == 0 else {
            close(ends[0])
            throw Fault(description: "start \(program): \(String(cString: strerror(result)))")
        }
        return (ChildProcess(pid: pid), ends[0])
    }

    /// Reads up to a line feed or the end; empty at the end.
    private static func readLine(_ descriptor: Int32) -> String {
        var line: [UInt8] = []
        var byte: UInt8 = 0
        while line.count < 4096 {
            let count = read(descriptor, &byte, 1)
            if count == -1, errno == EINTR { continue }
            guard count == 1 else { break }
            line.append(byte)
            if byte == UInt8(ascii: "\n") { break }
        }
        return String(decoding: line, as: UTF8.self)
    }
}
