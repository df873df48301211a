import Basics
import BlueZ

/// Frames that wait while their sensor's assignment changes: it is not known yet whose they are. A value.
struct HeldFrames: Sendable {
    /// Before it is known when an assignment begins the newest are kept, so many: the first heartbeat comes within
    /// seconds of the first frame, and sensors send about one a second.
    static let newestMax = 240
    /// After that the oldest, so many: two hours of a strap, or six minutes of one that sends 20 times a second. A
    /// change waits for the disk, which takes seconds.
    static let oldestMax = 8_192

    /// A frame that waits.
    struct Frame: Sendable {
        let bytes: [UInt8]
        let uptime: Uptime
        /// When the link was made by which it came; nil if that is not known.
        let linked: Uptime?
    }

    /// Frames for which there was no room.
    struct Refused: Sendable, Equatable {
        var count: Int
        var from: Uptime
        var through: Uptime
    }

    /// The sensor's address when they began to wait.
    let address: String
    /// Those that came before belong to the assignment that the sensor has.
    let since: Uptime
    private(set) var frames: [Frame] = []
    private(set) var refused: Refused?
    private var hasBeginning: Bool

    /// - Parameter hasBeginning: an assignment ends at `since`, and the next one begins.
    init(of address: String, since: Uptime, hasBeginning: Bool) {
        self.address = address
        self.since = since
        self.hasBeginning = hasBeginning
    }

    /// Takes a frame, which came by a link that was made at `linked`; false if it came too early to wait.
    mutating func take(_ frame: SensorFrame, linked: Uptime? = nil) -> Bool {
        take(Frame(bytes: frame.bytes, uptime: frame.uptime, linked: linked))
    }

    private mutating func take(_ frame: Frame) -> Bool {
        guard frame.uptime >= since else { return false }
        if hasBeginning, frames.count >= Self.oldestMax {
            let from = refused?.from ?? frame.uptime
            refused = Refused(
                count: (refused?.count ?? 0) + 1, from: from, through: frame.uptime)
            return true
        }
        if !hasBeginning, frames.count >= Self.newestMax { frames.removeFirst() }
        frames.append(frame)
        return true
    }

    /// When the first of them came since a pairing began; an assignment begins with it, so that none is passed over from
    /// now on.
    mutating func begin(pairedSince begun: Uptime) -> Uptime? {
        frames.removeAll { $0.uptime < begun }
        hasBeginning = true
        return frames.first?.uptime
    }

    /// Takes out the frames that wait, and what was refused after them.
    mutating func remove() -> (frames: [Frame], refused: Refused?) {
        defer { (frames, refused) = ([], nil) }
        return (frames, refused)
    }

    /// The same sensor's, known by another address.
    func joined(with other: HeldFrames?) -> HeldFrames {
        guard let other else { return self }
        var both = HeldFrames(
            of: address, since: min(since, other.since),
            hasBeginning: hasBeginning || other.hasBeginning)
        for frame in (frames + other.frames).sorted(by: { $0.uptime < $1.uptime }) {
            _ = both.take(frame)
        }
        return both
    }
}
