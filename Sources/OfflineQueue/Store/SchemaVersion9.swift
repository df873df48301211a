extension Schema {
    /// The highest numbers of samples and segments that were there when something was erased: higher ones follow.
    ///
    /// Pages that an earlier pruning freed keep rows of the erased. Under numbers that are given again, a salvage would
    /// take those rows for somebody else's.
    static let version9 = """
        CREATE TABLE erased_until (
            kind TEXT NOT NULL PRIMARY KEY CHECK (kind IN ('segment', 'sample')),
            number INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """
}
