import Basics
import BlueZ
import Foundation
import GATTHeartRate
import OfflineQueue
import Recording

/// Straps and charts as the live page shows them.
struct LiveService: Sendable {
    let queue: SampleQueue
    let central: Central
    let recorder: Recorder
    let clock: any GatewayClock

    /// Whether a screen shows rates.
    func setWatched(_ isWatched: Bool) async { await central.setWatched(isWatched) }

    /// When a strap that is recorded last went from one person to another.
    func handedOver() async -> Uptime? {
        await recorder.recorded.values.compactMap(\.session.handedOver).max()
    }

    /// These sensors with their open assignments, now. Reads memory only: clients ask several times a second.
    func straps(_ sensors: [Sensor], _ assignments: [Int64: Int64]) async -> [LiveStrap] {
        let recorded = await recorder.recorded
        let links = Dictionary(
            await central.snapshots().map { ($0.address, $0) },
            uniquingKeysWith: { first, _ in first })
        let uptime = clock.read().uptime
        return sensors.map { sensor in
            let known = recorded[sensor.id]
            return LiveStrap(
                sensor, assignments[sensor.id], known?.session,
                links[known?.address ?? sensor.address], at: uptime,
                freshTime: SensorReport.freshTime)
        }
    }

    /// The chart of one wearer of a strap: columns of `bucket`, whole seconds, and the gaps between them.
    func history(
        of worn: WornStrap, minutes: Int, bucket: Duration, gapsMax: Int
    ) async throws -> LiveHistoryReport {
        let now = clock.read().wall
        let from = (now - .seconds(60) * minutes).start(ofEach: bucket)
        let buckets = try await queue.heartRateChart(
            sensor: worn.sensor, assignment: worn.assignment, from: from,
            until: max(now, from + .microseconds(1)), bucket: bucket,
            needsContact: recorder.needsContact)
        let gaps = try await queue.gaps(
            assignment: worn.assignment, since: from, limit: gapsMax, isNewest: true)
        return LiveHistoryReport(
            sensor: worn.sensor, from: Date(from), until: Date(now),
            bucketSeconds: Int(bucket.components.seconds),
            points: buckets.map(LiveHistoryReport.Point.init),
            gaps: gaps.compactMap(LiveHistoryReport.Silence.init))
    }
}

extension LiveHistoryReport.Point {
    init(_ bucket: HeartRateBucket) {
        self.init(
            at: Date(bucket.begin), low: Int(bucket.lowestBPM),
            mean: (bucket.meanBPM * 10).rounded() / 10, high: Int(bucket.highestBPM),
            count: bucket.count)
    }
}

extension LiveHistoryReport.Silence {
    /// Nil for a gap that cannot be placed on a time line.
    init?(_ gap: Gap) {
        guard let from = gap.from else { return nil }
        self.init(
            from: Date(from), until: gap.isOpen ? nil : gap.until.map { Date($0) },
            cause: gap.cause.rawValue)
    }
}
