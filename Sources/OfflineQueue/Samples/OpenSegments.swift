/// Where the next samples go: their numbers, and the segment of each assignment that is open.
struct OpenSegments: Sendable {
    /// The number of the next sample.
    private(set) var nextSample: Int64
    private(set) var tails: [Int64: SegmentTail] = [:]

    init(nextSample: Int64 = 1) {
        self.nextSample = nextSample
    }

    /// After a commit.
    mutating func advance(_ commit: Commit) {
        nextSample = commit.nextSample
        tails = commit.tails
    }

    /// After samples were stored in segments of their own.
    mutating func advance(to nextSample: Int64) {
        self.nextSample = nextSample
    }

    /// The segments of a store that was opened again are not known; `last` is the last sample it has.
    mutating func restart(after last: Int64) {
        nextSample = max(nextSample, last + 1)
        tails = [:]
    }

    /// The next frame of an assignment begins a segment.
    mutating func close(_ assignment: Int64) {
        tails[assignment] = nil
    }

    /// The same for all assignments.
    mutating func closeAll() {
        tails = [:]
    }
}

/// The newest segment of an assignment.
struct SegmentTail: Sendable {
    var segment: Int64
    var lastSample: Int64
    /// When the segment began, in days since 1970-01-01 UTC; nil if the clock was not known then.
    var day: Int64?
    /// Of all its samples; nil while it is not known.
    var wallOffset: WallOffset?
}
