import GRDB

extension SalvageSource.Values {
    /// The value of a column; nil if the row has none of this type.
    func value<Found: DatabaseValueConvertible>(_ name: String) -> Found? {
        self[name].flatMap(Found.fromDatabaseValue)
    }

    /// The number in a column.
    func number(_ name: String) -> Int64? { value(name) }
}

/// A segment's row as a broken store has it: what of it can be believed.
struct SegmentRow: Sendable {
    let assignment: Int64
    let run: Int64
    let identityShift: Int64
    let settledThrough: Int64
    let prunedThrough: Int64
    let lastSample: Int64
    let wallOffset: WallOffset?

    private static let counters = [
        "received", "stored", "undecodable", "refused", "delivered", "dead", "dropped", "pruned",
    ]
    private static let cursors = [
        "first_sample", "last_sample", "settled_through", "pruned_through",
    ]

    /// Nil if it does not say whose it is.
    init?(_ row: SalvageSource.Values) {
        let shift = row.number("identity_shift") ?? 0
        guard let assignment = row.number("assignment"), let run = row.number("run"),
            (-SampleIdentity.sampleMax...SampleIdentity.sampleMax).contains(shift)
        else { return nil }
        (self.assignment, self.run, identityShift) = (assignment, run, shift)
        wallOffset = row.value("wall_offset_us")
        // A row that contradicts itself is believed nothing but its references: its samples are sent
        // again, under the identities they have, and the exchange says that it has them.
        let isSound = Self.isSound(row)
        settledThrough = isSound ? row.number("settled_through") ?? 0 : 0
        prunedThrough = isSound ? row.number("pruned_through") ?? 0 : 0
        lastSample = isSound ? row.number("last_sample") ?? .max : .max
    }

    /// Whether cursors and counters of a row fit together, as the schema demands.
    static func isSound(_ row: SalvageSource.Values) -> Bool {
        let counts = counters.map { row.number($0) ?? -1 }
        let bounds = cursors.map { row.number($0) ?? -1 }
        guard counts.allSatisfy({ $0 >= 0 && $0 <= SampleIdentity.sampleMax }),
            bounds.allSatisfy({ $0 >= 0 && $0 <= SampleIdentity.sampleMax })
        else { return false }
        return bounds[0] - 1 <= bounds[3] && bounds[3] <= bounds[2] && bounds[2] <= bounds[1]
            && counts[0] == counts[1] + counts[2] + counts[3]
            && counts[1] >= counts[4] + counts[5] + counts[6] && counts[7] <= counts[4] + counts[6]
    }

    /// Whether `row` is a later state of the same segment than `other`.
    static func isNewer(
        _ row: SalvageSource.Values, than other: SalvageSource.Values
    ) -> Bool {
        guard isSound(other) else { return true }
        for name in ["received", "settled_through", "delivered", "pruned_through"] {
            let (new, old) = (row.number(name) ?? 0, other.number(name) ?? 0)
            if new != old { return new > old }
        }
        return false
    }
}
