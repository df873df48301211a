/// How often a sensor sends, for judging its silences: the median of the last gaps between frames, and the longest one.
/// A value without a clock.
struct FrameRhythm: Sendable, Hashable {
    static let gapsMax = 5
    /// Shorter gaps are of frames that were held up.
    static let gapMin = Duration.milliseconds(8)
    /// A single longer pause may be the radio's.
    static let longestMax = Duration.seconds(40)

    private var gaps: [Duration] = []
    /// The typical time between two frames; nil while unknown.
    private(set) var typical: Duration?
    /// Some sensors send each second, and then once in twenty.
    private var longest = Duration.zero

    /// A silence that is usual for it, with as much again.
    var limit: Duration { max((typical ?? .zero) * 3, longest * 3 / 2) }

    mutating func note(gap: Duration, isWorn: Bool) {
        guard gap >= Self.gapMin else { return }
        if gaps.count >= Self.gapsMax { gaps.removeFirst() }
        gaps.append(gap)
        typical = gaps.sorted()[gaps.count / 2]
        // One that is taken off is silent as long as that lasts.
        if isWorn { longest = max(longest, min(gap, Self.longestMax)) }
    }
}
