import Foundation
import Testbed
import Testing

/// What a person at a terminal meets: completions of words, progress of what takes its time.
@Suite(.serialized) struct TerminalTests {
    /// Runs a command with a terminal as its standard error and output; what both showed.
    private func atTerminal(
        _ fixture: TestWorld, _ words: String, copy: String = "/dev/null"
    ) async throws -> String {
        let gateway = fixture.gateway
        let line = "'\(gateway.binary.path)' \(words)"
        let outcome = try await Command.run(
            "/usr/bin/script", ["-qefc", "exec \(line)", copy], environment: gateway.environment,
            directory: gateway.directory.path)
        return outcome.output
    }

    @Test func aScanSaysAtATerminalHowLongItTakesYet() async throws {
        try await TestWorld.run { fixture in
            let shown = try await atTerminal(fixture, "scan --for 3s")
            #expect(shown.contains("listening: 1 s left"), "\(shown.debugDescription)")
            // The line is gone before the table comes.
            let table = try #require(shown.components(separatedBy: "\r\u{1B}[K").last)
            #expect(table.hasPrefix("ADDRESS"))
            #expect(table.contains(TestWorld.addresses[0]))
            let piped = try await fixture.gateway.command(["scan", "--for", "3s"])
            #expect(piped.complaint.isEmpty)
        }
    }

    @Test func pairingSaysAtATerminalWhatItWaitsFor() async throws {
        try await TestWorld.run { fixture in
            await fixture.bluez.setSendsFrames(false)
            let copy = fixture.gateway.directory.appending(path: "shown").path
            let pairing = Task {
                try await atTerminal(fixture, "pair \(TestWorld.addresses[0])", copy: copy)
            }
            // The heartbeat comes when a person has wondered for a while what it waits for.
            try await fixture.eventually("it says what it waits for") { _ in
                (try? String(contentsOfFile: copy, encoding: .utf8))?.contains("pairing: ") == true
            }
            await fixture.bluez.setSendsFrames(true)
            let shown = try await pairing.value
            #expect(shown.contains("pairing: "), "\(shown.debugDescription)")
            let result = try #require(shown.components(separatedBy: "\r\u{1B}[K").last)
            #expect(
                result.hasPrefix("paired \(TestWorld.addresses[0])"), "\(shown.debugDescription)")
        }
    }

    @Test func drainWaitsUntilAllIsDeliveredAndNamesWhatIsHeld() async throws {
        try await TestWorld.run(settings: ["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "3"]) {
            fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples wait") { $0.balance.stored >= 5 }
            let printed = try await fixture.command("queue", "drain", "--json")
            struct Drained: Decodable { var delivered, left: Int }
            let report = try JSONDecoder().decode(Drained.self, from: Data(printed.utf8))
            #expect(report.left == 0)
            let stored = await fixture.exchange.storedCount()
            #expect(stored >= report.delivered && stored > 0)

            await fixture.exchange.cutNetwork()
            let before = try await fixture.gateway.status().balance.stored
            try await fixture.eventually("more wait") { $0.balance.stored >= before + 3 }
            let cut = try await fixture.gateway.command(["queue", "drain", "--for", "2s"])
            #expect(cut.status == 1)
            #expect(cut.output.contains(", held: 0"))
            try await fixture.exchange.restoreNetwork()
        }
    }

    @Test func samplesWithoutAnEnrollmentAreNamedByDrainAndNotWaitedFor() async throws {
        try await TestWorld.run { fixture in
            try await fixture.command("pair", TestWorld.addresses[0])
            try await fixture.eventually("samples") { $0.balance.stored >= 3 }
            let outcome = try await fixture.gateway.command(["queue", "drain"])
            #expect(outcome.status == 1)
            #expect(outcome.output.contains("held: not-enrolled"), "\(outcome.output)")
        }
    }

    /// What bash offers for a line that is typed so far.
    private func bash(_ fixture: TestWorld, _ words: [String]) async throws -> [Substring] {
        let script = try await fixture.command("--generate-completion-script", "bash")
        let quoted = words.map { "'\($0)'" }.joined(separator: " ")
        let line = words.joined(separator: " ")
        let program = """
            \(script)
            COMP_WORDS=(\(quoted)); COMP_CWORD=\(words.count - 1)
            COMP_LINE='\(line)'; COMP_POINT=\(line.utf8.count)
            _edge-gateway edge-gateway '\(words.last ?? "")' '\(words.dropLast().last ?? "")'
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        var environment = fixture.gateway.environment
        let folder = fixture.gateway.binary.deletingLastPathComponent().path
        environment["PATH"] = "\(folder):/usr/bin:/bin"
        let outcome = try await Command.run(
            "/bin/bash", ["-c", program], environment: environment,
            directory: fixture.gateway.directory.path)
        #expect(outcome.complaint.isEmpty, "\(outcome.complaint)")
        return outcome.output.split(separator: "\n")
    }

    @Test func bashCompletesCommandsSensorsAndEnrollments() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            #expect(try await bash(fixture, ["edge-gateway", "enrollm"]) == ["enrollments"])
            #expect(try await bash(fixture, ["edge-gateway", "queue", "dr"]) == ["drain"])
            #expect(
                try await bash(fixture, ["edge-gateway", "forget", ""]).contains {
                    $0 == TestWorld.addresses[0]
                })
            #expect(
                try await bash(fixture, ["edge-gateway", "pair", "--enrollment", ""]) == ["e0"])
        }
    }
}
