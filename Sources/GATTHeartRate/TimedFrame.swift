/// A frame and when it was sent.
public struct TimedFrame: Hashable, Sendable {
    /// From this uncertainty on, a time is not to be believed, µs.
    public static let uncertaintyMicrosecondsMax: Int64 = 5_000_000

    /// The octets of the notification, as they came.
    public let bytes: [UInt8]
    /// When it was sent, `CLOCK_BOOTTIME` µs: its arrival, or the middle of the times that are possible.
    public let uptimeMicroseconds: Int64
    /// How far off that may be, in either direction, µs; never below ``FrameIntake/wayMicrosecondsMax``.
    public let uncertaintyMicroseconds: Int64
    /// Whether the time is another than that of its arrival.
    public let isRebuilt: Bool
    /// Whether it may be a copy of the frame before it, or stand for a second frame like it: nothing tells.
    public let mayBeCopy: Bool

    /// A frame that was sent within an uncertainty of a time, by default ``FrameIntake/wayMicrosecondsMax``.
    public init(
        bytes: [UInt8], uptimeMicroseconds: Int64,
        uncertaintyMicroseconds: Int64 = FrameIntake.wayMicrosecondsMax, isRebuilt: Bool = false,
        mayBeCopy: Bool = false
    ) {
        self.bytes = bytes
        self.uptimeMicroseconds = uptimeMicroseconds
        self.uncertaintyMicroseconds = uncertaintyMicroseconds
        self.isRebuilt = isRebuilt
        self.mayBeCopy = mayBeCopy
    }

    /// Whether the time is so uncertain that the frame tells little.
    public var isUncertain: Bool {
        uncertaintyMicroseconds > Self.uncertaintyMicrosecondsMax
    }
}
