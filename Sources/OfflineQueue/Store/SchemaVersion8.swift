extension Schema {
    /// Which numbers of enrollments and assignments were erased: none comes back.
    ///
    /// Older states of pages, in the log or in a broken store, may name them still, and a salvage that finds such a row
    /// must neither keep it nor take it for that of somebody else.
    static let version8 = """
        CREATE TABLE erased_number (
            kind TEXT NOT NULL CHECK (kind IN ('enrollment', 'assignment')),
            number INTEGER NOT NULL,
            PRIMARY KEY (kind, number)
        ) STRICT, WITHOUT ROWID;
        """
}
