/// How often a sensor sends, for judging its silences: the median of the last gaps between frames. A
/// value without a clock.
struct FrameRhythm: Sendable, Hashable {
    static let gapsMax = 5
    /// Shorter gaps are of frames that were held up.
    static let gapMin = Duration.milliseconds(8)

    private var gaps: [Duration] = []
    /// The typical time between two frames; nil while unknown.
    private(set) var typical: Duration?

    mutating func note(gap: Duration) {
        guard gap >= Self.gapMin else { return }
        if gaps.count >= Self.gapsMax { gaps.removeFirst() }
        gaps.append(gap)
        typical = gaps.sorted()[gaps.count / 2]
    }
}
