/// Finds out that every notification of a sensor arrives twice, as after a subscription that was
/// made a second time. A value without a clock.
///
/// The Heart Rate Service numbers nothing, so only a pattern over many frames tells: pairs of equal
/// frames within ``pairMicrosecondsMax`` of each other, each pair apart from the next and different
/// from the last. A sensor that honestly sends equal frames sends them apart. Frames that were held
/// up arrive together too, but not in pairs; and where they do, the rate now and then changes
/// within a pair, which copies never do.
///
/// Sensors that send more than five frames a second are not judged.
public struct DoubledStream: Hashable, Sendable {
    /// The two copies of a frame arrive within this time of each other, microseconds.
    public static let pairMicrosecondsMax: Int64 = 50_000
    /// The silence before a frame that may be the first of a pair, microseconds: four times as long,
    /// so that what merely jitters is not taken for pairs.
    public static let apartMicrosecondsMin: Int64 = 200_000
    /// How many pairs make the verdict, and how many single frames take it back. By chance, a change
    /// of the rate falls between pairs and not within one every other time: twenty times in a row
    /// once in a million.
    public static let pairsMin = 20

    /// Whether every frame arrives twice, as far as is known.
    public private(set) var isDoubled = false

    /// Frames close to each other. Only the first two matter, and how many there are.
    private struct Group: Hashable {
        var first: [UInt8]
        var areEqual = true
        var count = 1
        /// Whether enough silence was before it.
        var isApart: Bool
    }

    private var group: Group?
    /// Of the frame before, µs.
    private var lastUptime: Int64 = 0
    /// The frame of the pair before.
    private var lastPair: [UInt8] = []
    /// Pairs less singles, 0…pairsMin.
    private var score = 0

    /// A stream of which nothing is known yet.
    public init() {}

    /// Takes note of a frame that arrived at this uptime; returns ``isDoubled`` with what it tells.
    ///
    /// Call it once a frame, in order of arrival, with the doubled ones.
    @discardableResult
    public mutating func note(_ frame: [UInt8], at uptimeMicroseconds: Int64) -> Bool {
        let gap = uptimeMicroseconds.subtractingReportingOverflow(lastUptime)
        lastUptime = uptimeMicroseconds
        // Time that runs backwards tells nothing, and neither does the first frame of all.
        guard group != nil, !gap.overflow, gap.partialValue >= 0 else {
            group = Group(first: frame, isApart: false)
            return isDoubled
        }
        if gap.partialValue <= Self.pairMicrosecondsMax {
            group?.count += 1
            if group?.first != frame { group?.areEqual = false }
        } else {
            judgeGroup()
            group = Group(first: frame, isApart: gap.partialValue >= Self.apartMicrosecondsMin)
        }
        return isDoubled
    }

    /// Weighs the frames that lie close to each other, now that no more of them can come.
    private mutating func judgeGroup() {
        guard let group, group.isApart else { return }
        switch (group.count, group.areEqual) {
        case (1, _): score = max(score - 1, 0)
        case (2, true):
            // A pair like the last one may be a sensor that repeats itself.
            if group.first != lastPair { score = min(score + 1, Self.pairsMin) }
            lastPair = group.first
        case (2, false): score = 0
        // Three and more were held up somewhere, and that says nothing.
        default: break
        }
        if score == Self.pairsMin { isDoubled = true }
        if score == 0 { isDoubled = false }
    }
}
