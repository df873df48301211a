extension Duration {
    /// Whole microseconds, cut toward zero, saturating: as the store has a length of time.
    public var microseconds: Int64 {
        let (seconds, attoseconds) = components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000)
        let (sum, isTooMuch) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000_000)
        return overflow || isTooMuch ? (seconds < 0 ? .min : .max) : sum
    }

    /// Seconds, to the microsecond: as reports have a length of time.
    public var inSeconds: Double { Double(microseconds) / 1_000_000 }
}
