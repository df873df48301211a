extension Schema {
    /// Dead letters by the data point that died.
    ///
    /// `dead_letter.sent_as`: the identity of the data point that the exchange refused, which may be the
    /// average of a window or an RR interval; all samples of that data point have the same one. NULL: it
    /// was never sent, or died before this version; then it is the sample's own.
    static let version4 = """
        ALTER TABLE dead_letter ADD COLUMN sent_as TEXT;
        CREATE INDEX dead_letter_sent_as ON dead_letter(sent_as) WHERE sent_as IS NOT NULL;
        """
}
