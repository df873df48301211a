import Foundation
import Testbed
import Testing

/// `setup` at a terminal, from a new gateway to the first delivered heartbeat.
@Suite(.serialized) struct SetupTests {
    private static let readsPictures = ["qrencode", "zbarimg"].allSatisfy {
        FileManager.default.isExecutableFile(atPath: "/usr/bin/" + $0)
    }

    /// A run of `setup` under a pseudo-terminal: what it shows, and where to type.
    private struct Session {
        let shown: String
        let keys: FileHandle
        let running: Task<Command.Outcome, any Error>

        /// What was shown since the last answer.
        var text: String { (try? String(contentsOfFile: shown, encoding: .utf8)) ?? "" }

        func type(_ line: String) throws { try keys.write(contentsOf: Data((line + "\n").utf8)) }

        func pressControlC() throws { try keys.write(contentsOf: Data([3])) }
    }

    /// Begins `setup`; the home directory of its person is the gateway's.
    private func begin(_ fixture: TestWorld, _ name: String) throws -> Session {
        let gateway = fixture.gateway
        let shown = gateway.directory.appending(path: "\(name).shown").path
        let pipe = gateway.directory.appending(path: "\(name).keys").path
        try #require(mkfifo(pipe, 0o600) == 0)
        let line = "'\(gateway.binary.path)' setup"
        let running = Task {
            try await Command.run(
                "/bin/bash",
                ["-c", "exec /usr/bin/script -qefc \"exec \(line)\" '\(shown)' < '\(pipe)'"],
                environment: gateway.environment.merging(["HOME": gateway.directory.path]) { $1 },
                directory: gateway.directory.path)
        }
        // Opened for reading as well, it waits for nobody and never ends early.
        let keys = try #require(FileHandle(forUpdatingAtPath: pipe))
        return Session(shown: shown, keys: keys, running: running)
    }

    private func see(_ fixture: TestWorld, _ session: Session, _ words: String, times: Int = 1)
        async throws
    {
        do {
            try await fixture.eventually("it shows \(words)") { _ in
                session.text.components(separatedBy: words).count > times
            }
        } catch {
            Issue.record("it shows:\n\(session.text)")
            throw error
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
            try await see(fixture, second, "(edge-gateway scan)\r\nWhich? ")
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

    @Test func aMistypedCodeOfAStrapIsNoDeadEnd() async throws {
        try await TestWorld.run(straps: 0) { fixture in
            let address = "C0:00:00:00:00:0B"
            var strap = SimulatedStrap(
                address: address, name: "Careful strap", heart: try RecordedHeart.oneHour())
            strap.security = .passkeyShown(4711)
            await fixture.bluez.add(strap)
            try await fixture.command(
                "enroll", await fixture.exchange.invite(patient: TestWorld.patients[0]))
            let session = try begin(fixture, "code")
            for (time, code) in ["123456", "004711"].enumerated() {
                try await see(fixture, session, "NUMBER", times: time + 1)
                try session.type("1")
                try await see(fixture, session, "What is it called here?", times: time + 1)
                try session.type("")
                try await see(
                    fixture, session, "Which six digits does the strap show? ", times: time + 1)
                try session.type(code)
                if time == 0 { try await see(fixture, session, "edge-gateway: not paired: ") }
            }
            try await see(fixture, session, "paired \(address) Careful strap")
            #expect(await fixture.bluez.isBonded(address))
            try await see(fixture, session, "the first heartbeat has been delivered")
            try await see(fixture, session, "Pair another strap?")
            try session.type("q")
            let outcome = try await session.running.value
            #expect(outcome.status == 0, "\(session.text)")
        }
    }

    @Test(.enabled(if: readsPictures, "it takes qrencode and zbarimg (deploy/setup --test)"))
    func aPictureInTheHomeDirectoryBringsTheInvitation() async throws {
        try await TestWorld.run { fixture in
            let link = await fixture.exchange.invite(patient: TestWorld.patients[0])
            for (name, text) in [("other.png", "https://example.org/"), ("link.png", link)] {
                let picture = fixture.gateway.directory.appending(path: name).path
                let drawn = try await Command.run("/usr/bin/qrencode", ["-o", picture, text])
                try #require(drawn.status == 0)
            }
            let session = try begin(fixture, "picture")
            for (time, (file, outcome)) in [
                ("nothing.png", "there is no such file"), ("", "it is a directory"),
                ("other.png", "holds no invitation link"), ("link.png", "enrolled as e1 at "),
            ].enumerated() {
                try await see(fixture, session, "2. The invitation", times: time + 1)
                try await see(fixture, session, "Which? ", times: time + 1)
                try session.type("2")
                try await see(fixture, session, "Which file? ", times: time + 1)
                try session.type("~/" + file)
                try await see(fixture, session, outcome)
            }
            try await see(fixture, session, "3. The strap")
            #expect(!session.text.contains(link), "a link is a key")
            try session.type("q")
            let left = try await session.running.value
            #expect(left.status == 0)
        }
    }

    @Test func aPhoneHandsTheInvitationOverWhileSetupWaits() async throws {
        let port = try FreePort.anywhere()
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]
        try await TestWorld.run(settings: settings) { fixture in
            let session = try begin(fixture, "phone")
            try await see(fixture, session, "Which? ")
            try session.type("3")
            try await see(fixture, session, "open it on the phone")
            let page = "http://127.0.0.1:\(port)/enroll#"
            let shown = try #require(session.text.components(separatedBy: page).dropFirst().first)
            let code = shown.prefix { !$0.isWhitespace }

            /// Sends what the page's script sends.
            func handOver(_ link: String) async throws -> String {
                try await Command.run(
                    "/usr/bin/curl",
                    [
                        "-s", "--max-time", "60", "-H", "Content-Type: application/json", "-d",
                        #"{"code":"\#(code)","link":"\#(link)"}"#,
                        "http://127.0.0.1:\(port)/v1/enroll-once",
                    ]
                ).output
            }
            let problem = try await handOver("https://exchange.example/nothing")
            #expect(problem.contains("message"), "\(problem)")
            // The person at the terminal reads it as well, and the page goes on.
            try await see(fixture, session, "edge-gateway: this is not an invitation link")
            let link = await fixture.exchange.invite(patient: TestWorld.patients[0])
            let enrolled = try await handOver(link)
            #expect(enrolled.contains("e1"), "\(enrolled)")
            try await see(fixture, session, "enrolled as e1 at ")
            #expect(!session.text.contains(link), "a link is a key")
            try await see(fixture, session, "3. The strap")
            try session.type("q")
            let left = try await session.running.value
            #expect(left.status == 0)
        }
    }

    @Test func qAndControlCLeaveWhereverItAsksAndTheNextRunGoesOn() async throws {
        let settings = ["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(try FreePort.anywhere())"]
        try await TestWorld.run(settings: settings) { fixture in
            var run = 0
            /// Answers the questions, and leaves at the last one.
            func leave(_ answers: [String], at question: String, byControlC: Bool) async throws {
                run += 1
                let session = try begin(fixture, "leaving\(run)")
                for answer in answers {
                    try await see(
                        fixture, session, answer.isEmpty ? "What is it called here?" : "Which? ")
                    try session.type(answer)
                }
                try await see(fixture, session, question)
                if byControlC { try session.pressControlC() } else { try session.type("q") }
                let left = try await session.running.value
                #expect(left.status == (byControlC ? 130 : 0), "\(session.text)")
                let isSaid = session.text.contains("edge-gateway setup goes on from here")
                #expect(isSaid != byControlC, "\(session.text)")
            }
            try await leave(["1"], at: "The link (it is not shown): ", byControlC: false)
            try await leave(["2"], at: "Which file? ", byControlC: false)
            try await leave([], at: "Which? ", byControlC: true)
            try await leave(["2"], at: "Which file? ", byControlC: true)
            try await leave(["3"], at: "; waiting", byControlC: true)
            try await fixture.command(
                "enroll", await fixture.exchange.invite(patient: TestWorld.patients[0]))
            try await leave([], at: "NUMBER", byControlC: true)
            try await leave(["1"], at: "What is it called here?", byControlC: true)
            try await leave(["1"], at: "What is it called here?", byControlC: false)
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
