import Basics

/// Notices an adapter that hears sensors and connects to none of them: a value that decides what to do.
///
/// One sensor at the edge of its range is heard and cannot be connected. Where it is each of them, time and again, the
/// controller or the kernel waits for a connection that never comes about, and only a reset ends that.
struct ConnectWatch: Sendable {
    /// So many attempts in a row fail first.
    static let failuresMax = 6
    /// And so long. It doubles with each step that did not help: there may be nobody but sensors out of range.
    static let patience = Backoff(first: .seconds(90), longest: .seconds(3_600))
    /// Steps of ``patience`` that are skipped while links are up, some 12 min: a power-cycle costs those 10 s.
    static let stepsBesideLinks = 3

    private var failures = 0
    private var failingSince: Uptime?
    private var steps = 0

    /// A sensor was connected.
    mutating func succeed() { self = ConnectWatch() }

    /// A sensor that was heard could not be connected.
    ///
    /// - Parameter hasLinks: links of this adapter are up, which a reset would cut.
    mutating func fail(hasLinks: Bool, at now: Uptime) -> RadioWatch.Action? {
        let since = failingSince ?? now
        failingSince = since
        failures += 1
        let step = steps + 1 + (hasLinks ? Self.stepsBesideLinks : 0)
        guard failures >= Self.failuresMax, now - since >= Self.patience.pause(after: step) else {
            return nil
        }
        failures = 0
        failingSince = nil
        steps += 1
        return steps == 1 ? .powerCycle : .resetController
    }
}
