import GRDB

/// Sums over all segments, for the rules that check whether samples move.
public struct StoreTotals: Sendable, Hashable {
    /// Frames of each sensor that were written, readable or not, by the sensor's number.
    public var received: [Int64: Int] = [:]
    /// What each enrollment has settled (delivered, dead or dropped), by its number.
    public var settled: [Int64: Int] = [:]
    /// What waits for each enrollment and is not held, by its number.
    public var pending: [Int64: Int] = [:]
    /// Samples that are dead letters.
    public var dead = 0
    /// Samples held because no enrollment delivers them.
    public var notEnrolled = 0
}

extension SampleQueue {
    /// Counts everything in one walk through the segments' counters; no sample row is read.
    public func totals() throws(QueueError) -> StoreTotals {
        try read("read totals") { [patientHolds] db in
            var totals = StoreTotals()
            let sums = try Row.fetchCursor(
                db,
                sql: """
                    SELECT \(Self.holdSQL) AS hold, a.sensor, a.enrollment, a.patient,
                        sum(s.received), sum(s.dead), sum(s.delivered + s.dead + s.dropped),
                        sum(s.stored - s.delivered - s.dead - s.dropped)
                    \(Self.segmentJoins) GROUP BY hold, a.sensor, a.enrollment, a.patient
                    """)
            while let row = try sums.next() {
                guard let sensor = row[1] as Int64? else { continue }
                totals.received[sensor, default: 0] += row[4] ?? 0
                totals.dead += row[5] ?? 0
                let unsent: Int = row[7] ?? 0
                guard let enrollment = row[2] as Int64? else {
                    totals.notEnrolled += unsent
                    continue
                }
                totals.settled[enrollment, default: 0] += row[6] ?? 0
                let patientHold = (row[3] as String?).flatMap { patientHolds[enrollment]?[$0] }
                if row[0] as String? == nil, patientHold == nil {
                    totals.pending[enrollment, default: 0] += unsent
                }
            }
            return totals
        }
    }
}
