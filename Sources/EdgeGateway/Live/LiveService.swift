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

    /// The sensors that are recorded.
    func knownSensors() async throws -> [Sensor] {
        try await queue.sensors()
    }

    /// These sensors, now. Reads memory only: it is asked several times a second.
    func straps(_ sensors: [Sensor]) async throws -> [LiveStrap] {
        let sessions = await recorder.recorded
        let snapshots = await central.snapshots()
        let uptime = clock.read().uptime.microseconds
        return sensors.map { sensor in
            let link = snapshots.first { $0.address == sensor.address }
            return LiveStrap(
                sensor, sessions[sensor.address], link, uptime: uptime,
                freshSeconds: SensorReport.freshSeconds)
        }
    }

    /// The chart of one sensor: columns of `bucketSeconds`, and the gaps between them.
    func history(
        of sensor: Int64, minutes: Int, bucketSeconds: Int, gapsMax: Int
    ) async throws -> LiveHistoryReport {
        let now = clock.read().wall.microseconds
        let bucket = Int64(bucketSeconds) * 1_000_000
        let from = max(0, now - Int64(minutes) * 60_000_000) / bucket * bucket
        let buckets = try await queue.heartRateChart(
            sensor: sensor, from: from, until: max(now, from + 1), bucket: bucket)
        let gaps = try await queue.gaps(sensor: sensor, since: from, limit: gapsMax)
        return LiveHistoryReport(
            sensor: sensor, from: Date(microseconds: from), until: Date(microseconds: now),
            bucketSeconds: bucketSeconds, points: buckets.map(LiveHistoryReport.Point.init),
            gaps: gaps.compactMap(LiveHistoryReport.Silence.init))
    }
}

extension LiveStrap {
    fileprivate init(
        _ sensor: Sensor, _ session: SensorSession?, _ link: LinkSnapshot?, uptime: Int64,
        freshSeconds: Double
    ) {
        let age = session?.latestUptimeMicroseconds.map { Double(uptime - $0) / 1_000_000 }
        // An old rate is no rate: it must not be mistaken for a beating heart.
        let fresh = age.map { $0 <= freshSeconds } ?? false ? session?.latest : nil
        self.init(
            sensor: sensor.id,
            name: sensor.details.name ?? "Strap " + Recorder.masked(sensor.address),
            bpm: fresh.map { Int($0.bpm) }, contact: fresh?.contact.detected,
            rrMs: fresh.map { $0.rrIntervals.map { Int($0) * 1000 / 1024 } },
            batteryPercent: session?.batteryPercent, secondsSinceFrame: age,
            link: link?.state.kind ?? "absent",
            linkSeconds: link?.upSince.map { Double(uptime - $0.microseconds) / 1_000_000 },
            rssi: link?.rssi)
    }
}

extension LiveHistoryReport.Point {
    init(_ bucket: HeartRateBucket) {
        self.init(
            at: Date(microseconds: bucket.beginMicroseconds), low: Int(bucket.lowestBPM),
            mean: (bucket.meanBPM * 10).rounded() / 10, high: Int(bucket.highestBPM),
            count: bucket.count)
    }
}

extension LiveHistoryReport.Silence {
    /// Nil for a gap that cannot be placed on a time line.
    init?(_ gap: Gap) {
        guard let from = gap.fromMicroseconds else { return nil }
        self.init(
            from: Date(microseconds: from),
            until: gap.isOpen ? nil : gap.untilMicroseconds.map(Date.init(microseconds:)),
            cause: gap.cause.rawValue)
    }
}
