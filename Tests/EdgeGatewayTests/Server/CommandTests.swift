import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import EdgeGateway

/// What the real commands answer to a person who does not get what was asked for.
@Suite struct CommandTests {
    private static let nobody = "65534"
    private static let setpriv = "/usr/bin/setpriv"

    /// "This user may not use it" was followed by "start it: systemctl start edge-gateway".
    @Test(
        .enabled(
            if: geteuid() == 0 && FileManager.default.isExecutableFile(atPath: setpriv),
            "it runs commands as another user"))
    func whoMayNotUseTheSocketIsToldThatAlone() async throws {
        try await ServerFixture.run { fixture in
            chmod(fixture.directory.path, 0o700)
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                for words in [["status"], ["doctor"]] {
                    let outcome = try await Command.run(
                        Self.setpriv,
                        ["--reuid", Self.nobody, "--clear-groups"]
                            + [GatewayProcess.program("edge-gateway").path] + words,
                        environment: fixture.environment, directory: "/")
                    let text = outcome.output + outcome.complaint
                    #expect(text.contains("this user (nobody) may not use it"), "\(words): \(text)")
                    #expect(text.contains("use sudo"), "\(words): \(text)")
                    #expect(outcome.status == (words == ["status"] ? 4 : 1), "\(words)")
                    #expect(!text.contains("systemctl start edge-gateway"), "\(words): \(text)")
                }
            }
        }
    }

    /// It was told to join a group that its session was in the file of already, or that the socket did not have.
    @Test func whoMayNotIsToldWhichGroupAndWhatToDo() {
        func advice(_ group: String?, _ isMemberByNow: Bool = false) -> String {
            SocketAccess(user: "pi", group: group, isMemberByNow: isMemberByNow).advice
        }
        #expect(advice("edge-gateway").hasPrefix("sudo adduser pi edge-gateway, then log in again"))
        #expect(advice("edge-gateway", true).contains("log in again, or newgrp edge-gateway"))
        #expect(advice(nil) == "it belongs to another user alone: use sudo, or be that user")
        let denied = ControlClient.Obstacle.notPermitted(SocketAccess(user: "pi", group: "staff"))
        #expect(denied.failure(at: "/run/x.sock").exitCode == .notPermitted)
        #expect(!denied.failure(at: "/run/x.sock").message.contains("no daemon"))
    }

    /// They left with 1, and one advised to correct a value that nobody had given.
    @Test func aMissingArgumentLeavesWithTwoAndIsNamed() async throws {
        try await ServerFixture.run { fixture in
            for index in 1...2 {
                try await fixture.queue.enroll(
                    EnrollmentTerms(
                        name: "e\(index)", origin: "http://127.0.0.1:9",
                        fhirBase: "http://127.0.0.1:9/FHIR/R5", clientID: "gw",
                        patient: "4000\(index)", device: "70001", codeSystem: "s", code: "c",
                        identifierSystem: "urn:x"))
            }
            let lines = (1...2).map { number in
                """
                {"uuid":"\(SampleIdentity(runNonce: 7 << 32, sample: Int64(number)))","boot":"b",\
                "uptime_us":\(number)000000,"sensor":"C0:00:00:00:00:0\(number)",\
                "assignment":\(number),"flags":0,"frame":"1048","state":"pending"}
                """
            }
            let file = fixture.directory.appending(path: "site.ndjson")
            let head = #"{"format":"edge-gateway-samples","version":1}"#
            let tail = #"{"samples":2,"damaged":0}"#
            try ([head] + lines + [tail]).map { $0 + "\n" }.joined()
                .write(to: file, atomically: true, encoding: .utf8)
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                for (words, missing) in [
                    (["pair", "C0:00:00:00:00:01"], "--enrollment"),
                    (["queue", "import", file.path], "--enrollment"),
                    (["queue", "import", file.path, "--enrollment", "e1"], "--assignment"),
                    (["fleet", "--mqtt", "mqtt://10.0.0.1"], "--allow-plain-http"),
                ] {
                    let outcome = try await fixture.command(words)
                    #expect(outcome.status == 2, "\(words): \(outcome.complaint)")
                    #expect(outcome.complaint.contains(missing), "\(words): \(outcome.complaint)")
                    #expect(outcome.output.isEmpty, "\(words): \(outcome.output)")
                }
            }
        }
    }

    /// docs/use/destinations.md said that it is removed once its straps are paired for another.
    @Test func aStrapsOwnDestinationIsErasedOnceTheStrapIsPairedForAnother() async throws {
        try await ServerFixture.run { fixture in
            var enrollments: [Int64] = []
            for name in ["own", "new"] {
                var terms = EnrollmentTerms(
                    name: name, kind: .destination, origin: "http://127.0.0.1:9", fhirBase: "",
                    identifierSystem: "urn:x")
                terms.system = "influx"
                enrollments.append(try await fixture.queue.enroll(terms).id)
            }
            let strap = try await fixture.queue.addSensor(address: "C0:00:00:00:00:01")
            for enrollment in enrollments {
                try await fixture.queue.assign(sensor: strap.id, enrollment: enrollment)
            }
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                let remove = try await fixture.command(["destination", "remove", "own", "--yes"])
                #expect(remove.status == 1)
                #expect(remove.complaint.contains("edge-gateway erase NAME"), "\(remove.complaint)")
                let erase = try await fixture.command(["erase", "own", "--yes"])
                #expect(erase.status == 0, "\(erase.complaint)")
                #expect(try await fixture.queue.enrollments().map(\.terms.name) == ["new"])
            }
        }
    }
}
