import Basics

/// An instant of a simulated world, which begins at zero. Its owner moves it on.
public struct WorldTime: ClockInstant {
    /// Whole microseconds since the world began.
    public let microseconds: Int64

    /// The beginning of the world.
    public static let zero = WorldTime(microseconds: 0)

    /// The instant so many microseconds after the world began.
    public init(microseconds: Int64) { self.microseconds = microseconds }
}

extension Uptime {
    /// The uptime of a machine that started when the world began.
    init(_ time: WorldTime) { self.init(microseconds: time.microseconds) }
}
