extension Schema {
    /// Copies of frames that arrived because other programs listen to the strap as well.
    ///
    /// `segment.doubled`: how many were passed over. They are received, and not among `segment.received`,
    /// which counts the frames that are in the store or were refused.
    static let version5 = """
        ALTER TABLE segment ADD COLUMN doubled INTEGER NOT NULL DEFAULT 0 CHECK (doubled >= 0);
        """
}
