extension Schema {
    /// Copies of frames, what a person has to see of the store, and how far its rows were checked.
    ///
    /// `segment.doubled`: frames that arrived once more because other programs listen to the strap as well.
    /// They are received, and not among `segment.received`, which counts the frames that are in the store or
    /// were refused. `damaged_row`: samples whose row fails its checksum. `missing_store`: when the files of a
    /// store that had been here were gone. `walk`: the last sample that was checked.
    ///
    /// None of the tables has a row number: the rows of other tables are found by their shape in the pages of
    /// a broken store, and these would be taken for them.
    static let version5 = """
        ALTER TABLE segment ADD COLUMN doubled INTEGER NOT NULL DEFAULT 0 CHECK (doubled >= 0);

        CREATE TABLE damaged_row (
            sample INTEGER NOT NULL PRIMARY KEY,
            is_acknowledged INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE missing_store (
            at_wall_us INTEGER NOT NULL PRIMARY KEY,
            detail TEXT NOT NULL,
            is_carried INTEGER NOT NULL,
            is_acknowledged INTEGER NOT NULL DEFAULT 0
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE walk (
            id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
            through INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """
}
