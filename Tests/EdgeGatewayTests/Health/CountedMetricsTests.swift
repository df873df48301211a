import Basics
import Foundation
import OfflineQueue
import Testing

@testable import EdgeGateway

/// What Prometheus reads as counters, of books that go down at times.
@Suite struct CountedMetricsTests {
    private static let delivered = "edge_gateway_samples_delivered_total"

    /// The value of a series.
    private static func value(_ series: String, in text: String) -> String? {
        text.split(separator: "\n").first { $0.hasPrefix(series + " ") }
            .map { String($0.dropFirst(series.count + 1)) }
    }

    /// What the counter of delivered samples shows at each of these figures of the books; nil: the store was away.
    private static func shown(_ books: [Int?]) -> [String?] {
        var counters = RisingCounters()
        return books.map { figure in
            var status = StatusReport.sample
            status.balance.delivered = figure ?? 0
            let page = Metrics.page(status, counters.reading(figure != nil))
            counters = page.counters ?? counters
            return value(delivered, in: page.text)
        }
    }

    @Test func countersBeginAtZeroAndNeverFall() {
        #expect(Self.shown([100, 150, 90, 120, 0, 5]) == ["0", "50", "50", "80", "80", "85"])
    }

    @Test func aStoreThatIsAwayForAWhileIsNotCountedAsNew() {
        #expect(Self.shown([nil, 100, 110, nil, 110, 112]) == ["0", "0", "10", "10", "10", "12"])
    }

    @Test func aSeriesThatBeginsLaterIsCountedFromZero() {
        var counters = RisingCounters()
        var status = StatusReport.sample
        status.balance.dropped = ["queue-full": 7]
        counters = Metrics.page(status, counters.reading(true)).counters ?? counters
        status.balance.dropped = ["queue-full": 7, "max-age": 3]
        let text = Metrics.page(status, counters.reading(true)).text
        let series = "edge_gateway_samples_dropped_total"
        #expect(Self.value(series + #"{reason="queue-full"}"#, in: text) == "0")
        #expect(Self.value(series + #"{reason="max-age"}"#, in: text) == "3")
    }

    @Test func aGaugeIsWhatItIs() {
        var status = StatusReport.sample
        var counters = RisingCounters()
        for pending in [9, 4] {
            status.balance.pending = pending
            let page = Metrics.page(status, counters.reading(true))
            counters = page.counters ?? counters
            #expect(Self.value("edge_gateway_samples_pending", in: page.text) == "\(pending)")
        }
    }

    /// Prometheus counted all that was left in the books as new.
    @Test func noCounterFallsWhenSamplesAreDeliveredAgainAndWhenTheirPatientIsErased() async throws
    {
        try await ServerFixture.run { fixture in
            let (queue, metrics) = (fixture.queue, fixture.gateway.metrics)
            await metrics.begin()
            let terms = EnrollmentTerms(
                name: "e1", kind: .invitation, origin: "https://h.example",
                fhirBase: "https://h.example/fhir", identifierSystem: "urn:x")
            let enrollment = try await queue.enroll(terms)
            let (sensor, _) = try await queue.pair(
                address: "A0:00:00:00:00:01", details: SensorDetails(), enrollment: enrollment.id)
            let clock = SystemClock(trust: .always)
            for _ in 0..<3 {
                try await queue.append(contentsOf: [
                    Arrival(sensorID: sensor.id, at: clock.read(), frame: [0, 70])
                ])
            }
            try await queue.flush()
            let batch = try await queue.nextPending(enrollment: enrollment.id, limit: 10).samples
            try await queue.settle(
                enrollment: enrollment.id, batch.map { SettledSample($0, .delivered) })
            let names = [
                Self.delivered, "edge_gateway_frames_received_total",
                "edge_gateway_samples_stored_total",
                #"edge_gateway_sensor_samples_stored_total{sensor="\#(sensor.id)"}"#,
                #"edge_gateway_delivery_delivered_total{enrollment="e1"}"#,
            ]
            func read(_ names: [String]) async throws -> [String?] {
                let text = try await metrics.text()
                return names.map { Self.value($0, in: text) }
            }
            #expect(try await read(names) == Array(repeating: "3", count: 5))

            let again = Redelivery(destination: enrollment.id, since: .epoch)
            #expect(try await queue.redeliver(again) == 3)
            #expect(try await queue.balance().delivered == 0)
            #expect(try await read(names) == Array(repeating: "3", count: 5))

            try await queue.forgetSensor(sensor.id)
            while try await !queue.erase(Erasure(enrollment: enrollment.id)) {}
            #expect(try await queue.balance().received == 0)
            #expect(try await read(Array(names[..<3])) == Array(repeating: "3", count: 3))
        }
    }
}
