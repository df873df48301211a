import Foundation
import Testbed
import Testing

/// `setup` at a terminal, from a new gateway to the first delivered heartbeat.
@Suite(.serialized) struct SetupTests {
    /// A run of `setup` under a pseudo-terminal: what it shows, and where to type.
    private struct Session {
        let shown: String
        let keys: FileHandle
        let running: Task<Command.Outcome, any Error>

        /// What was shown since the last answer.
        var text: String { (try? String(contentsOfFile: shown, encoding: .utf8)) ?? "" }

        func type(_ line: String) throws { try keys.write(contentsOf: Data((line + "\n").utf8)) }
    }

    private func begin(_ fixture: TestWorld, _ name: String) throws -> Session {
        let gateway = fixture.gateway
        let shown = gateway.directory.appending(path: "\(name).shown").path
        let pipe = gateway.directory.appending(path: "\(name).keys").path
        try #require(mkfifo(pipe, 0o600) == 0)
        let line = "'\(gateway.binary.path)' setup"
        let running = Task {
            try await Command.run(
                "/bin/bash",
                ["-c", "exec /usr/bin/script -qefc \"\(line)\" '\(shown)' < '\(pipe)'"],
                environment: gateway.environment, directory: gateway.directory.path)
        }
        // Opened for reading as well, it waits for nobody and never ends early.
        let keys = try #require(FileHandle(forUpdatingAtPath: pipe))
        return Session(shown: shown, keys: keys, running: running)
    }

    private func see(_ fixture: TestWorld, _ session: Session, _ words: String, times: Int = 1)
        async throws
    {
        try await fixture.eventually("it shows \(words)") { _ in
            session.text.components(separatedBy: words).count > times
        }
    }

    @Test func aNewcomerGetsFromABoxToADeliveredHeartbeatAndMayLeaveInBetween() async throws {
        try await TestWorld.run(settings: ["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "3"]) {
            fixture in
            let first = try begin(fixture, "first")
            try await see(fixture, first, "3  hand the link over from a phone")
            try await see(fixture, first, "Which? ")
            try first.type("1")
            try await see(fixture, first, "The link (it is not shown): ")
            try first.type("https://exchange.example/nothing")
            // It says what is wrong, and asks again.
            try await see(fixture, first, "Which? ", times: 2)
            try first.type("1")
            try await see(fixture, first, "The link (it is not shown): ", times: 2)
            let link = await fixture.exchange.invite(patient: 40001)
            try first.type(link)
            try await see(fixture, first, "enrolled as e1")
            #expect(!first.text.contains(link), "a link is a key")
            try await see(fixture, first, "3. The strap")
            try first.type("q")
            let left = try await first.running.value
            #expect(left.status == 0)
            #expect(first.text.contains("edge-gateway setup goes on from here"))

            let second = try begin(fixture, "second")
            try await see(fixture, second, "3. The strap")
            #expect(
                !second.text.contains("2. The invitation"), "it goes on where the gateway stands")
            try await see(fixture, second, "NUMBER")
            try second.type("99")
            try await see(fixture, second, "no strap is called")
            try second.type("1")
            try await see(fixture, second, "What is it called here?")
            try second.type("bed 4")
            try await see(fixture, second, "first heartbeat: ")
            try await see(fixture, second, "the first heartbeat has been delivered")
            try await see(fixture, second, "This gateway is set up")
            #expect(second.text.contains("bed 4: "))
            #expect(second.text.contains("live page"))
            try second.type("")
            let outcome = try await second.running.value
            #expect(outcome.status == 0, "\(second.text)")
            let stored = await fixture.exchange.storedCount()
            #expect(stored > 0)
        }
    }

    @Test func withoutATerminalItSaysWhichCommandsToUse() async throws {
        try await TestWorld.run { fixture in
            for words in [["setup"], ["setup", "--json"]] {
                let outcome = try await fixture.gateway.command(words)
                #expect(outcome.status == 2)
                for command in ["enroll -", "scan", "pair STRAP", "status"] {
                    #expect(outcome.complaint.contains("edge-gateway \(command)"), "\(outcome)")
                }
            }
        }
    }
}
