import Basics
import GATTHeartRate

/// The beats of one segment as lines of CSV (RFC 4180), a frame at a time.
///
/// Intervals are chained by a ``BeatTimeline`` that begins with the segment: its clock is that of one
/// boot, and its samples are those of one sensor. A value without I/O: the same frames give the same
/// lines.
struct BeatTable: Sendable {
    /// One stored frame.
    struct Frame: Sendable {
        var uptime: Uptime
        /// When it arrived; nil while the clock of its boot is not trusted.
        var time: UTC?
        var flags: Plausibility
        var rr: RRIntervals
    }

    private let strap: String
    private let segment: Int64
    /// Only beats in these times; with bounds, those without a known time are left out.
    private let since: UTC?
    private let until: UTC?
    private var line = BeatTimeline()

    init(strap: String, segment: Int64, since: UTC? = nil, until: UTC? = nil) {
        self.strap = strap
        self.segment = segment
        self.since = since
        self.until = until
    }

    /// The lines of the next frame, without line ends; none for a frame without intervals.
    mutating func lines(of frame: Frame) -> [String] {
        let beats = line.add(rr: frame.rr, arrivedAt: frame.uptime.microseconds)
        let lost = line.estimatedLostBeats
        let names = frame.flags.names
        return beats.compactMap { beat in
            let time = Self.time(of: beat, in: frame)
            guard time.lies(since: since, until: until) else { return nil }
            let flags = beat.followsLast ? names : ["break"] + names
            return ExportColumn.line([
                time.flatMap(Self.text) ?? "", Self.intervalText(beat.intervalTicks),
                String((max(0, beat.uncertaintyMicroseconds) + 999) / 1_000), strap,
                String(segment), String(lost), flags.joined(separator: " "),
            ])
        }
    }

    /// The frame's own time says what the clock of the arrivals meant just then.
    private static func time(of beat: Beat, in frame: Frame) -> UTC? {
        frame.time.map { $0 - (frame.uptime - Uptime(microseconds: beat.uptimeMicroseconds)) }
    }

    /// To the millisecond: finer than any beat is known.
    private static func text(_ time: UTC) -> String? {
        UTCText.text(time).map { $0.dropLast(4) + "Z" }
    }

    /// Milliseconds with three decimals, rounded to the nearest.
    static func intervalText(_ ticks: UInt16) -> String {
        let microseconds = (Int(ticks) * 1_000_000 + 512) / 1_024
        let decimals = String(1_000 + microseconds % 1_000).dropFirst()
        return "\(microseconds / 1_000).\(decimals)"
    }
}
