import Basics
import Foundation
import Glibc
import Testbed
import Testing

@testable import EdgeGateway

/// The way to the radio-reset helper, and the helper's own manners. That it really resets a
/// controller is seen in Tests/RealBlueZ.
@Suite struct RadioResetTests {
    /// A helper that takes one connection, keeps the line it was sent, and answers.
    private final class Helper {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "radio-\(UInt32.random(in: 0 ... .max)).sock").path
        private let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)

        init() {
            _ = UnixSocket.withAddress(path) { bind(listener, $0, $1) }
            listen(listener, 1)
        }

        deinit {
            close(listener)
            unlink(path)
        }

        /// Gives the line. It is ready to answer at once: a task might wait for a thread of the pool for
        /// longer than the client waits for an answer.
        func serveOnce(answer: String) -> AsyncStream<String> {
            let listener = listener
            let (lines, line) = AsyncStream.makeStream(of: String.self)
            Thread.detachNewThread {
                let connection = accept(listener, nil, nil)
                var bytes = [UInt8](repeating: 0, count: 64)
                let count = recv(connection, &bytes, bytes.count, 0)
                let answer = Array(answer.utf8)
                _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
                close(connection)
                line.yield(String(decoding: bytes.prefix(max(0, count)), as: UTF8.self))
                line.finish()
            }
            return lines
        }
    }

    @Test func theHelperIsGivenTheAddressAndItsWordIsTaken() async {
        for (answer, isDone) in [("ok\n", true), ("find controller: No such device\n", false)] {
            let helper = Helper()
            let asked = helper.serveOnce(answer: answer)
            let client = RadioResetClient(socketPath: helper.path)
            let done = await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    continuation.resume(returning: client.reset("00:1A:7D:DA:71:01"))
                }
            }
            #expect(done == isDone)
            #expect(await asked.first { _ in true } == "00:1A:7D:DA:71:01\n")
        }
    }

    @Test func aHelperThatIsNotInstalledIsNoFault() {
        #expect(!RadioResetClient(socketPath: "/nonexistent/reset.sock").reset("00:00:00:00:00:00"))
        let long = "/tmp/" + String(repeating: "x", count: 200)
        #expect(!RadioResetClient(socketPath: long).reset("00:00:00:00:00:00"))
    }

    @Test(arguments: ["", "hci0\n", "00:1A:7D:DA:71\n", "00:1A:7D:DA:71:01; reboot\n"])
    func theHelperTakesAnAddressAndNothingElse(line: String) async throws {
        let helper = GatewayProcess.program("edge-gateway-radio-reset")
        let outcome = try await Command.run(helper.path, [], input: line)
        #expect(outcome.status == 1)
        #expect(outcome.output == "read address: Invalid argument\n")
    }

    /// Runs the helper with a connection as systemd would, from a program of another user.
    private func ask(
        as user: String, helperWords: [String], environment: [String: String] = [:]
    ) async throws -> String {
        let script = """
            import os, socket, subprocess, sys
            here, there = socket.socketpair()
            helper, *words = sys.argv[2:]
            listener = socket.socket(socket.AF_UNIX)
            path = f"/tmp/reset-{os.getpid()}"
            listener.bind(path); os.chmod(path, 0o666); listener.listen(1)
            asker = os.fork()
            if asker == 0:
                os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
                client = socket.socket(socket.AF_UNIX); client.connect(path)
                try: client.sendall(b"00:00:00:00:00:77\\n")
                except BrokenPipeError: pass  # It may have answered and left already.
                print(client.makefile().readline(), end="", flush=True)
                os._exit(0)
            connection, _ = listener.accept()
            subprocess.run([helper, *words], stdin=connection, stdout=connection)
            connection.close(); os.waitpid(asker, 0); os.unlink(path)
            """
        let outcome = try await Command.run(
            "/usr/bin/python3",
            ["-c", script, user, GatewayProcess.program("edge-gateway-radio-reset").path]
                + helperWords,
            environment: ["PATH": "/usr/bin:/bin"].merging(environment) { $1 })
        return outcome.output
    }

    /// Everybody in the gateway's group used to be able to drop all links.
    @Test(.enabled(if: geteuid() == 0, "running as another user takes root"))
    func onlyTheDaemonsUserMayAskForAReset() async throws {
        let stranger = try await ask(as: "65534", helperWords: ["daemon"])
        #expect(stranger == "check who asks: Operation not permitted\n")
        #expect(try await ask(as: "65534", helperWords: []) == stranger)
        // User 1 is `daemon` on every Debian. There is no such controller, or no Bluetooth at all.
        let daemon = try await ask(as: "1", helperWords: ["daemon"])
        #expect(!daemon.isEmpty && !daemon.contains("who asks"), "\(daemon)")
        #expect(try await !ask(as: "0", helperWords: ["daemon"]).contains("who asks"))
    }

    /// More than six a minute used to put its unit into the failed state, for good.
    @Test func tooManyResetsAreAnsweredAndLaterOnesDone() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "resets-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let helper = GatewayProcess.program("edge-gateway-radio-reset").path
        func reset() async throws -> String {
            try await Command.run(
                helper, [], environment: ["RUNTIME_DIRECTORY": directory.path],
                input: "00:00:00:00:00:77\n"
            ).output
        }
        for _ in 0..<6 { #expect(try await !reset().contains("too many")) }
        for _ in 0..<3 {
            #expect(
                try await reset() == "too many resets in a minute: Device or resource busy\n")
        }
        // A minute later: the times are seconds of uptime, the oldest first.
        let file = directory.appending(path: "resets")
        var times = try Data(contentsOf: file).withUnsafeBytes {
            Array($0.bindMemory(to: Int64.self))
        }
        #expect(times.count == 6)
        times[0] -= 61
        try times.withUnsafeBytes { Data($0) }.write(to: file)
        #expect(try await !reset().contains("too many"))
    }
}
