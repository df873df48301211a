import GRDB

/// The hardware that a store belongs to, as far as it can be told: a copy of the store is on another one.
public struct KnownBoard: Sendable, Hashable {
    /// Hashes of what the hardware carries; one of them is enough to know it again.
    public var traits: Set<String>

    /// Hardware with these traits.
    public init(traits: Set<String>) { self.traits = traits }
}

extension SampleQueue {
    /// The hardware that the store was confirmed to belong to; nil if nobody has looked yet.
    public func board() throws(QueueError) -> KnownBoard? {
        let traits = try read("read board") { db in
            try String.fetchSet(db, sql: "SELECT trait FROM board")
        }
        return traits.isEmpty ? nil : KnownBoard(traits: traits)
    }

    /// Notes the hardware that the store belongs to.
    public func setBoard(_ board: KnownBoard) throws(QueueError) {
        try write("note board") { db in
            try db.execute(sql: "DELETE FROM board")
            for trait in board.traits {
                try db.execute(
                    sql: "INSERT INTO board (trait) VALUES (?)", arguments: [trait.bounded])
            }
        }
    }
}
