import Basics
import BlueZ

/// The frames of a strap that is being paired and that nobody wears yet. A value.
struct HeardFrames: Sendable {
    /// The newest are kept, so many: a pairing takes a minute at most, and a strap that sends 20 times a second 1,200
    /// frames in it.
    static let countMax = 2_400

    struct Frame: Sendable {
        let bytes: [UInt8]
        let uptime: Uptime
        /// When the link was made by which it came; nil if that is not known.
        let linked: Uptime?
    }

    /// The strap's address when its pairing began.
    let address: String
    /// Those that came before are not kept.
    let since: Uptime
    private(set) var frames: [Frame] = []

    init(of address: String, since: Uptime) {
        self.address = address
        self.since = since
    }

    /// Keeps a frame, which came by a link that was made at `linked`.
    mutating func take(_ frame: SensorFrame, linked: Uptime? = nil) {
        take(Frame(bytes: frame.bytes, uptime: frame.uptime, linked: linked))
    }

    private mutating func take(_ frame: Frame) {
        guard frame.uptime >= since else { return }
        if frames.count >= Self.countMax { frames.removeFirst() }
        frames.append(frame)
    }

    /// The same strap's, known by another address.
    func joined(with other: HeardFrames?) -> HeardFrames {
        guard let other else { return self }
        var both = HeardFrames(of: address, since: min(since, other.since))
        for frame in (frames + other.frames).sorted(by: { $0.uptime < $1.uptime }) {
            both.take(frame)
        }
        return both
    }
}
