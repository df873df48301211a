import OfflineQueue

/// The metrics, whose counters never fall while the daemon runs.
///
/// The figures in the books may fall: samples that are to be delivered again do not count as delivered for a while, and
/// an erasure takes its samples out. Prometheus takes a fall for a restart at zero, and counts what is left as new.
actor CountedMetrics {
    private let status: StatusService
    /// A report that is older than the one before would make counters rise twice.
    private let turns = OneAtATime()
    private var counters = RisingCounters()

    init(status: StatusService) { self.status = status }

    /// Counts from here on. Without it counters begin with the first scrape.
    func begin() async { _ = try? await text() }

    /// The state now.
    nonisolated func text() async throws -> String {
        try await turns.run {
            // The books of what stands in for a store that cannot be opened are empty.
            let wasAbsent = await status.queue.health().isAbsent
            let report = try await status.report()
            let isAbsent = await status.queue.health().isAbsent
            return await page(report, isOfStore: !wasAbsent && !isAbsent)
        }
    }

    private func page(_ report: StatusReport, isOfStore: Bool) -> String {
        let page = Metrics.page(report, counters.reading(isOfStore))
        counters = page.counters ?? counters
        return page.text
    }
}

/// What the books' figures have risen by since the daemon began. A value.
struct RisingCounters: Sendable {
    private var series: [String: (books: Double, count: Double)] = [:]
    /// Whether a series that is new has begun since then.
    private var hasBegun = false
    private var isReading = true

    /// The same for a page whose figures are the store's, or are not.
    func reading(_ isOfStore: Bool) -> RisingCounters {
        var next = self
        next.hasBegun = hasBegun || !series.isEmpty
        next.isReading = isOfStore
        return next
    }

    /// What a series counts whose figure in the books is this.
    mutating func count(_ name: String, _ books: Double) -> Double {
        let before = series[name] ?? (books: hasBegun ? 0 : books, count: 0)
        guard isReading else { return before.count }
        let count = before.count + max(0, books - before.books)
        series[name] = (books, count)
        return count
    }
}
