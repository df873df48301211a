import Foundation
import Testbed
import Testing

/// `setup` at a terminal, from a new gateway to the first delivered heartbeat.
@Suite(.serialized) struct SetupTests {
    private static let readsPictures = ["qrencode", "zbarimg"].allSatisfy {
        FileManager.default.isExecutableFile(atPath: "/usr/bin/" + $0)
    }

    private func begin(_ fixture: TestWorld, _ name: String) throws -> TerminalSession {
        try TerminalSession.begin(fixture, "setup", name: name)
    }

    @Test func aNewcomerGetsFromABoxToADeliveredHeartbeatAndMayLeaveInBetween() async throws {
        try await TestWorld.run(settings: ["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "3"]) {
            fixture in
            let first = try begin(fixture, "first")
            try await first.see("3  hand the link over from a phone")
            try await first.see("Which? ")
            try first.type("1")
            try await first.see("The link (it is not shown): ")
            try first.type("https://exchange.example/nothing")
            // It says what is wrong, and asks again.
            try await first.see("Which? ", times: 2)
            try first.type("1")
            try await first.see("The link (it is not shown): ", times: 2)
            let link = await fixture.exchange.invite(patient: 40001)
            try first.type(link)
            try await first.see("enrolled as e1")
            #expect(!first.text.contains(link), "a link is a key")
            try await first.see("3. The strap")
            try first.type("q")
            let left = try await first.running.value
            #expect(left.status == 0)
            #expect(first.text.contains("edge-gateway setup goes on from here"))

            let second = try begin(fixture, "second")
            try await second.see("3. The strap")
            #expect(
                !second.text.contains("2. The invitation"), "it goes on where the gateway stands")
            try await second.see("NUMBER")
            try second.type("99")
            try await second.see("no strap is called")
            try await second.see("(edge-gateway scan)\r\nWhich? ")
            try second.type("1")
            try await second.see("A name for the strap")
            try second.type("bed 4")
            try await second.see("first heartbeat: ")
            try await second.see("the first heartbeat has been delivered")
            try await second.see("This gateway is set up")
            #expect(second.text.contains("bed 4: "))
            #expect(second.text.contains("live page"))
            try second.type("")
            let outcome = try await second.running.value
            #expect(outcome.status == 0, "\(second.text)")
            let stored = await fixture.exchange.storedCount()
            #expect(stored > 0)
        }
    }

    /// The second person's heart rates went to the first one's patient.
    @Test func aSecondStrapMayBeAnotherPatientsWhoseInvitationSetupTakes() async throws {
        let settings = ["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "3"]
        try await TestWorld.run(straps: 2, settings: settings) { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("a sample is delivered") { $0.balance.delivered > 0 }
            let session = try begin(fixture, "other")
            try await session.see("Pair another strap?")
            try session.type("y")
            try await session.see("Strap 2")
            try session.type("Strap 2")
            try await session.see("A name for the strap")
            try session.type("bed 2")
            try await session.see("1  e0, as Strap 1")
            try await session.see("2  another patient's invitation")
            try session.type("2")
            try await session.see("2. The invitation of the exchange")
            try session.type("1")
            try await session.see("The link (it is not shown): ")
            try session.type(await fixture.exchange.invite(patient: TestWorld.patients[1]))
            try await session.see("paired \(TestWorld.addresses[1]) bed 2")
            try await session.see("bed 2: ")
            #expect(session.text.contains("delivers through e1"))
            #expect(!session.text.contains("the same patient"), "\(session.text)")
            try session.type("q")
            let outcome = try await session.running.value
            #expect(outcome.status == 0, "\(session.text)")
        }
    }

    @Test func pairingSaysWhichStrapHasTheSamePatientOrName() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            try await fixture.put(on: 0)
            let paired = try await fixture.command(
                "pair", TestWorld.addresses[1], "--enrollment", "e0", "--name", "Strap 1")
            #expect(paired.contains("it records the same patient as Strap 1"), "\(paired)")
            #expect(paired.contains("edge-gateway pair 00:02 --name NAME"), "\(paired)")
            let renamed = try await fixture.command("pair", "00:02", "--name", "Strap 2")
            #expect(!renamed.contains("another strap has this name"), "\(renamed)")
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
                try await session.see("NUMBER", times: time + 1)
                try session.type("1")
                try await session.see("A name for the strap", times: time + 1)
                try session.type("")
                try await session.see("Which six digits does the strap show? ", times: time + 1)
                try session.type(code)
                if time == 0 { try await session.see("edge-gateway: not paired: ") }
            }
            try await session.see("paired \(address) Careful strap")
            #expect(await fixture.bluez.isBonded(address))
            try await session.see("the first heartbeat has been delivered")
            try await session.see("Pair another strap?")
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
                try await session.see("2. The invitation", times: time + 1)
                try await session.see("Which? ", times: time + 1)
                try session.type("2")
                try await session.see("Which file? ", times: time + 1)
                try session.type("~/" + file)
                try await session.see(outcome)
            }
            try await session.see("3. The strap")
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
            try await session.see("Which? ")
            try session.type("3")
            try await session.see("open it on the phone")
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
            try await session.see("edge-gateway: this is not an invitation link")
            let link = await fixture.exchange.invite(patient: TestWorld.patients[0])
            let enrolled = try await handOver(link)
            #expect(enrolled.contains("e1"), "\(enrolled)")
            try await session.see("enrolled as e1 at ")
            #expect(!session.text.contains(link), "a link is a key")
            try await session.see("3. The strap")
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
                    try await session.see(answer.isEmpty ? "A name for the strap" : "Which? ")
                    try session.type(answer)
                }
                try await session.see(question)
                if byControlC { try session.pressControlC() } else { try session.type("q") }
                let left = try await session.running.value
                #expect(left.status == (byControlC ? 130 : 0), "\(session.text)")
                let isSaid = session.text.contains("edge-gateway setup goes on from here")
                #expect(isSaid != byControlC, "\(session.text)")
            }
            try await leave(["1"], at: "The link (it is not shown): ", byControlC: false)
            // Ctrl-C did nothing here.
            try await leave(["1"], at: "The link (it is not shown): ", byControlC: true)
            try await leave(["2"], at: "Which file? ", byControlC: false)
            try await leave([], at: "Which? ", byControlC: true)
            try await leave(["2"], at: "Which file? ", byControlC: true)
            try await leave(["3"], at: "; waiting", byControlC: true)
            try await fixture.command(
                "enroll", await fixture.exchange.invite(patient: TestWorld.patients[0]))
            try await leave([], at: "NUMBER", byControlC: true)
            try await leave(["1"], at: "A name for the strap", byControlC: true)
            try await leave(["1"], at: "A name for the strap", byControlC: false)
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
