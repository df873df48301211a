import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// A patient's number that comes to mean another person, as at an exchange whose database was made anew.
@Suite struct PatientChangeTests {
    private func reason(_ fixture: DeliveryFixture) async -> HoldReason? {
        guard case .held(let reason, _) = await fixture.runner.facts.state else { return nil }
        return reason
    }

    /// The samples of the first person went to the second.
    @Test func whatWaitsForAPersonDoesNotGoToAnotherWhoHasTheNumberNow() async throws {
        let fixture = try await DeliveryFixture(samples: 5, knowsPerson: true)
        await fixture.exchange.giveNumber(ofPatient: 40001)
        try await fixture.drain(seconds: 300)
        #expect(await reason(fixture) == .patientChanged)
        #expect(await fixture.exchange.storedCount() == 0)
        #expect(try await fixture.queue.balance().held == ["patient-changed": 5])

        // A person says that the exchange only corrected the patient's record.
        #expect(await fixture.destination.confirmPerson(nil) == .confirmed)
        await fixture.runner.wake()
        try await fixture.drain(seconds: 300)
        try await fixture.checkExactlyOnce(5)
        await fixture.exchange.stop()
    }

    @Test func anExchangeThatNoLongerTakesTheTokenIsAskedWhoThePatientIs() async throws {
        let fixture = try await DeliveryFixture(samples: 5, knowsPerson: true)
        try await fixture.drain(seconds: 60)
        try await fixture.checkExactlyOnce(5)
        await fixture.exchange.giveNumber(ofPatient: 40001)
        await fixture.exchange.expireAccessTokens()
        try await fixture.record(3)
        try await fixture.drain(seconds: 300)
        #expect(await reason(fixture) == .patientChanged)
        try await fixture.checkExactlyOnce(5)
        await fixture.exchange.stop()
    }

    @Test func aHoldForAnotherReasonEndsAsThisOneWhenThePersonIsAnother() async throws {
        let fixture = try await DeliveryFixture(samples: 5, knowsPerson: true)
        await fixture.exchange.withdrawConsent(patient: 40001)
        try await fixture.drain(seconds: 120)
        #expect(await reason(fixture) == .noConsent)
        await fixture.exchange.giveNumber(ofPatient: 40001)
        await fixture.exchange.grantConsent(patient: 40001)
        try await fixture.drain(seconds: 300)
        #expect(await reason(fixture) == .patientChanged)
        #expect(await fixture.exchange.storedCount() == 0)
        await fixture.exchange.stop()
    }

    @Test func thePersonIsAskedForOnceWhileNothingChanges() async throws {
        let fixture = try await DeliveryFixture(samples: 5, knowsPerson: true)
        try await fixture.drain(seconds: 60)
        try await fixture.record(250)
        try await fixture.drain(seconds: 600)
        try await fixture.checkExactlyOnce(255)
        let questions = await fixture.exchange.requests.count { $0.path.hasSuffix("/profile") }
        #expect(questions == 1)
        await fixture.exchange.stop()
    }

    /// The profile has the number of the account, and the answer about consents the rest.
    private func account(_ id: Int?, _ person: String = "{}") throws -> PatientAccount {
        let profile = #"{\#(id.map { #""id":\#($0),"# } ?? "")"patient":{"id":40001}}"#
        let consents = #"{"patient":\#(person),"studies":[]}"#
        return PatientAccount(
            patient: "40001",
            try JSONDecoder().decode(ConsentsDocument.self, from: Data(consents.utf8)),
            try JSONDecoder().decode(ProfileDocument.self, from: Data(profile.utf8)))
    }

    @Test func aFingerprintTellsPeopleApartAndSaysNothingOfThem() throws {
        func person(_ birthDate: String, _ email: String) -> String {
            #"{"birthDate":"\#(birthDate)","telecomEmail":"\#(email)"}"#
        }
        let first = try account(10006, person("1971-03-05", "p@example.com"))
        let fingerprint = first.fingerprint()
        #expect(first.matches(fingerprint))
        #expect(fingerprint != first.fingerprint(), "each has a salt of its own")
        for word in ["10006", "1971", "example"] { #expect(!"\(first)".contains(word)) }

        /// Few digits are kept of what could be guessed, so that one fingerprint may fit another person.
        func isOther(_ other: PatientAccount, than person: PatientAccount) -> Bool {
            (0..<4).contains { _ in !other.matches(person.fingerprint()) }
        }
        let moved = try account(10006, person("1971-03-05", "q@example.com"))
        #expect(!isOther(moved, than: first), "an address changes")
        #expect(isOther(try account(10006, person("1971-03-06", "p@example.com")), than: first))
        #expect(isOther(try account(10007, person("1971-03-05", "p@example.com")), than: first))
        let undated = try account(1, #"{"telecomEmail":"P@example.com","birthDate":null}"#)
        #expect(!isOther(try account(1, #"{"telecomEmail":"p@example.com"}"#), than: undated))
        #expect(isOther(try account(1, #"{"telecomEmail":"q@example.com"}"#), than: undated))
        // A practitioner sees the account's number beside the person.
        #expect(!isOther(try account(nil, #"{"jheUserId":10006}"#), than: first))
        #expect(isOther(try account(nil, #"{"jheUserId":10007}"#), than: first))
        // After an update a server says less of its accounts.
        #expect(!isOther(try account(10006), than: first))
        #expect(isOther(try account(10007), than: first))
        for other in ["", ":", "a:b", "a:b:c:d:e", String(repeating: ":", count: 10_000)] {
            #expect(!undated.matches(other))
        }
    }
}
