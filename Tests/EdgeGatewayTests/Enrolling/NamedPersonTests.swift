import Foundation
import Testing

@testable import EdgeGateway
@testable import OfflineQueue
@testable import Uplink

/// Whose enrollment an invitation renews, when a person has said whether it is the same patient.
@Suite struct NamedPersonTests {
    private static let exchange = "https://exchange.example"

    private static func account(_ number: Int, born birthDate: String? = nil) throws
        -> PatientAccount
    {
        let profile = #"{"id":\#(number),"patient":{"id":40001}}"#
        let born = birthDate.map { #""birthDate":"\#($0)""# } ?? ""
        let consents = #"{"patient":{\#(born)},"studies":[]}"#
        return PatientAccount(
            patient: "40001",
            try JSONDecoder().decode(ConsentsDocument.self, from: Data(consents.utf8)),
            try JSONDecoder().decode(ProfileDocument.self, from: Data(profile.utf8)))
    }

    /// The enrollments e0, e1 and so on of these people, who had the same number one after the other.
    private static func enrollments(of people: PatientAccount...) -> [Enrollment] {
        people.enumerated().map { index, person in
            var terms = EnrollmentTerms(
                name: "e\(index)", origin: exchange, fhirBase: exchange + "/FHIR/R5",
                patient: "40001", identifierSystem: "urn:x")
            terms.patientFingerprints = ["40001": person.fingerprint()]
            return Enrollment(id: Int64(index), terms: terms, state: .active, holdReason: nil)
        }
    }

    private static func chosen(
        _ person: String?, _ account: PatientAccount, among existing: [Enrollment]
    ) throws -> String? {
        var request = EnrollRequest()
        request.person = person
        return try EnrollmentService.enrollment(
            of: account, at: exchange, among: existing, request)?.terms.name
    }

    /// An exchange that was set up anew, gave the numbers again and told no birth date: the first patient's enrollment was
    /// renewed, and what waited in it went to the second one.
    @Test func anotherPersonNeverRenewsTheEnrollmentThatWouldBeTakenForTheirs() throws {
        let (first, second) = (try Self.account(10006), try Self.account(10006))
        let one = Self.enrollments(of: first)
        #expect(try Self.chosen(nil, second, among: one) == "e0")
        #expect(try Self.chosen("other", second, among: one) == nil)
        // The same word again finds what it began.
        #expect(
            try Self.chosen("other", second, among: Self.enrollments(of: first, second)) == "e1")
        let born = try Self.account(10006, born: "1971-03-05")
        #expect(try Self.chosen("other", born, among: Self.enrollments(of: born)) == nil)
    }

    @Test func anotherPersonWhoCanBeToldApartIsFoundAgain() throws {
        let first = try Self.account(10006, born: "1971-03-05")
        let second = try Self.account(11006, born: "1990-12-24")
        #expect(try Self.chosen("other", second, among: Self.enrollments(of: first)) == nil)
        let both = Self.enrollments(of: first, second)
        #expect(try Self.chosen("other", second, among: both) == "e1")
        #expect(try Self.chosen("same", second, among: both) == "e1")
        // A third person may be the second one for all that the exchange tells.
        #expect(try Self.chosen("other", try Self.account(11006), among: both) == nil)
    }
}
