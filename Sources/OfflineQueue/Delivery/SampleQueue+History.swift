import Basics
import GATTHeartRate
import GRDB

extension SampleQueue {
    static let hour = Duration.seconds(3_600)

    /// Every heart rate of a sensor, or of one of its assignments, in a span of UTC, its time and how far that may be wrong,
    /// segment after segment; those of frames that cannot be decoded, and those with a flag of `lacking`, are none.
    static func heartRates(
        _ db: Database, sensor: Int64, assignment: Int64?, in span: Range<UTC>,
        lacking: Plausibility,
        _ body: (UTC, UInt16, Duration?) -> Void
    ) throws {
        let segments = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT s.id, s.pruned_through, s.last_sample, s.wall_offset_us, r.boot
                    FROM segment s
                    JOIN run r ON r.id = s.run JOIN assignment a ON a.id = s.assignment
                    WHERE a.sensor = ?1 AND a.id = ifnull(?2, a.id)
                        AND s.pruned_through < s.last_sample
                        AND s.first_uptime_us + s.wall_offset_us < ?3
                        AND s.last_uptime_us + s.wall_offset_us >= ?4
                    """),
            // A frame that came late may have been sent before its segment began: an hour covers that.
            arguments: [sensor, assignment, span.upperBound + hour, span.lowerBound - hour])
        var clocks = BootClocks(db)
        for segment in segments {
            let clock = try clocks.of(segment[4] ?? 0)
            let walk = HistoryWalk(
                segment: segment[0] ?? 0, last: segment[2] ?? 0, wallOffset: segment[3])
            try walk.rows(db, after: segment[1] ?? 0, in: span) { time, sample in
                guard let measurement = try? HeartRateMeasurement(frame: sample.frame),
                    Plausibility.judge(measurement).isDisjoint(with: lacking)
                else { return }
                body(time, measurement.bpm, sample.timeUncertainty(clock))
            }
        }
    }
}

/// The rows of a segment that lie in a span of time, found by halving its range of ids.
private struct HistoryWalk {
    let segment: Int64
    let last: Int64
    let wallOffset: WallOffset?

    func rows(
        _ db: Database, after first: Int64, in span: Range<UTC>,
        _ body: (UTC, SampleRow) -> Void
    ) throws {
        var before = first
        var behind = last
        // Everything up to `before` is earlier than the span, or nothing is.
        while behind - before > 1 {
            let middle = before + (behind - before) / 2
            let row = try Row.fetchOne(
                db.cachedStatement(sql: SampleColumn.rowsOfSegment),
                arguments: [middle, last, segment, 1])
            guard let sample = row.map(SampleRow.init), let time = time(sample),
                time < span.lowerBound
            else {
                behind = middle
                continue
            }
            before = max(middle, sample.id)
            if before >= behind { behind = before }
        }
        let key = try db.storeKey()
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: SampleColumn.rowsOfSegment),
            arguments: [before, last, segment, -1])
        while let row = try rows.next() {
            let sample = SampleRow(row)
            guard sample.isIntact(key), let time = time(sample) else { continue }
            if time >= span.upperBound { break }
            if span.contains(time) { body(time, sample) }
        }
    }

    private func time(_ sample: SampleRow) -> UTC? { sample.time(wallOffset) }
}
