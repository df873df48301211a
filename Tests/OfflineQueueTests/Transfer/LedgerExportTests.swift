import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("Gaps and coverage as CSV")
struct LedgerExportTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private func stream(
        _ queue: SampleQueue, _ assignment: Assignment, seconds: Int
    ) async throws {
        for _ in 0..<seconds {
            try await queue.beat(assignment, clock)
            clock.advance(seconds: 1)
            await queue.commitIfDue()
        }
    }

    private func gaps(_ filter: ExportFilter = ExportFilter()) throws -> [String] {
        var bytes: [UInt8] = []
        let count = try SampleQueue.exportGaps(path: store.path, filter: filter) { bytes += $0 }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
        #expect(lines.first == "sensor,assignment,patient,cause,from,until,seconds,open")
        #expect(lines.count == count + 1)
        return Array(lines.dropFirst())
    }

    private func coverage(_ filter: ExportFilter = ExportFilter()) throws -> [[String: String]] {
        var bytes: [UInt8] = []
        try SampleQueue.exportCoverage(path: store.path, filter: filter) { bytes += $0 }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map {
            $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        }
        let names = try #require(lines.first)
        return lines.dropFirst().map { Dictionary(uniqueKeysWithValues: zip(names, $0)) }
    }

    @Test func gapsSayWhoseTheyAreWhenTheyWereAndWhyAndThatOneGoesOn() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, worn.assignment, seconds: 10)
        await queue.note(.linkLost, of: worn.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 20)
        await queue.note(nil, of: worn.assignment.sensorID, at: clock.read().uptime)
        try await stream(queue, worn.assignment, seconds: 10)
        await queue.note(.noContact, of: worn.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 70)
        await queue.commitIfDue()
        let rows = try gaps()
        try #require(rows.count == 2, "\(rows)")
        #expect(
            rows[0] == "A0:9E:1A:00:00:01,1,p-1,link-lost,2026-12-01T00:00:09.000000Z,"
                + "2026-12-01T00:00:30.000000Z,21.000,false")
        #expect(
            rows[1].hasPrefix("A0:9E:1A:00:00:01,1,p-1,no-contact,2026-12-01T00:00:39.000000Z,,"))
        #expect(rows[1].hasSuffix(",true"))
        try await queue.close()
        #expect(try gaps()[1].hasSuffix("2026-12-01T00:01:50.000000Z,71.000,false"))
    }

    @Test func gapsAreThoseThatOverlapTheTimeAndOfTheStrap() async throws {
        let queue = try await store.open(clock)
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        try await stream(queue, one.assignment, seconds: 10)
        clock.advance(seconds: 100)
        try await stream(queue, one.assignment, seconds: 10)
        try await queue.close()
        #expect(try gaps().count == 2)
        #expect(try gaps(ExportFilter(sensor: two.sensor.address)).count == 1)
        let start = ManualClock.midnight
        #expect(
            try gaps(ExportFilter(until: start + .seconds(5), sensor: one.sensor.address)).isEmpty)
        #expect(
            try gaps(
                ExportFilter(
                    since: start + .seconds(50), until: start + .seconds(60),
                    sensor: one.sensor.address)
            ).count == 1)
        #expect(throws: QueueError.self) { _ = try gaps(ExportFilter(sensor: "C0:00:00:00:00:99")) }
    }

    @Test func theCoverageOfTheFileIsThatOfTheRunningGateway() async throws {
        let queue = try await store.open(clock)
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        clock.advance(seconds: 86_000)
        try await stream(queue, one.assignment, seconds: 600)
        await queue.note(.outOfRange, of: two.assignment.sensorID, at: clock.read().uptime)
        clock.advance(seconds: 60)
        try await queue.flush()
        try await queue.close()
        let rows = try coverage()
        #expect(rows.map { $0["day"] } == ["2026-12-01", "2026-12-01", "2026-12-02", "2026-12-02"])
        let again = try await store.open(clock)
        for row in rows {
            let day =
                row["day"] == "2026-12-01"
                ? ManualClock.midnight : ManualClock.midnight + Coverage.day
            let sensor = row["sensor"] == one.sensor.address ? one.sensor.id : two.sensor.id
            let told = try #require(try await again.coverages(dayStartingAt: day)[sensor])
            #expect(Double(row["expected_seconds"] ?? "") == told.expectedSeconds)
            #expect(Double(row["covered_seconds"] ?? "") == told.coveredSeconds)
            #expect(Double(row["longest_gap_seconds"] ?? "") == told.longestGapSeconds)
            for cause in GapCause.allCases {
                #expect(
                    Double(row["\(cause.rawValue)_seconds"] ?? "")
                        == told.secondsByCause[cause] ?? 0, "\(cause)")
            }
        }
        let second = try coverage(ExportFilter(since: ManualClock.midnight + Coverage.day))
        #expect(second == rows.filter { $0["day"] == "2026-12-02" })
        let first = try coverage(ExportFilter(until: ManualClock.midnight + Coverage.day))
        #expect(first == rows.filter { $0["day"] == "2026-12-01" })
    }

    @Test func aStrapThatTwoPatientsWoreOnADayHasARowForEach() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await stream(queue, worn.assignment, seconds: 100)
        try await queue.endAssignment(sensor: worn.sensor.id)
        clock.advance(seconds: 1_000)
        let other = try await queue.enroll(.example("ward-9", patient: "p-9"))
        let next = try await queue.assign(sensor: worn.sensor.id, enrollment: other.id)
        try await stream(queue, next, seconds: 50)
        try await queue.close()
        let rows = try coverage()
        #expect(rows.map { $0["patient"] } == ["p-1", "p-9"])
        #expect(rows.map { $0["expected_seconds"] } == ["100.000", "50.000"])
        #expect(rows.allSatisfy { $0["percent"] == "100.000" })
    }

    @Test func aStoreWithoutStrapsHasHeadersAlone() async throws {
        try await store.open(clock).close()
        #expect(try gaps().isEmpty)
        #expect(try coverage().isEmpty)
    }

    @Test func anExportSaysWhetherItLeavesOutSamplesThatWereDelivered() async throws {
        let queue = try await store.open(clock)
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        for _ in 0..<40 {
            try await queue.beat(one.assignment, clock)
            try await queue.beat(two.assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        try await queue.deliverAll(one.enrollment.id)
        try await queue.close()
        struct Export: Equatable {
            var samples: Int
            var leavesOut: Bool
            init(_ samples: Int, _ leavesOut: Bool) {
                (self.samples, self.leavesOut) = (samples, leavesOut)
            }
        }
        func export(
            _ filter: ExportFilter = ExportFilter(), _ selection: ExportSelection = .unsent
        ) throws -> Export {
            let summary = try SampleQueue.export(
                path: store.path, selection: selection, filter: filter
            ) { _ in }
            return Export(summary.samples, summary.leavesOut)
        }
        #expect(try export() == Export(40, true))
        #expect(try export(ExportFilter(), .everything) == Export(80, false))
        #expect(try export(ExportFilter(sensor: one.sensor.address)) == Export(0, true))
        #expect(try export(ExportFilter(sensor: two.sensor.address)) == Export(40, false))
        #expect(try export(ExportFilter(destination: "ward-1")) == Export(0, true))
        let late = ManualClock.midnight + .seconds(30)
        #expect(try export(ExportFilter(since: late)) == Export(10, true))
        let again = try await store.open(clock)
        try await again.deliverAll(two.enrollment.id)
        try await again.close()
        // Nothing waits: the samples that are skipped at the beginning count as well.
        #expect(try export() == Export(0, true))
        #expect(try export(ExportFilter(until: late)) == Export(0, true))
        #expect(try export(ExportFilter(since: late + .seconds(30))) == Export(0, false))
        #expect(try export(ExportFilter(until: ManualClock.midnight)) == Export(0, false))
        #expect(try export(ExportFilter(destination: "ward-2")) == Export(0, true))
    }

    /// `queue export --all --last 7d` had the last day alone, and said nothing.
    @Test func anExportSaysWhetherSamplesOfItsTimeWereDeleted() async throws {
        let queue = try await store.open(clock)
        let one = try await Worn(queue, 1)
        let two = try await Worn(queue, 2)
        func record(_ seconds: Int) async throws {
            for _ in 0..<seconds {
                try await queue.beat(one.assignment, clock)
                try await queue.beat(two.assignment, clock)
                clock.advance(seconds: 1)
            }
            try await queue.flush()
        }
        func lacks(_ filter: ExportFilter = ExportFilter()) throws -> Bool {
            try SampleQueue.hasDeletedSamples(path: store.path, filter: filter)
        }
        try await record(40)
        try await queue.deliverAll(one.enrollment.id)
        #expect(try !lacks(), "delivered samples stay for a while")
        clock.advance(seconds: 30 * 86_400)
        let late = ManualClock.midnight + .seconds(30 * 86_400)
        try await record(5)
        try await queue.prune()
        try await queue.close()
        #expect(try lacks())
        #expect(try lacks(ExportFilter(sensor: one.sensor.address)))
        #expect(try lacks(ExportFilter(destination: "ward-1")))
        #expect(try lacks(ExportFilter(since: ManualClock.midnight + .seconds(39))))
        #expect(try !lacks(ExportFilter(sensor: two.sensor.address)))
        #expect(try !lacks(ExportFilter(destination: "ward-2")))
        #expect(try !lacks(ExportFilter(until: ManualClock.midnight)))
        #expect(try !lacks(ExportFilter(since: late + .seconds(60))))
    }

    @Test(arguments: [
        (0.0, "0.000"), (0.0004, "0.000"), (99.9996, "100.000"), (86_400, "86400.000"),
    ])
    func figuresHaveThreeDecimals(value: Double, text: String) {
        #expect(ExportColumn.decimal(value) == text)
    }

    /// Such a name took the rows behind it into its own field.
    @Test(arguments: [
        ("\"\u{301}", "\"\"\"\u{301}\""), (",\u{301}", "\",\u{301}\""),
        ("=\u{FE0F}1", "'=\u{FE0F}1"),
        ("a\r\nb", "\"a\r\nb\""), ("Ada", "Ada"),
    ])
    func marksOfAnotherCharacterDoNotHideAQuote(name: String, field: String) {
        #expect(Array(CSVField.text(name).unicodeScalars) == Array(field.unicodeScalars))
    }

    /// A day with half a second missing is not complete.
    @Test(arguments: [(99.9999, "99.999"), (100, "100.000"), (99.65, "99.650"), (0, "0.000")])
    func aShareIsNeverRoundedUp(percent: Double, text: String) {
        #expect(ExportColumn.share(percent) == text)
    }
}
