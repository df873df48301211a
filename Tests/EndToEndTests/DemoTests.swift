import Foundation
import Testbed
import Testing

/// `make demo`'s program, at a terminal and without one.
@Suite(.serialized) struct DemoTests {
    private var environment: [String: String] {
        ProcessInfo.processInfo.environment.merging(["DEMO_SECONDS": "5", "DESTINATIONS": ""]) {
            $1
        }
    }

    @Test func withoutATerminalItEndsByItselfWithTheVerdict() async throws {
        let outcome = try await Command.run(
            GatewayProcess.program("gateway-demo").path, [], environment: environment)
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.output.hasPrefix("The real gateway is set up"))
        #expect(outcome.output.contains("records and delivers heartbeats for 5 s"))
        #expect(!outcome.output.contains("Ctrl-C"))
        #expect(outcome.output.contains("The books agree: each sample is there exactly once."))
        #expect(outcome.output.contains("SIGTERM: left with 0"))
    }

    @Test func atATerminalThePageStaysOpenUntilCtrlC() async throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "demo-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let shown = folder.appending(path: "shown").path
        let pipe = folder.appending(path: "keys").path
        try #require(mkfifo(pipe, 0o600) == 0)
        let program = GatewayProcess.program("gateway-demo").path
        let environment = environment
        let running = Task {
            try await Command.run(
                "/bin/bash",
                ["-c", "exec /usr/bin/script -qefc \"exec '\(program)'\" '\(shown)' < '\(pipe)'"],
                environment: environment)
        }
        // Opened for reading as well, it waits for nobody and never ends early.
        let keys = try #require(FileHandle(forUpdatingAtPath: pipe))
        // Whatever is not as expected, the demo ends.
        defer {
            try? keys.write(contentsOf: Data([0x03]))
            try? keys.close()
        }
        func text() -> String { (try? String(contentsOfFile: shown, encoding: .utf8)) ?? "" }
        let deadline = ContinuousClock.now + .seconds(180)
        var page: String?
        while page == nil, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(200))
            let lines = text()
            if lines.contains("The books agree") {
                page = lines.firstMatch(of: #/(http://127\.0\.0\.1:\d+/)\s*$/#).map { String($0.1) }
            }
        }
        let address = try #require(page, "the link is the last line: \(text())")
        #expect(text().contains("stays open until you press Ctrl-C"))
        let answer = try await Command.run("/usr/bin/curl", ["-fsS", address])
        #expect(answer.status == 0 && answer.output.contains("<html"), "\(answer)")
        try keys.write(contentsOf: Data([0x03]))
        let outcome = try await running.value
        #expect(outcome.status == 0, "the verdict's exit code: \(text())")
        #expect(text().contains("SIGTERM: left with 0"))
        let after = try await Command.run("/usr/bin/curl", ["-fsS", address])
        #expect(after.status != 0, "nothing is left behind")
    }
}
