import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import EdgeGateway

/// Names from the air and words of an exchange, on their way through the real commands.
@Suite struct HostileNameTests {
    private static let name =
        "Ada\u{1B}[2J\u{9B}31m\u{202E}live\n! radio-off for 1 s: lie\r\u{2028}\u{7}\u{E0041}"

    /// Runs `body` with a daemon whose store is full of such names.
    private func serving(_ body: (ServerFixture) async throws -> Void) async throws {
        try await ServerFixture.run { fixture in
            let queue = fixture.queue
            let sensor = try await queue.addSensor(
                address: "C0:00:00:00:00:01", details: SensorDetails(name: Self.name))
            let enrollment = try await queue.enroll(
                EnrollmentTerms(
                    name: Self.name, origin: "https://exchange.example",
                    fhirBase: "https://exchange.example/FHIR/R5/", clientID: "client",
                    patient: "40001", device: "70001", codeSystem: "s", code: "c",
                    identifierSystem: "urn:x"))
            _ = try await queue.assign(
                sensor: sensor.id, enrollment: enrollment.id, patient: nil, since: nil)
            try await queue.setHold(enrollment: enrollment.id, reason: Self.name)
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                try await body(fixture)
            }
        }
    }

    private static func isHarmless(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy {
            switch $0.properties.generalCategory {
            case .control: $0 == "\n"
            case .format, .lineSeparator, .paragraphSeparator: false
            default: true
            }
        }
    }

    @Test func namesSteerNoTerminalWhicheverCommandPrintsThem() async throws {
        try await serving { fixture in
            for words in [
                ["status"], ["straps"], ["enrollments"], ["gaps"], ["history"],
                ["history", "--hours"], ["queue", "status"], ["queue", "list"],
                ["queue", "dead", "list"], ["queue", "release"], ["watch", "--for", "1s"],
                ["doctor"], ["pair", "C0:00:00:00:00:01", "--enrollment", Self.name + "x"],
                ["erase", Self.name, "--yes"], ["config", "show"], ["decode", Self.name],
                ["status", Self.name.replacing("\n", with: "")],
            ] {
                for options in [[], ["--json"]] {
                    let outcome = try await fixture.command(words + options)
                    let text = outcome.output + outcome.complaint
                    #expect(Self.isHarmless(text), "\(words): \(text.debugDescription)")
                    #expect(
                        !text.split(separator: "\n").contains { $0.hasPrefix("! radio-off") },
                        "\(words): a name makes no line of its own: \(text.debugDescription)")
                }
            }
            let status = try await fixture.command(["status"])
            #expect(status.output.contains("Ada"), "\(status.output)")
        }
    }

    @Test func jsonHasTheNameAsItIs() async throws {
        try await serving { fixture in
            let outcome = try await fixture.command(["straps", "--json"])
            let sensors = try ReportCoding.decoder().decode(
                [SensorReport].self, from: Data(outcome.output.utf8))
            #expect(sensors.map(\.name) == [Self.name])
        }
    }

    /// `enroll` confirmed 5000 characters and stored 200; of two straps with blank names nobody knew which is which.
    @Test(arguments: [
        "", " ", "\u{A0}", " bed 4", "bed 4 ", "bed  4", "bed\n4", "bed\u{7}", "bed \u{202E}4",
        String(repeating: "x", count: 65), "e" + String(repeating: "\u{301}", count: 5_000),
    ])
    func whatCannotBeANameIsRefusedWhereverOneIsGiven(name: String) async throws {
        try await ServerFixture.run { fixture in
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                let file = FileManager.default.temporaryDirectory.path + "/\(UUID()).ndjson"
                for words in [
                    ["pair", "C0:00:00:00:00:01"],
                    ["enroll", "https://exchange.example/invitation"],
                    ["destination", "add", "file", "path=\(file)"],
                ] {
                    let outcome = try await fixture.command(words + ["--name", name])
                    #expect(outcome.status == 2, "\(words): \(outcome.complaint)")
                    #expect(
                        outcome.complaint.contains("give 1 to 64 printable characters"),
                        "\(words): \(outcome.complaint)")
                }
                let problem = #expect(throws: ProblemReport.self) {
                    try fixture.gateway.enrolling.check(WebEnrollRequest(name: name))
                }
                // A name of 76 characters "was not a name".
                #expect(problem?.message.hasPrefix("the name ") == true)
                #expect(
                    name.unicodeScalars.count <= 64
                        || problem?.message.contains("64 is the most") == true)
                #expect(try await fixture.queue.enrollments().isEmpty)
                #expect(try await fixture.queue.sensors().isEmpty)
                #expect(!FileManager.default.fileExists(atPath: file))
            }
        }
    }

    /// A strap may advertise a blank name.
    @Test func aStrapWithABlankNameIsListedByItsAddress() async throws {
        try await ServerFixture.run { fixture in
            for (address, name) in [("C0:00:00:00:00:01", ""), ("C0:00:00:00:00:02", "  ")] {
                _ = try await fixture.queue.pair(
                    address: address, details: SensorDetails(name: name), enrollment: nil,
                    patient: nil)
            }
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                for command in ["straps", "status"] {
                    let straps = try await fixture.command([command]).output
                    #expect(straps.contains("strap …00:01"), "\(command): \(straps)")
                    #expect(straps.contains("strap …00:02"), "\(command): \(straps)")
                }
            }
        }
    }
}
