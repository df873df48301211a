import Basics
import BlueZ

/// Frames that wait while their sensor's assignment changes: it is not known yet whose they are. A value.
struct HeldFrames: Sendable {
    /// Of a sensor without an assignment the newest are kept, so many: the first heartbeat comes within seconds of
    /// the first frame, and sensors send about one a second.
    static let unassignedMax = 240
    /// Of one that has an assignment the oldest, so many: two hours of a strap, or six minutes of one that sends 20
    /// times a second. A change waits for the disk, which takes seconds.
    static let assignedMax = 8_192

    /// Those that came before belong to the assignment that the sensor has.
    let since: Uptime
    private(set) var frames: [SensorFrame] = []
    /// Those of an assigned sensor for which there was no room, and when the last of them came.
    private(set) var refusedCount = 0
    private(set) var refusedAt = Uptime.zero

    init(since: Uptime) { self.since = since }

    /// Takes a frame; false if it came too early to wait.
    mutating func take(_ frame: SensorFrame, isAssigned: Bool) -> Bool {
        guard frame.uptime >= since else { return false }
        if isAssigned, frames.count >= Self.assignedMax {
            refusedCount += 1
            refusedAt = frame.uptime
            return true
        }
        // Its assignment begins with the oldest that is kept: those before belong to none.
        if !isAssigned, frames.count >= Self.unassignedMax { frames.removeFirst() }
        frames.append(frame)
        return true
    }

    /// Takes out the frames that wait.
    mutating func removeFrames() -> [SensorFrame] {
        defer { frames = [] }
        return frames
    }

    /// The same sensor's, under another address.
    func joined(with other: HeldFrames?) -> HeldFrames {
        guard let other else { return self }
        var both = HeldFrames(since: min(since, other.since))
        both.frames = frames + other.frames
        both.refusedCount = refusedCount + other.refusedCount
        both.refusedAt = max(refusedAt, other.refusedAt)
        return both
    }
}
