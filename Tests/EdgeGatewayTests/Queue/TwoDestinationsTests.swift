import BlueZ
import Foundation
import OfflineQueue
import Testing

@testable import EdgeGateway

/// Reports on samples that go to several destinations.
@Suite struct TwoDestinationsTests {
    /// Enrolls two destinations, and records as many samples that go to both.
    private static func record(
        _ count: Int, _ terms: [EnrollmentTerms], _ fixture: ServerFixture
    ) async throws -> [Int64] {
        let queue = fixture.queue
        var destinations: [Int64] = []
        for terms in terms { destinations.append(try await queue.enroll(terms).id) }
        let (sensor, _) = try await queue.pair(
            address: "A0:00:00:00:00:01", details: SensorDetails(), enrollment: destinations[0],
            also: Array(destinations.dropFirst()))
        let clock = SystemClock(trust: .always)
        for _ in 0..<count {
            try await queue.append(contentsOf: [
                Arrival(sensorID: sensor.id, at: clock.read(), frame: [0, 70])
            ])
        }
        try await queue.flush()
        return destinations
    }

    /// Of two letters of one sample the second was on no page, where a page ended between them.
    @Test func noDeadLetterLiesBetweenTwoPages() async throws {
        try await ServerFixture.run { fixture in
            let queue = fixture.queue
            let kinds: [(String, Enrollment.Kind)] = [
                ("a", .invitation), ("b", .destination), ("c", .destination),
            ]
            let terms = kinds.map { name, kind in
                EnrollmentTerms(
                    name: name, kind: kind, origin: "https://\(name).example",
                    fhirBase: "https://\(name).example/fhir", identifierSystem: "urn:x")
            }
            for destination in try await Self.record(6, terms, fixture) {
                let batch = try await queue.nextPending(enrollment: destination, limit: 10).samples
                #expect(batch.count == 6)
                try await queue.settle(
                    enrollment: destination,
                    batch.map { SettledSample($0, .dead(reason: "invalid", diagnostics: "")) })
            }
            var letters: [DeadLetterReport] = []
            while true {
                let page = try await fixture.gateway.deadLetters.list(
                    destination: nil, before: letters.last?.id, limit: 2)
                letters += page.letters
                #expect(page.more == (letters.count < 18))
                if !page.more { break }
            }
            #expect(letters.count == 18)
            #expect(Set(letters.map { "\($0.id) \($0.enrollment ?? "")" }).count == 18)
        }
    }

    /// Only the file of the patient's own destination was named, as it is written now.
    @Test func erasingNamesEachFileThatStillHasThePatient() async throws {
        try await ServerFixture.run { fixture in
            let place = fixture.directory
            let terms = ["own", "further"].map { name in
                EnrollmentTerms(
                    name: name, kind: .destination,
                    origin: "file://\(place.path)/\(name).ndjson", fhirBase: "",
                    identifierSystem: "urn:x")
            }
            _ = try await Self.record(1, terms, fixture)
            let left = [
                "further-20260102T030405Z-2.ndjson", "further-20260102T030405Z.ndjson.gz",
                "further.gaps.ndjson", "further.ndjson", "own.ndjson",
            ]
            for name in left + ["other.ndjson", "further-notes.ndjson"] {
                try Data().write(to: place.appending(path: name))
            }
            let sensor = try #require(try await fixture.queue.sensors().first)
            try await fixture.queue.forgetSensor(sensor.id)
            let report = try await fixture.gateway.erasing.erase(
                EraseRequest(enrollment: "own", undelivered: true))
            #expect(report.samples == 1)
            #expect(report.left.sorted() == left.map { "\(place.path)/\($0)" })
        }
    }
}
