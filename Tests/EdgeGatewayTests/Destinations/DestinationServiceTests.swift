import Foundation
import OfflineQueue
import Testing
import Uplink

@testable import EdgeGateway

@Suite struct DestinationServiceTests {
    private static let shared = [
        "url": "http://127.0.0.1:9", "store": "realtime", "email": "gw@clinic.example",
        "share": "yes",
    ]
    private static let secrets = [
        "key": "hush", "password": "hush", "share-id": "0123456789abcdef0123456789abcdef",
    ]

    /// After a power cut between the file and the store, the new server's password went to the old address.
    @Test func secretsOfAnotherAddressAreNotSent() async throws {
        try await ServerFixture.run { fixture in
            let gateway = fixture.gateway
            var terms = EnrollmentTerms(
                name: "influx", kind: .destination, origin: "http://127.0.0.1:9", fhirBase: "",
                identifierSystem: "urn:x")
            terms.system = "influx"
            terms.settings = #"{"url":"http://127.0.0.1:9","database":"ward"}"#
            func begin(_ place: String, insteadOf same: Enrollment?) async throws -> Enrollment {
                try await gateway.enrollmentChanges.begin(
                    terms, insteadOf: same,
                    .secrets(DestinationSecrets(place: place, values: ["token": Secret("hush")])))
            }
            let stored = try await begin(terms.origin, insteadOf: nil)
            #expect(await gateway.deliveries.isRunning(stored.id))
            _ = try await begin("http://127.0.0.2:9", insteadOf: stored)
            #expect(await !gateway.deliveries.isRunning(stored.id))
            let words = await gateway.deliveries.stopped(stored.id)
            #expect(words?.contains("another address") == true)
        }
    }

    /// A relay's delivery took a strap that was paired without a patient, and stopped for everybody at its samples.
    @Test func aRelayTakesAStrapWithoutAPatientOnlyIfItHasOneForSuchStraps() async throws {
        try await ServerFixture.run { fixture in
            let (gateway, queue) = (fixture.gateway, fixture.queue)
            func relay(_ name: String, _ settings: String) async throws -> Enrollment {
                var terms = EnrollmentTerms(
                    name: name, kind: .destination, origin: "nats://127.0.0.1:9", fhirBase: "",
                    identifierSystem: "urn:x")
                (terms.system, terms.settings) = ("nats", settings)
                return try await queue.enroll(terms)
            }
            let many = try await relay("many", "{}")
            let one = try await relay("one", #"{"patient":"40001"}"#)
            let strap = "A0:9E:1A:00:00:01"
            let sensor = try await queue.addSensor(address: strap)
            let open = try await queue.assign(sensor: sensor.id, enrollment: nil)
            func add(to relay: Enrollment) async throws {
                _ = try await gateway.destinationService.straps.change(
                    DestinationStrapsRequest(name: relay.terms.name, add: [strap]))
            }
            func pair(_ enrollment: Enrollment?, further: [Enrollment]) async throws {
                _ = try await gateway.pairing.patients.patient(
                    nil, device: nil, enrollment, further: further)
            }
            let attempts: [() async throws -> Void] = [
                { try await add(to: many) }, { try await pair(many, further: []) },
                { try await pair(one, further: [many]) },
            ]
            for attempt in attempts {
                let problem = await #expect(throws: ProblemReport.self) { try await attempt() }
                #expect(problem?.code == ProblemCode.choosePatient.rawValue)
                #expect(problem?.advice.contains("--patient ID") == true)
            }
            #expect(try await queue.furtherDestinations(of: open.id).isEmpty)
            try await pair(one, further: [])
            try await add(to: one)
            #expect(try await queue.furtherDestinations(of: open.id) == [one.id])
        }
    }

    /// The public stream stayed, and what named it was overwritten: nobody could end it any more.
    @Test func aDestinationThatIsSharedDoesNotBecomeOneOfAnotherStore() async throws {
        try await ServerFixture.run { fixture in
            let gateway = fixture.gateway
            var terms = EnrollmentTerms(
                name: "firebase", kind: .destination, origin: "http://127.0.0.1:9", fhirBase: "",
                identifierSystem: "urn:x")
            terms.system = "firebase"
            terms.settings = String(
                decoding: try JSONEncoder().encode(Self.shared), as: UTF8.self)
            let stored = try await gateway.enrollmentChanges.begin(
                terms, insteadOf: nil,
                .secrets(
                    DestinationSecrets(
                        place: terms.origin, values: Self.secrets.mapValues { Secret($0) })))
            let firestore = [
                "url": "http://127.0.0.1:9/v1/projects/p/databases/(default)",
                "store": "firestore", "email": "gw@clinic.example", "key": "hush",
                "password": "hush",
            ]
            let problem = await #expect(throws: ProblemReport.self) {
                _ = try await gateway.destinationService.add(
                    DestinationAddRequest(kind: "firebase", settings: firestore))
            }
            #expect(problem?.message == "url of the destination firebase cannot change")
            #expect(problem?.advice.contains("destination remove firebase") == true)
            let file = gateway.enrollmentChanges.secretFile(of: stored.id)
            #expect(try file.load().values["share-id"]?.revealed == Self.secrets["share-id"])
            // Nor one of another database or user, where nobody knows the stream.
            for (name, value) in [("url", "http://127.0.0.1:8"), ("email", "b@clinic.example")] {
                let changed = await #expect(throws: ProblemReport.self) {
                    var settings = Self.shared.merging(Self.secrets) { $1 }
                    settings[name] = value
                    _ = try await gateway.destinationService.add(
                        DestinationAddRequest(kind: "firebase", settings: settings))
                }
                #expect(
                    changed?.message == "\(name) of the destination firebase cannot change")
            }
            // The same store under the same name gets as far as the server, which is not there.
            let again = await #expect(throws: ProblemReport.self) {
                var settings = Self.shared.merging(Self.secrets) { $1 }
                settings["store"] = nil
                _ = try await gateway.destinationService.add(
                    DestinationAddRequest(kind: "firebase", settings: settings))
            }
            #expect(again?.message.contains("cannot change") == false)
            await gateway.deliveries.stopAll()
        }
    }
}
