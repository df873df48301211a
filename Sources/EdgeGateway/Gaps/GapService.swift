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

    /// Gaps and coverage of the last days, today included.
    ///
    /// - Parameters:
    ///   - sensor: the store's number of one sensor; nil for all.
    ///   - days: 1 to `daysMax`.
    func gaps(sensor: Int64?, days: Int) async throws -> GapsReport {
        guard (1...Self.daysMax).contains(days) else {
            throw ProblemReport(
                code: .badRequest, message: "days must be 1 to \(Self.daysMax)",
                advice: "edge-gateway gaps --days 7")
        }
        let sensors = try await queue.sensors(includingForgotten: true)
        let chosen = sensors.filter { sensor == nil || $0.id == sensor }
        guard sensor == nil || !chosen.isEmpty else {
            throw ProblemReport(
                code: .unknownSensor, message: "no such sensor",
                advice: "edge-gateway sensors lists them")
        }
        let today = Coverage.dayStart(of: clock.read().wall)
        let begin = today - Coverage.day * (days - 1)
        let found = try await queue.gaps(
            sensor: sensor, since: begin, limit: Self.gapsMax + 1)
        var coverage: [CoverageReport] = []
        for day in 0..<days {
            let start = begin + Coverage.day * day
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
