import Basics
import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// A patient's number that comes to mean another person, as at an exchange whose database was made anew.
@Suite struct PatientChangeTests {
    private func reason(_ fixture: DeliveryFixture) async -> HoldReason? {
        guard case .held(let reason, _) = await fixture.runner.state else { return nil }
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
        #expect(await fixture.destination.confirmPerson() == .confirmed)
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

    private func account(_ json: String) throws -> PatientAccount {
        try #require(
            PatientAccount(JSONDecoder().decode(ProfileDocument.self, from: Data(json.utf8))))
    }

    @Test func aFingerprintTellsPeopleApartAndSaysNothingOfThem() throws {
        let person = try account(
            #"{"id":10006,"email":"p@example.com","patient":{"id":40001,"birthDate":"1971-03-05"}}"#
        )
        let fingerprint = person.fingerprint()
        #expect(person.matches(fingerprint))
        #expect(fingerprint != person.fingerprint(), "each has a salt of its own")
        for word in ["10006", "1971", "example"] { #expect(!"\(person)".contains(word)) }

        /// Few digits are kept of what could be guessed, so that one fingerprint may fit another person.
        func isOther(_ json: String, than person: PatientAccount) throws -> Bool {
            let other = try account(json)
            return (0..<4).contains { _ in !other.matches(person.fingerprint()) }
        }
        #expect(
            try !isOther(
                #"{"id":10006,"email":"q@example.com","patient":{"id":40001,"birthDate":"1971-03-05"}}"#,
                than: person), "an address changes")
        #expect(
            try isOther(
                #"{"id":10006,"email":"p@example.com","patient":{"id":40001,"birthDate":"1971-03-06"}}"#,
                than: person))
        #expect(
            try isOther(
                #"{"id":10007,"email":"p@example.com","patient":{"id":40001,"birthDate":"1971-03-05"}}"#,
                than: person))
        let undated = try account(#"{"id":1,"email":"P@example.com","patient":{"id":2}}"#)
        #expect(
            try !isOther(#"{"id":1,"email":"p@example.com","patient":{"id":2}}"#, than: undated))
        #expect(
            try isOther(#"{"id":1,"email":"q@example.com","patient":{"id":2}}"#, than: undated))
        // After an update a server says less of its accounts.
        #expect(try !isOther(#"{"id":10006,"patient":{"id":40001}}"#, than: person))
        #expect(try isOther(#"{"id":10007,"patient":{"id":40001}}"#, than: person))
        for other in ["", ":", "a:b", "a:b:c:d:e", String(repeating: ":", count: 10_000)] {
            #expect(!undated.matches(other))
        }
    }
}
