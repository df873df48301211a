extension Schema {
    /// What a person has seen of losses, and since when a destination was added.
    ///
    /// `acknowledged_loss`: how many of the losses with a reason were acknowledged; those of before count as
    /// seen. `further_destination.added_wall_us`: samples wait for a destination from then on, not from
    /// before it was there; NULL: always.
    static let version7 = """
        ALTER TABLE further_destination ADD COLUMN added_wall_us INTEGER;

        CREATE TABLE acknowledged_loss (
            reason TEXT NOT NULL PRIMARY KEY,
            count INTEGER NOT NULL CHECK (count >= 0)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO acknowledged_loss SELECT reason, sum(count) FROM loss GROUP BY reason;
        """
}
