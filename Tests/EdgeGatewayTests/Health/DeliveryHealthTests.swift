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
        try await ServerFixture.run { fixture in
            let queue = fixture.queue
            let health = DeliveryHealth(queue: queue, deliveries: fixture.gateway.deliveries)
            let invitation = try await queue.enroll(
                EnrollmentTerms(
                    name: "e1", origin: "http://127.0.0.1:9",
                    fhirBase: "http://127.0.0.1:9/FHIR/R5", patient: "40001",
                    identifierSystem: "urn:x"))
            var terms = EnrollmentTerms(
                name: "relay", kind: .destination, origin: "tls://nats.example", fhirBase: "",
                identifierSystem: "urn:x")
            terms.system = "nats"
            let relay = try await queue.enroll(terms)
            let worn = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
            let own = try await queue.assign(sensor: worn.id, enrollment: invitation.id)
            try await queue.add(destination: relay.id, to: own.id, from: .now)
            let other = try await queue.addSensor(address: "A0:9E:1A:00:00:02")
            _ = try await queue.assign(sensor: other.id, enrollment: relay.id, patient: "40002")
            let enrollments = try await queue.enrollments()
            func held(
                _ patients: String?..., at enrollment: Enrollment
            ) async -> [HealthSnapshot.Delivery.HeldStrap] {
                await health.heldStraps(
                    of: enrollment,
                    Dictionary(uniqueKeysWithValues: patients.map { ($0, .wrongPatient) }),
                    among: enrollments)
            }
            #expect(await held("40001", at: relay).map(\.strap) == [worn.id])
            #expect(await held("40002", at: relay).map(\.strap) == [other.id])
            #expect(await held("40002", at: invitation).isEmpty)
            // `status` said of the patient who wears it that it has not consented: it was the one before.
            _ = try await queue.assign(sensor: other.id, enrollment: relay.id, patient: "40003")
            #expect(await held("40002", at: relay).map(\.isWorn) == [false])
            #expect(await held("40003", at: relay).map(\.isWorn) == [true])
            #expect(await held("40002", "40003", at: relay).map(\.isWorn) == [true])
            // Of two straps without a patient only one goes there.
            let unnamed = try await queue.addSensor(address: "A0:9E:1A:00:00:03")
            _ = try await queue.assign(sensor: unnamed.id, enrollment: relay.id)
            let elsewhere = try await queue.addSensor(address: "A0:9E:1A:00:00:04")
            _ = try await queue.assign(sensor: elsewhere.id, enrollment: nil)
            #expect(await held(nil, at: relay).map(\.strap) == [unnamed.id])
        }
    }

    /// A delivery was judged as if it sent each half minute, whatever somebody had set.
    @Test func aDeliveryIsJudgedByTheIntervalOfItsSettings() async throws {
        try await ServerFixture.run([
            "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "1800",
            "EDGE_GATEWAY_UPLINK_SEAL_TOKENS": "never",
        ]) { fixture in
            var terms = EnrollmentTerms(
                name: "file", kind: .destination, origin: "there", fhirBase: "",
                identifierSystem: "urn:x")
            (terms.system, terms.settings) = (
                "file", #"{"path":"\#(fixture.directory.path)/points.jsonl"}"#
            )
            _ = try await fixture.gateway.enrollmentChanges.begin(
                terms, insteadOf: nil,
                .secrets(DestinationSecrets(place: terms.origin, values: [:])))
            let found = await DeliveryHealth(
                queue: fixture.queue, deliveries: fixture.gateway.deliveries
            ).read(history: HealthHistory(), counts: HealthHistory.Counts(), at: .zero)
            #expect(found.map(\.interval) == [.seconds(1_800)])
            await fixture.gateway.deliveries.stopAll()
        }
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
