import Basics

/// Notices an adapter that hears sensors and connects to none of them: a value that decides what to do.
///
/// A sensor at the edge of its range is heard and cannot be connected. If no sensor can be, the controller or the kernel
/// waits for a connection that is never made, and only a reset ends that.
struct ConnectWatch: Sendable {
    /// The least number of failed attempts in a row before the first step.
    static let failuresMax = 6
    /// The least time that they take. It doubles with each step that did not help: all sensors may be at the edge of
    /// the range.
    static let patience = Backoff(first: .seconds(90), longest: .seconds(3_600))
    /// The steps of ``patience`` to skip while links are up, which makes it 12 min: a power-cycle interrupts them for 10 s.
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
