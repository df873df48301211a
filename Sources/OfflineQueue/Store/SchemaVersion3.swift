extension Schema {
    /// Bounds, salvage and import.
    ///
    /// `segment.identity_shift` and `run.is_imported`: a sample that came from another store has
    /// another number here than there; its identity is made of `id - identity_shift` and the nonce of
    /// its own run. `imported` remembers, as ranges of numbers of such a run, what was taken over, for
    /// ever: that is what makes a second import add nothing.
    static let version3 = """
        ALTER TABLE segment ADD COLUMN undecodable_pruned INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE segment ADD COLUMN identity_shift INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE run ADD COLUMN is_imported INTEGER NOT NULL DEFAULT 0;

        CREATE TABLE imported (
            run INTEGER NOT NULL REFERENCES run(id),
            first_number INTEGER NOT NULL,
            last_number INTEGER NOT NULL,
            PRIMARY KEY (run, first_number),
            CHECK (first_number <= last_number)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE salvage (
            id INTEGER PRIMARY KEY,
            at_wall_us INTEGER NOT NULL,
            broken_file TEXT NOT NULL,
            cause TEXT NOT NULL,
            carried INTEGER NOT NULL,
            damaged INTEGER NOT NULL,
            orphaned INTEGER NOT NULL,
            lost INTEGER NOT NULL,
            is_acknowledged INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        """
}
