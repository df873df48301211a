import Foundation
import Testbed
import Testing

/// Questions to a person at a terminal: each can be left, and none takes the answer to another one.
@Suite(.serialized) struct PromptTests {
    private static let address = "C0:00:00:00:00:0B"
    private static let question = "Which six digits does the strap show? "

    /// A strap that shows the code 004711.
    private func withCarefulStrap(
        _ security: SimulatedStrap.Security = .passkeyShown(4711),
        _ work: (TestWorld) async throws -> Void
    ) async throws {
        try await TestWorld.run(straps: 0) { fixture in
            var strap = SimulatedStrap(
                address: Self.address, name: "Careful strap", heart: try RecordedHeart.oneHour())
            strap.security = security
            await fixture.bluez.add(strap)
            try await work(fixture)
        }
    }

    /// The question stayed open in the daemon, and the next pairing failed.
    @Test func controlCAtAStrapsQuestionEndsThePairingAndTheNextOneWorks() async throws {
        try await withCarefulStrap { fixture in
            let first = try TerminalSession.begin(fixture, "pair \(Self.address)", name: "first")
            try await first.see(Self.question)
            try first.pressControlC()
            #expect(try await first.running.value.status == 130)
            let second = try TerminalSession.begin(fixture, "pair \(Self.address)", name: "second")
            try await second.see(Self.question)
            try second.type("004711")
            let outcome = try await second.running.value
            #expect(outcome.status == 0, "\(second.text)")
            #expect(second.text.contains("paired \(Self.address)"))
        }
    }

    /// Letters counted as no, and more than six digits were refused without a word.
    @Test func anAnswerThatIsNoCodeIsAskedForAgain() async throws {
        try await withCarefulStrap { fixture in
            let session = try TerminalSession.begin(fixture, "pair \(Self.address)", name: "slips")
            for (time, slip) in ["", "yes", "4711", "0047111"].enumerated() {
                try await session.see(Self.question, times: time + 1)
                try session.type(slip)
                try await session.see("type all six digits, such as 004711", times: time + 1)
            }
            try await session.see(Self.question, times: 5)
            try session.type("004 711")
            let outcome = try await session.running.value
            #expect(outcome.status == 0, "\(session.text)")
        }
    }

    @Test func qAtAStrapsQuestionLeavesSetupAndPairsNothing() async throws {
        try await withCarefulStrap { fixture in
            try await fixture.command(
                "enroll", await fixture.exchange.invite(patient: TestWorld.patients[0]))
            let session = try TerminalSession.begin(fixture, "setup")
            try await askInSetup(session)
            try session.type("q")
            let outcome = try await session.running.value
            #expect(outcome.status == 0, "\(session.text)")
            #expect(session.text.contains("edge-gateway setup goes on from here"))
            #expect(try await fixture.command("straps").contains(Self.address) == false)
        }
    }

    /// Chooses the strap in `setup`, until it asks for its code.
    private func askInSetup(_ session: TerminalSession) async throws {
        try await session.see("NUMBER")
        try session.type("1")
        try await session.see("A name for the strap")
        try session.type("")
        try await session.see(Self.question)
    }

    @Test func aComparisonTakesYesOrNoAndNothingElse() async throws {
        try await withCarefulStrap(.comparison(4711)) { fixture in
            let session = try TerminalSession.begin(fixture, "pair \(Self.address)")
            try await session.see("Does the strap show 004711? [y/N] ")
            try session.type("004711")
            try await session.see("type y or n")
            try await session.see("Does the strap show 004711? [y/N] ", times: 2)
            try session.type("y")
            let outcome = try await session.running.value
            #expect(outcome.status == 0, "\(session.text)")
        }
    }

    /// It went to the question that nobody had answered.
    @Test func aLineTypedAfterAnUnansweredQuestionAnswersTheNextOne() async throws {
        try await withCarefulStrap { fixture in
            try await fixture.command(
                "enroll", await fixture.exchange.invite(patient: TestWorld.patients[0]))
            let session = try TerminalSession.begin(fixture, "setup")
            try await askInSetup(session)
            // Somebody else declines, so that the question is open no longer.
            let declined = try await Command.run(
                "/usr/bin/curl",
                [
                    "-sS", "--max-time", "30", "--unix-socket",
                    fixture.gateway.directory.path + "/control.sock",
                    "-H", "Content-Type: application/json",
                    "-d", #"{"address":"\#(Self.address)","agreed":false}"#,
                    "http://localhost/v1/pairing/answer",
                ])
            #expect(declined.status == 0, "\(declined.complaint)")
            try await session.see("edge-gateway: not paired: ")
            try await session.see("NUMBER", times: 2)
            try session.type("q")
            let outcome = try await session.running.value
            #expect(outcome.status == 0, "\(session.text)")
            #expect(session.text.contains("edge-gateway setup goes on from here"))
        }
    }

    /// Ctrl-C was ignored.
    @Test func controlCEndsAHiddenPromptAndTheTerminalShowsAgainWhatIsTyped() async throws {
        try await TestWorld.run { fixture in
            let session = try TerminalSession.begin(
                fixture, "enroll -", afterwards: "echo ended with $?; stty -a")
            try await session.see("The link (it is not shown): ")
            try session.pressControlC()
            _ = try await session.running.value
            #expect(session.text.contains("ended with 130"), "\(session.text)")
            #expect(session.text.contains(" echo "), "\(session.text)")
            #expect(!session.text.contains("-isig"), "\(session.text)")
            #expect(!session.text.contains("enrolled"))
        }
    }
}
