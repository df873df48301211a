import Basics
import Foundation
import Health
import OfflineQueue
import Testing
import Uplink

@testable import EdgeGateway

@Suite struct DeliveryHealthTests {
    /// `status` was well while a relay took nothing of a strap that an invitation names the patient of.
    @Test func aHeldPatientsStrapIsNamedAlsoWhereItsEnrollmentNamesThePatient() async throws {
        let directory = URL(filePath: "/tmp/delivery-health-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let queue = try SampleQueue(
            path: directory.path + "/queue.sqlite", clock: SystemClock(trust: .always),
            bootID: "boot")
        let invitation = try await queue.enroll(
            EnrollmentTerms(
                name: "e1", origin: "http://127.0.0.1:9", fhirBase: "http://127.0.0.1:9/FHIR/R5",
                patient: "40001", identifierSystem: "urn:x"))
        var terms = EnrollmentTerms(
            name: "relay", kind: .destination, origin: "tls://nats.example", fhirBase: "",
            identifierSystem: "urn:x")
        terms.system = "nats"
        let relay = try await queue.enroll(terms)
        let worn = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        _ = try await queue.assign(sensor: worn.id, enrollment: invitation.id)
        let other = try await queue.addSensor(address: "A0:9E:1A:00:00:02")
        _ = try await queue.assign(sensor: other.id, enrollment: relay.id, patient: "40002")
        let (enrollments, assignments, sensors) = (
            try await queue.enrollments(), try await queue.assignments(),
            try await queue.sensors()
        )
        func held(_ patient: String, at enrollment: Enrollment) -> [Int64] {
            DeliveryHealth.heldStraps(
                of: enrollment, [patient: .wrongPatient], among: enrollments, assignments, sensors
            ).map(\.strap)
        }
        #expect(held("40001", at: relay) == [worn.id])
        #expect(held("40002", at: relay) == [other.id])
        #expect(held("40002", at: invitation).isEmpty)
        // `status` said of the patient who wears it that it has not consented: it was the one before.
        _ = try await queue.assign(sensor: other.id, enrollment: relay.id, patient: "40003")
        let all = try await queue.assignments()
        func isWorn(_ patients: String...) -> [Bool] {
            DeliveryHealth.heldStraps(
                of: relay, Dictionary(uniqueKeysWithValues: patients.map { ($0, .noConsent) }),
                among: enrollments, all, sensors
            ).map(\.isWorn)
        }
        #expect(isWorn("40002") == [false])
        #expect(isWorn("40003") == [true])
        #expect(isWorn("40002", "40003") == [true])
        try await queue.close()
    }

    /// Of a file whose folder was deleted `status` said: check network, DNS, proxy and firewall.
    @Test(arguments: [
        ("file", "folder"), ("mqtt", "broker"), ("nats", "relay"), ("influx", "proxy"),
    ])
    func aDeliveryThatFailsGetsTheAdviceOfItsKind(system: String, word: String) async throws {
        try await ServerFixture.run { fixture in
            var terms = EnrollmentTerms(
                name: "d", kind: .destination, origin: "x://127.0.0.1:9", fhirBase: "",
                identifierSystem: "urn:x")
            terms.system = system
            try await fixture.queue.enroll(terms)
            var snapshot = HealthSnapshot()
            snapshot.deliveries = await DeliveryHealth(
                queue: fixture.queue, deliveries: fixture.gateway.deliveries
            ).read(history: HealthHistory(), counts: HealthHistory.Counts(), at: .zero)
            try #require(snapshot.deliveries.count == 1)
            snapshot.deliveries[0].stopped = nil
            snapshot.deliveries[0].fault = "it fails"
            let advice = HealthRules.conditions(of: snapshot)
                .first { $0.name == .exchangeUnreachable }?.advice
            #expect(advice?.contains(word) == true, "\(advice ?? "none")")
            #expect(advice?.hasSuffix("delivery resumes by itself") == true)
            #expect(advice?.contains("proxy") == (word == "proxy"), "\(advice ?? "none")")
        }
    }
}
