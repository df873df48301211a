import Foundation
import Testbed
import Testing

/// One practitioner's key for many patients, through the real binary.
@Suite struct PractitionerTests {
    private static let secret: String = {
        let key = ExchangeSeed.standard.practitionerKeys[0]
        return Data("\(key.clientID):\(key.secret)".utf8).base64EncodedString()
    }()

    /// The exchange's answer when the key was made.
    @discardableResult
    static func enroll(_ fixture: TestWorld, device: String? = "70007") async throws -> String {
        let file = fixture.gateway.directory.appending(path: "key.json").path
        let answer =
            #"{"id":7,"label":"gateway","created":"2026-11-20T10:00:00Z","name":"gateway","key":""#
            + Self.secret + #""}"#
        try answer.write(toFile: file, atomically: true, encoding: .utf8)
        chmod(file, 0o600)
        var words = [
            "enroll", "--practitioner-key-file", file, "--name", "ward", "--json", "--exchange",
            "http://127.0.0.1:\(fixture.exchange.port)",
        ]
        if let device { words += ["--device", device] }
        let outcome = try await fixture.gateway.command(words)
        try #require(outcome.status == 0, "\(outcome.complaint)")
        return outcome.output
    }

    @Test func twoStrapsOfTwoPatientsGoThroughOneKeyEachToItsOwn() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            let report = try await Self.enroll(fixture)
            #expect(report.contains(#""kind" : "practitioner-key""#))
            #expect(!report.contains(Self.secret))
            for (address, patient) in zip(TestWorld.addresses, TestWorld.patients) {
                try await fixture.command("pair", address, "--patient", "\(patient)")
            }
            try await fixture.eventually("samples of both") { status in
                status.sensors.allSatisfy { $0.stored >= 4 } && status.sensors.count == 2
            }
            await fixture.gateway.kill()
            try await fixture.gateway.start()
            try await fixture.eventually("streaming again") { status in
                status.sensors.allSatisfy { $0.stored >= 7 }
            }
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            for (index, patient) in TestWorld.patients.enumerated() {
                let sensor = status.sensors.first { $0.address == TestWorld.addresses[index] }
                #expect(await fixture.exchange.storedCount(patient: patient) == sensor?.stored)
            }
            await fixture.gateway.stop()
            let log = try String(contentsOf: fixture.gateway.logFile, encoding: .utf8)
            #expect(!log.contains(Self.secret) && !log.contains("40001"))
        }
    }

    /// Frames gather for seconds before they are stored: the first patient's last ones came to the second.
    @Test func aStrapThatChangesPatientsBringsTheSecondNothingOfTheFirst() async throws {
        try await TestWorld.run { fixture in
            _ = try await Self.enroll(fixture)
            let address = TestWorld.addresses[0]
            let format = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
            func times(_ patient: Int) async throws -> [Date] {
                try await fixture.exchange.stored.filter { $0.patient == patient }
                    .map { try format.parse(try #require($0.effectiveTime)) }
            }
            try await fixture.command("pair", address, "--patient", "40001")
            try await fixture.eventually("samples of the first") { status in
                status.sensors.allSatisfy { $0.stored >= 6 }
            }
            let changed = Date()
            try await fixture.command("pair", address, "--patient", "40002")
            try await fixture.eventually("samples of the second") { _ in
                await fixture.exchange.storedCount(patient: 40002) >= 3
            }
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            let first = try #require(try await times(40001).max())
            let second = try #require(try await times(40002).min())
            #expect(first <= second && changed <= second, "\(first) \(changed) \(second)")
        }
    }

    @Test func whoCannotBeServedIsRefusedWithAdviceBeforeAnythingIsDone() async throws {
        try await TestWorld.run { fixture in
            _ = try await Self.enroll(fixture, device: nil)
            let address = TestWorld.addresses[0]
            let refusals: [([String], String)] = [
                ([], "--patient"), (["--patient", "40003"], "share an organization"),
                (["--patient", "49999"], "share an organization"),
                (["--patient", "../users"], "identifier"), (["--patient", "4OOO1"], "is a number"),
                (["--patient", "40001"], "70007 (Edge Gateway)"),
                (["--patient", "40001", "--device", "70005"], "70007 (Edge Gateway)"),
            ]
            for (words, advice) in refusals {
                let outcome = try await fixture.gateway.command(["pair", address] + words)
                #expect([1, 2].contains(outcome.status), "\(words)")
                #expect(outcome.complaint.contains(advice), "\(words): \(outcome.complaint)")
            }
            let none = try await fixture.command("straps", "--json")
            #expect(!none.contains(address))
            await fixture.exchange.withdrawConsent(patient: 40002)
            let output = try await fixture.command(
                "pair", address, "--patient", "40002", "--device", "70007")
            #expect(output.contains("note: the patient has not consented"))
        }
    }

    @Test func aPatientWhoseStudiesCollectNoHeartRateIsRefused() async throws {
        var seed = ExchangeSeed.standard
        for index in seed.studies.indices { seed.studies[index].codes = ["omh:blood-pressure:4.0"] }
        seed.consents.removeAll { $0.code == "omh:heart-rate:2.0" }
        try await TestWorld.run(seed: seed) { fixture in
            _ = try await Self.enroll(fixture)
            let words = ["pair", TestWorld.addresses[0], "--patient", "40001"]
            let outcome = try await fixture.gateway.command(words)
            #expect(outcome.status == 1)
            #expect(outcome.complaint.contains("no study of this patient collects heart rate"))
            #expect(outcome.complaint.contains("ask the study's staff"))
            let none = try await fixture.command("straps", "--json")
            #expect(!none.contains(TestWorld.addresses[0]))
        }
    }

    @Test func aStrapIsPairedAgainWhileTheExchangeIsAway() async throws {
        try await TestWorld.run { fixture in
            _ = try await Self.enroll(fixture)
            let strap = TestWorld.addresses[0]
            try await fixture.command("pair", strap, "--patient", "40001")
            await fixture.exchange.cutNetwork()
            try await fixture.command("pair", strap)
            let other = try await fixture.gateway.command(["pair", strap, "--patient", "40002"])
            #expect(other.status == 1 && other.complaint.contains("cannot be asked"), "\(other)")
        }
    }

    /// It was said to refuse the key, and to be enrolled again.
    @Test func anExchangeWhoseTokenEndpointFailsIsNotSaidToRefuseTheKey() async throws {
        try await TestWorld.run { fixture in
            await fixture.exchange.setTokenLifetime(seconds: 1)
            _ = try await Self.enroll(fixture)
            await fixture.exchange.inject(.status(503), on: [.token], for: .untilCleared)
            let strap = TestWorld.addresses[0]
            // A patient who stays is not asked about.
            func pair(_ patient: String) async throws -> Command.Outcome {
                try await fixture.gateway.command(["pair", strap, "--patient", patient])
            }
            var outcome = try await pair("40001")
            while outcome.status == 0 {
                outcome = try await pair("40002")
                if outcome.status == 0 { outcome = try await pair("40001") }
            }
            #expect(outcome.complaint.contains("there is no access token now"), "\(outcome)")
            #expect(!outcome.complaint.contains("refuses"), "\(outcome)")
        }
    }

    @Test func theDeviceOfAKeyIsOneForAllItsPatients() async throws {
        try await TestWorld.run { fixture in
            _ = try await Self.enroll(fixture)
            let words = ["pair", TestWorld.addresses[0], "--patient", "40001", "--device"]
            let other = try await fixture.gateway.command(words + ["70001"])
            #expect(other.status == 1)
            #expect(other.complaint.contains("attributes its data to device 70007"))
            #expect(other.complaint.contains("another --name"))
            let none = try await fixture.command("straps", "--json")
            #expect(!none.contains(TestWorld.addresses[0]))
            let same = try await fixture.gateway.command(words + ["70007"])
            #expect(same.status == 0, "\(same.complaint)")
        }
    }

    @Test func aPatientTheKeyMayNoLongerServeIsHeldAloneAndDrainsInOrderOnceMended()
        async throws
    {
        try await TestWorld.run(straps: 2) { fixture in
            _ = try await Self.enroll(fixture)
            for (address, patient) in zip(TestWorld.addresses, TestWorld.patients) {
                try await fixture.command("pair", address, "--patient", "\(patient)")
            }
            try await fixture.eventually("both delivered") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored > $0.pending }
            }
            await fixture.exchange.movePatient(40002, to: 20003)
            try await fixture.eventually("one held") {
                $0.balance.held["wrong-patient", default: 0] > 0
            }
            let plain = try await fixture.gateway.command(["status"]).output
            #expect(plain.contains("Strap 2: ward may not deliver for the patient who wears it"))
            #expect(plain.contains("must share an organization with the practitioner"))
            #expect(!plain.contains("40002"))
            let status = try await fixture.gateway.status()
            #expect(status.health.contains { $0.name == "patient-held" })
            #expect(status.balance.addsUp && status.balance.dead == 0)
            let others = await fixture.exchange.storedCount(patient: 40001)
            try await fixture.eventually("the other goes on") { _ in
                await fixture.exchange.storedCount(patient: 40001) > others + 2
            }
            await fixture.exchange.movePatient(40002, to: 20002)
            // Checked once a minute.
            try await fixture.eventually("released", withinSeconds: 120) { status in
                !status.health.contains { $0.name == "patient-held" }
            }
            let end = try await fixture.settle()
            await fixture.expectExactlyOnce(end.balance)
            let times = await fixture.exchange.stored.filter { $0.patient == 40002 }
                .compactMap(\.effectiveTime)
            #expect(times == times.sorted())
        }
    }

    /// A practitioner's patients were known by number alone: what waited for the first person went to the second.
    @Test func aNumberThatMeansAnotherPersonHoldsThatPatientAloneUntilSomebodyConfirms()
        async throws
    {
        try await TestWorld.run(straps: 2) { fixture in
            _ = try await Self.enroll(fixture)
            for (address, patient) in zip(TestWorld.addresses, TestWorld.patients) {
                try await fixture.command("pair", address, "--patient", "\(patient)")
            }
            try await fixture.eventually("both delivered") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored > $0.pending }
            }
            await fixture.gateway.kill()
            await fixture.exchange.giveNumber(ofPatient: 40002)
            let before = await fixture.exchange.storedCount(patient: 40002)
            try await fixture.gateway.start()
            let held = try await fixture.eventually("one held") {
                $0.balance.held["patient-changed", default: 0] > 3
            }
            #expect(await fixture.exchange.storedCount(patient: 40002) == before)
            let item = held.health.first { $0.name == "patient-held" }
            #expect(item?.advice.contains("confirm patient NAME") == true)
            let others = await fixture.exchange.storedCount(patient: 40001)
            try await fixture.eventually("the other goes on") { _ in
                await fixture.exchange.storedCount(patient: 40001) > others + 2
            }
            let refusals: [([String], String)] = [
                (["pair", TestWorld.addresses[0], "--patient", "40002"], "--patient ID"),
                (["confirm", "patient", "ward", "--yes"], "serves many patients"),
                (["confirm", "patient", "ward", "--yes", "--patient", "4OOO2"], "numbers"),
                (
                    ["confirm", "patient", "ward", "--yes", "--patient", "40003"],
                    "nothing was changed"
                ),
            ]
            for (words, advice) in refusals {
                let outcome = try await fixture.gateway.command(words)
                #expect(outcome.status != 0, "\(words)")
                #expect(outcome.complaint.contains(advice), "\(words): \(outcome.complaint)")
            }
            try await fixture.command("confirm", "patient", "ward", "--patient", "40002", "--yes")
            // Checked once a minute.
            try await fixture.eventually("released", withinSeconds: 120) {
                $0.balance.held["patient-changed"] == nil
            }
            let end = try await fixture.settle()
            await fixture.expectExactlyOnce(end.balance)
        }
    }

    @Test func oneWithoutConsentIsHeldAloneAndTheStrapIsNamed() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            _ = try await Self.enroll(fixture)
            for (address, patient) in zip(TestWorld.addresses, TestWorld.patients) {
                try await fixture.command("pair", address, "--patient", "\(patient)")
            }
            try await fixture.eventually("both delivered") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored > $0.pending }
            }
            await fixture.exchange.withdrawConsent(patient: 40002)
            let held = try await fixture.eventually("one held") {
                $0.balance.held["no-consent", default: 0] > 0
            }
            let item = held.health.first { $0.name == "consent-missing" }
            #expect(item?.message.contains("Strap 2") == true)
            #expect(item?.message.contains("40002") == false)
            #expect(held.balance.addsUp)
            let others = await fixture.exchange.storedCount(patient: 40001)
            try await fixture.eventually("the other goes on") { _ in
                await fixture.exchange.storedCount(patient: 40001) > others + 2
            }
            let listed = try await fixture.command("enrollments", "--json")
            #expect(listed.contains(#""no-consent" : 1"#))
            await fixture.exchange.grantConsent(patient: 40002)
            // Checked once a minute.
            try await fixture.eventually("released", withinSeconds: 120) {
                $0.balance.held["no-consent"] == nil
            }
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
        }
    }
}
