import Basics
import Foundation
import GATTHeartRate
import GRDB

/// The result of an export of beats.
public struct BeatSummary: Sendable, Hashable {
    /// Beats written.
    public internal(set) var beats = 0
    /// Samples left out because their row fails its checksum.
    public internal(set) var damaged = 0
}

extension SampleQueue {
    /// Writes the beats of the store at `path` to `sink` as CSV, in pieces of about 64 KiB: strap by
    /// strap, and each segment in order of arrival. Samples that are delivered count too, since beats
    /// are chained.
    ///
    /// Only reads, in one snapshot. A daemon may be at work meanwhile; its log grows until this ends.
    /// The file names sensors. The filter's times are those of the beats.
    ///
    /// `progress` gets the part done, 0…1. Throws ``QueueError`` (`unknown-reference` as
    /// ``export(path:format:selection:filter:now:progress:to:)`` does), and whatever `sink` throws.
    @discardableResult
    public static func exportBeats(
        path: String, filter: ExportFilter = ExportFilter(),
        progress: (Double) -> Void = { _ in }, to sink: ([UInt8]) throws -> Void
    ) throws -> BeatSummary {
        try filter.exportTable(path, "export beats", ExportColumn.beats, to: sink) { db, lines in
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM segment") ?? 0
            let segments = try Row.fetchCursor(
                db,
                sql: """
                    SELECT s.id, n.address, s.wall_offset_us, s.first_sample, s.last_sample
                    FROM segment s
                    JOIN assignment a ON a.id = s.assignment
                    JOIN sensor n ON n.id = a.sensor
                    WHERE ?1 IS NULL OR n.address = ?1
                    ORDER BY n.address, s.id
                    """, arguments: [filter.sensor])
            var (summary, done) = (BeatSummary(), 0)
            while let row = try segments.next() {
                progress(Double(done) / Double(max(1, count)))
                done += 1
                try summary.write(row, db, filter, &lines, to: sink)
            }
            return summary
        }
    }
}

extension BeatSummary {
    /// The beats of one segment, whose row is `segment`.
    fileprivate mutating func write(
        _ segment: Row, _ db: Database, _ filter: ExportFilter, _ lines: inout ExportLines,
        to sink: ([UInt8]) throws -> Void
    ) throws {
        guard let id = segment[0] as Int64? else { return }
        let wallOffset = segment[2] as WallOffset?
        var table = BeatTable(
            strap: segment[1] ?? "", segment: id, since: filter.since,
            until: filter.until)
        let key = try db.storeKey()
        let rows = try Row.fetchCursor(
            db, sql: SampleColumn.rowsOfSegment,
            arguments: [(segment[3] as Int64? ?? 1) &- 1, segment[4] as Int64? ?? .max, id, -1])
        while let row = try rows.next() {
            let sample = SampleRow(row)
            guard sample.isIntact(key) else {
                damaged += 1
                continue
            }
            guard let measurement = try? HeartRateMeasurement(frame: sample.frame) else { continue }
            let found = table.lines(
                of: BeatTable.Frame(
                    uptime: sample.uptime, time: sample.time(wallOffset),
                    flags: Plausibility(rawValue: UInt16(truncatingIfNeeded: sample.flags)),
                    rr: measurement.rrIntervals))
            for line in found { try lines.add(line, to: sink) }
            beats += found.count
        }
    }
}
