/// How often a sensor sends, for judging its silences: the median of the last gaps between frames. A
/// value without a clock.
struct FrameRhythm: Sendable, Hashable {
    static let gapsMax = 5
    /// Shorter gaps are of frames that were held up, µs.
    static let gapMicrosecondsMin: Int64 = 8_000

    private var gaps: [Int64] = []
    /// The typical time between two frames, µs; nil while unknown.
    private(set) var typical: Int64?

    mutating func note(gap: Int64) {
        guard gap >= Self.gapMicrosecondsMin else { return }
        if gaps.count >= Self.gapsMax { gaps.removeFirst() }
        gaps.append(gap)
        typical = gaps.sorted()[gaps.count / 2]
    }
}
