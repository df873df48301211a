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
        let (begin, touched) = try span(days: days, since: since, until: until)
        let sensors = try await queue.sensors(includingForgotten: true)
        let chosen = sensors.filter { sensor == nil || $0.id == sensor }
        guard sensor == nil || !chosen.isEmpty else {
            throw ProblemReport(
                code: .unknownSensor, message: "no such strap",
                advice: "edge-gateway straps lists them")
        }
        let found = try await queue.gaps(
            sensor: sensor, since: begin, until: until, limit: Self.gapsMax + 1)
        return GapsReport(
            gaps: found.prefix(Self.gapsMax).map { gap in
                GapReport(gap, of: chosen.first { $0.id == gap.sensorID })
            },
            more: found.count > Self.gapsMax, coverage: try await coverage(of: chosen, on: touched))
    }

    /// The coverage of the days that a stretch of time touches, for a fleet's table: names of straps, and no address.
    ///
    /// - Parameters: as ``gaps(sensor:days:since:until:)`` has them.
    func fleetCoverage(
        of gateway: GatewayIdentity, days: Int, since: UTC? = nil, until: UTC? = nil
    ) async throws -> FleetCoverageReport {
        let now = clock.read().trustedWall
        let (_, touched) = try span(days: days, since: since, until: until)
        let sensors = try await queue.sensors(includingForgotten: true)
        let coverage = try await coverage(of: sensors, on: touched)
        return FleetCoverageReport(
            time: now.map { Date($0) }, gateway: gateway,
            since: Date(UTC(day: touched.lowerBound)),
            until: Date(UTC(day: touched.upperBound + 1)),
            straps: sensors.compactMap { sensor in
                let days = coverage.filter { $0.sensor == sensor.id }
                guard !days.isEmpty else { return nil }
                return FleetCoverageReport.Strap(
                    name: FleetReport.name(
                        of: sensor.id, sensor.label, address: sensor.address),
                    days: days.map(FleetCoverageReport.Day.init))
            })
    }

    /// Where a stretch of time begins, and the days that it touches.
    private func span(
        days: Int, since: UTC?, until: UTC?
    ) throws -> (begin: UTC, days: ClosedRange<Int64>) {
        func refuse(_ message: String) -> ProblemReport {
            ProblemReport(
                code: .badRequest, message: message, advice: "edge-gateway gaps --last 7d")
        }
        let tooMany = "this command lists 1 to \(Self.daysMax) days"
        guard (1...Self.daysMax).contains(days) else { throw refuse(tooMany) }
        let now = clock.read().wall
        let last = Coverage.dayStart(of: min(until.map { $0 - .microseconds(1) } ?? now, now))
        let begin = since ?? last - Coverage.day * (days - 1)
        guard begin <= now else { throw refuse("the beginning is in the future") }
        guard until.map({ begin < $0 }) ?? true else {
            throw refuse("the beginning is not before the end")
        }
        // A month in which clocks go back is an hour longer.
        guard min(until ?? now, now) - begin <= Coverage.day * Self.daysMax + .seconds(3_600) else {
            throw refuse(tooMany)
        }
        return (begin, begin.day...last.day)
    }

    private func coverage(
        of sensors: [Sensor], on days: ClosedRange<Int64>
    ) async throws -> [CoverageReport] {
        var reports: [CoverageReport] = []
        for day in days {
            let coverages = try await queue.coverages(dayStartingAt: UTC(day: day))
            for sensor in sensors {
                guard let covered = coverages[sensor.id], covered.expectedSeconds > 0 else {
                    continue
                }
                reports.append(CoverageReport(sensor, covered))
            }
        }
        return reports
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
