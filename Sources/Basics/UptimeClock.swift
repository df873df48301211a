/// The time since boot, and the waits that go by it. Every wait of the gateway goes through such a clock, so that
/// simulated time can stand in for it.
public struct UptimeClock: Sendable {
    /// Sleeps for a time, or for up to `tolerance` longer; returns early when the task is cancelled.
    public typealias Sleep = @Sendable (_ duration: Duration, _ tolerance: Duration) async -> Void

    /// A wait that is longer may end up to an eighth later, together with other work: each wake-up costs energy.
    private static let exactMax = Duration.seconds(2)

    /// The present.
    public let now: @Sendable () -> Uptime
    private let sleep: Sleep

    /// Makes a clock.
    public init(now: @escaping @Sendable () -> Uptime, sleep: @escaping Sleep) {
        self.now = now
        self.sleep = sleep
    }

    /// The machine's clock, with Swift's own timers: for commands and tests. The daemon has ``TaskThread/clock``.
    public static let system = UptimeClock(
        now: { .now() }, sleep: { try? await Task.sleep(for: $0, tolerance: $1) })

    /// Sleeps; returns early when the task is cancelled.
    ///
    /// - Parameters:
    ///   - duration: how long it sleeps.
    ///   - tolerance: how much later it may end; without it an eighth of a wait of more than two seconds.
    public func sleep(_ duration: Duration, tolerance: Duration? = nil) async {
        await sleep(duration, tolerance ?? (duration > Self.exactMax ? duration / 8 : .zero))
    }
}
