import Basics
import Foundation
import Health
import OfflineQueue

/// The ledger of gaps as commands see it.
struct GapService: Sendable {
    /// Days that can be asked for at once: each is a walk through the day's gaps.
    static let daysMax = 31
    private static let gapsMax = 1000

    let queue: SampleQueue
    let clock: any GatewayClock

    /// Gaps between two instants, and the coverage of the days that they touch.
    ///
    /// - Parameters:
    ///   - sensor: the store's number of one sensor; nil for all.
    ///   - days: how many days there are, the last one included, where `since` is not given.
    ///   - since: nil: as `days` says.
    ///   - until: nil: now.
    func gaps(
        sensor: Int64?, days: Int, since: UTC? = nil, until: UTC? = nil
    ) async throws -> GapsReport {
        func refuse(_ message: String) -> ProblemReport {
            ProblemReport(
                code: .badRequest, message: message, advice: "edge-gateway gaps --last 7d")
        }
        let tooMany = "gaps are listed of 1 to \(Self.daysMax) days"
        guard (1...Self.daysMax).contains(days) else { throw refuse(tooMany) }
        let now = clock.read().wall
        let last = Coverage.dayStart(of: until.map { $0 - .microseconds(1) } ?? now)
        let begin = since ?? last - Coverage.day * (days - 1)
        let first = Coverage.dayStart(of: begin)
        guard begin <= now else { throw refuse("the beginning is in the future") }
        guard until.map({ begin < $0 }) ?? true else {
            throw refuse("the beginning is not before the end")
        }
        guard last - first < Coverage.day * Self.daysMax else { throw refuse(tooMany) }
        let sensors = try await queue.sensors(includingForgotten: true)
        let chosen = sensors.filter { sensor == nil || $0.id == sensor }
        guard sensor == nil || !chosen.isEmpty else {
            throw ProblemReport(
                code: .unknownSensor, message: "no such strap",
                advice: "edge-gateway straps lists them")
        }
        let found = try await queue.gaps(
            sensor: sensor, since: begin, limit: Self.gapsMax + 1
        ).filter { gap in until.flatMap { until in gap.from.map { $0 < until } } ?? true }
        var coverage: [CoverageReport] = []
        for day in first.day...last.day {
            let start = UTC(day: day)
            for sensor in chosen {
                let covered = try await queue.coverage(
                    of: .sensor(sensor.id), dayStartingAt: start)
                guard covered.expectedSeconds > 0 else { continue }
                coverage.append(CoverageReport(sensor, covered))
            }
        }
        return GapsReport(
            gaps: found.prefix(Self.gapsMax).map { gap in
                GapReport(gap, of: chosen.first { $0.id == gap.sensorID })
            },
            more: found.count > Self.gapsMax, coverage: coverage)
    }
}

extension GapReport {
    fileprivate init(_ gap: Gap, of sensor: Sensor?) {
        self.init(
            sensor: gap.sensorID, address: sensor?.address ?? "",
            name: sensor?.label ?? "", cause: gap.cause.rawValue,
            from: gap.from.map { Date($0) },
            until: gap.isOpen ? nil : gap.until.map { Date($0) },
            seconds: gap.duration?.inSeconds, open: gap.isOpen)
    }
}

extension CoverageReport {
    fileprivate init(_ sensor: Sensor, _ coverage: Coverage) {
        var causes: [String: Double] = [:]
        for (cause, seconds) in coverage.secondsByCause { causes[cause.rawValue] = seconds }
        self.init(
            sensor: sensor.id, address: sensor.address, name: sensor.label,
            day: Date(coverage.dayStart),
            expectedSeconds: coverage.expectedSeconds, coveredSeconds: coverage.coveredSeconds,
            percent: coverage.percent, longestGapSeconds: coverage.longestGapSeconds,
            secondsByCause: causes)
    }
}
