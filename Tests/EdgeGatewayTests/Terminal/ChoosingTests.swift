import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import EdgeGateway

/// A strap has a name, and every command takes it.
@Suite struct ChoosingTests {
    private static let straps = [
        [
            Named(thing: 1, name: "bed 1", address: "C0:00:00:00:00:01"),
            Named(thing: 2, name: "Bed 10", address: "C0:00:00:00:00:02"),
            Named(thing: 3, name: "Polar H10 8F1A2B3C", address: "A0:9E:1A:00:01:03"),
            Named(thing: 4, name: "spare", address: "C0:00:00:00:00:04"),
            Named(thing: 5, name: "spare", address: "C0:00:00:00:00:05"),
        ],
        [
            Named(thing: 6, name: "bed 1", address: "C0:00:00:00:00:06"),
            Named(thing: 7, name: "bed 7", address: "C0:00:00:00:00:07"),
        ],
    ]

    private func choose(_ text: String, takesParts: Bool = true) throws -> Int {
        try Choosing.strap.choose(text, among: Self.straps, takesParts: takesParts)
    }

    @Test(arguments: [
        ("bed 1", 1), ("BED 10", 2), (" bed 10 ", 2), ("ed 10", 2), ("polar", 3), ("8f1a", 3),
        ("c0:00:00:00:00:04", 4), ("00:05", 5), ("…00:05", 5), ("9E", 3), ("bed 7", 7),
        ("C0:00:00:00:00:06", 6),
    ])
    func aNameAnAddressOrAPartOfEitherIsEnough(text: String, meant: Int) throws {
        #expect(try choose(text) == meant)
    }

    /// `forget ADDRESS` forgot the strap of another person, which had this address for a name.
    @Test func anAddressMeansTheStrapThatHasItWhateverOthersAreCalled() throws {
        let straps = [
            [
                Named(thing: 1, name: "C0:00:00:00:00:02", address: "C0:00:00:00:00:01"),
                Named(thing: 2, name: "Ben", address: "C0:00:00:00:00:02"),
            ]
        ]
        #expect(try Choosing.strap.choose("C0:00:00:00:00:02", among: straps) == 2)
        #expect(throws: CommandFailure.self) {
            _ = try Choosing.strap.choose("C0:00:00:00:00:02", among: [[straps[0][0]]])
        }
    }

    @Test(arguments: ["C0:00:00:00:00:02", "c0:00", "…00:02", "", " a", "a  b", "a\n"])
    func aNameIsSeenAsItWasTypedAndIsNoAddress(text: String) {
        #expect(!GivenName.isValid(text))
    }

    @Test(arguments: ["bed 1", "Station 3: Fenster", "12:5", "a:b", "Zoë"])
    func otherNamesAreTaken(text: String) { #expect(GivenName.isValid(text)) }

    /// A forgotten "bed 1" must not become "bed 10", whose strap is somebody else's.
    @Test(arguments: ["bed 2", "bed 0", "ed 100", "0:00", "1B2", "C0:00:00:00:00:77", "", " "])
    func whatIsNoPartMeansNothing(text: String) throws {
        let failure = try #require(throws: CommandFailure.self) { _ = try choose(text) }
        #expect(failure.exitCode == .wrongUsage)
        #expect(failure.message.contains("there are: bed 1 (…00:01), Bed 10 (…00:02)"))
        #expect(failure.message.contains("edge-gateway straps"))
        #expect(!failure.message.contains("C0:00"), "no address in a message: \(failure.message)")
    }

    @Test(arguments: [("spare", "2 straps are meant"), ("bed", "4 straps"), ("C0", "6 straps")])
    func whatSeveralHaveIsAnsweredWithThem(text: String, says: String) throws {
        let failure = try #require(throws: CommandFailure.self) { _ = try choose(text) }
        #expect(failure.message.hasPrefix(says), "\(failure.message)")
        #expect(failure.message.contains("(…00:0"), "\(failure.message)")
    }

    /// "bed" was the one paired bed, though a forgotten one has samples that can be discarded too.
    @Test func aPartMayMeanAForgottenStrapAsWell() throws {
        let ranks = [[Named(thing: 1, name: "bed 1")], [Named(thing: 9, name: "bed 9")]]
        let failure = try #require(throws: CommandFailure.self) {
            _ = try Choosing.strap.choose("bed", among: ranks)
        }
        #expect(failure.message.hasPrefix("2 straps"), "\(failure.message)")
        #expect(try Choosing.strap.choose("bed 9", among: ranks) == 9)
    }

    @Test func aNearNameIsSuggestedAndNothingIsDoneByPartsWhereNobodyConfirms() throws {
        let failure = try #require(throws: CommandFailure.self) {
            _ = try choose("poler h10 8F1A2B3C")
        }
        #expect(failure.message.contains("did you mean Polar H10"), "\(failure.message)")
        #expect(throws: CommandFailure.self) { _ = try choose("polar", takesParts: false) }
        #expect(try choose("bed 10", takesParts: false) == 2)
    }

    @Test func whereThereIsNoneTheFirstStepIsNamed() throws {
        let none: [[Named<Int>]] = [[]]
        let failure = try #require(throws: CommandFailure.self) {
            _ = try Choosing.strap.choose("x", among: none)
        }
        #expect(failure.message == "there is no strap yet\n  \(Choosing.strap.first)")
    }

    /// What is not paired yet is found among what is heard; part of a name of a paired strap is not taken for it
    /// while another one is near.
    @Test func pairingChoosesAmongPairedAndHeardStraps() throws {
        func sighting(_ address: String, _ name: String) -> SightingReport {
            SightingReport(
                address: address, name: name, rssi: -50, known: false, connected: false,
                bonded: false)
        }
        let known = SensorReport(
            id: 1, address: "C0:00:00:00:00:01", name: "Polar H10 01", link: "absent", stored: 0,
            pending: 0)
        let heard = [
            sighting("C0:00:00:00:00:01", "Polar H10 01"),
            sighting("C0:00:00:00:00:02", "Polar H10 02"),
        ]
        #expect(try PairCommand.address("h10 02", [known], heard) == "C0:00:00:00:00:02")
        #expect(throws: CommandFailure.self) {
            _ = try PairCommand.address("polar", [known], heard)
        }
        #expect(try PairCommand.address("polar", [known], []) == "C0:00:00:00:00:01")
    }

    /// Each of them knew addresses alone, or enrollments by their whole names.
    @Test func everyCommandTakesNames() async throws {
        try await ServerFixture.run { fixture in
            let queue = fixture.queue
            let sensor = try await queue.addSensor(
                address: "C0:00:00:00:00:01", details: SensorDetails(name: "bed 4"))
            var terms = EnrollmentTerms(
                name: "Database", kind: .destination, origin: "http://127.0.0.1:9", fhirBase: "",
                identifierSystem: "urn:x")
            terms.system = "influx"
            _ = try await queue.enroll(terms)
            _ = try await queue.assign(
                sensor: sensor.id, enrollment: nil, patient: nil, since: nil)
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                let export = FileManager.default.temporaryDirectory.path + "/\(UUID()).ndjson"
                defer { try? FileManager.default.removeItem(atPath: export) }
                for words in [
                    ["gaps", "--strap", "BED"], ["watch", "--strap", "4", "--for", "1s"],
                    ["history", "--hours", "--strap", "00:01"],
                    ["queue", "list", "--strap", "bed 4"],
                    ["queue", "export", export, "--strap", "bed", "--destination", "data"],
                    ["destination", "straps", "data", "--add", "bed"],
                    ["destination", "pause", "base"], ["destination", "resume", "DATABASE"],
                    ["history", "--destination", "data", "--last", "2d"],
                    ["queue", "dead", "list", "--destination", "data"],
                    ["queue", "redeliver", "--last", "2d", "--enrollment", "data"],
                    ["forget", "bed"],
                ] {
                    let outcome = try await fixture.command(words)
                    #expect(outcome.status == 0, "\(words): \(outcome.complaint)")
                }
                for words in [
                    ["gaps", "--strap", "bed 5"], ["queue", "list", "--strap", "bed 5"],
                    ["queue", "export", export + "2", "--strap", "bed 5"],
                ] {
                    let outcome = try await fixture.command(words)
                    #expect(outcome.status == 2, "\(words)")
                    #expect(outcome.complaint.contains("there are: bed 4 (…00:01)"), "\(outcome)")
                }
                for words in [
                    ["destination", "remove", "data", "--yes"], ["erase", "data", "--yes"],
                    ["destination", "test", "other"], ["alert", "test", "mail"],
                    ["pair", "C0:00:00:00:00:01", "--enrollment", "clinic"],
                ] {
                    let outcome = try await fixture.command(words)
                    #expect(outcome.status == 2, "\(words): \(outcome)")
                    #expect(
                        outcome.complaint.contains(words[0] == "alert" ? "no alert" : "Database"),
                        "\(words): \(outcome.complaint)")
                }
            }
        }
    }
}
