import Basics
import GRDB

/// Assignments that a run took for open and that have ended in its store, which was away: a change that was refused
/// may be in it all the same, and a stand-in may not have shown one.
struct EndedAssignments: Sendable {
    /// When one ended, and the sensor's next one.
    struct End: Sendable {
        var uptime: Uptime
        var next: Int64?
    }

    private(set) var ends: [Int64: End] = [:]

    init() {}

    /// Looks up those of `open` in the store; `boot` is the row of that in which they were taken for open. What ended in
    /// a later one had not ended then.
    init(_ db: Database, among open: some Sequence<Int64>, boot: Int64) throws {
        for id in open {
            let row = try Row.fetchOne(
                db,
                sql: """
                    SELECT a.ended_boot, a.ended_uptime_us, n.id AS next FROM assignment a
                    LEFT JOIN assignment n ON n.sensor = a.sensor AND n.ended_boot IS NULL
                    WHERE a.id = ? AND a.ended_boot IS NOT NULL
                    """, arguments: [id])
            guard let row, let ended = row["ended_boot"] as Int64?, ended <= boot else { continue }
            ends[id] = End(
                uptime: ended == boot ? row["ended_uptime_us"] ?? .zero : .zero, next: row["next"])
        }
    }

    /// The frame as it is to be stored; nil if its sensor had no assignment when it came.
    func reassigned(_ arrival: Arrival) -> Arrival? {
        guard let id = assignment(insteadOf: arrival.assignmentID, at: arrival.uptime) else {
            return nil
        }
        var arrival = arrival
        arrival.assignmentID = id
        return arrival
    }

    /// The assignment of what came then from the sensor of this one; nil if it has none.
    func assignment(insteadOf id: Int64, at uptime: Uptime) -> Int64? {
        guard let end = ends[id], uptime >= end.uptime else { return id }
        return end.next
    }
}
