import Basics

/// Frames that were taken over and are not in the store yet, and what is counted with the next commit.
struct SampleBuffer: Sendable {
    /// In order of arrival.
    private(set) var arrivals: [Arrival] = []
    /// Frames that found no room in memory since the last commit, by sensor.
    private(set) var refusals: [Int64: Int] = [:]
    /// Copies that were passed over since the last commit, by sensor.
    private(set) var copies: [Int64: Int] = [:]
    /// Frames that were refused in this run, here or by the store.
    private(set) var refusedCount = 0
    private var group: GroupCommit

    /// The content of one transaction.
    struct Chunk: Sendable {
        /// The oldest frames.
        var arrivals: ArraySlice<Arrival>
        var refusals: [Int64: Int]
        var copies: [Int64: Int]
        /// Whether nothing waits behind them.
        var isLast: Bool
    }

    init(_ settings: QueueSettings) {
        group = GroupCommit(
            samplesMax: settings.commitSamplesMax,
            ageMax: settings.commitAgeMax)
    }

    /// Whether all frames are in the store.
    var isEmpty: Bool { arrivals.isEmpty }
    /// Whether a commit would change nothing.
    var hasNothingToWrite: Bool { arrivals.isEmpty && refusals.isEmpty && copies.isEmpty }
    /// Whether no frame waits to be stored or counted.
    var hasNoFrames: Bool { arrivals.isEmpty && refusals.isEmpty }
    /// Uptime at which a commit is due by age; nil while nothing waits.
    var deadline: Uptime? { group.deadline }

    func isDue(uptime: Uptime) -> Bool { group.isDue(uptime: uptime) }

    /// Takes a frame; false, and counted as refused, if `max` wait already.
    mutating func take(_ arrival: Arrival, max: Int) -> Bool {
        guard arrivals.count < max else {
            note(refusals: 1, of: arrival.sensorID)
            return false
        }
        arrivals.append(arrival)
        group.add(uptime: arrival.uptime)
        return true
    }

    mutating func note(refusals count: Int, of sensor: Int64) {
        refusals[sensor, default: 0] += count
        refusedCount += count
    }

    mutating func note(copies count: Int, of sensor: Int64) {
        copies[sensor, default: 0] += count
    }

    /// The content of the next transaction, of `count` frames at most.
    func chunk(_ count: Int) -> Chunk {
        Chunk(
            arrivals: arrivals.prefix(count), refusals: refusals, copies: copies,
            isLast: arrivals.count <= count)
    }

    /// The store has the chunk but for its last `unstored` frames, which it counts as refused.
    mutating func committed(_ chunk: Chunk, unstored: Int) {
        refusals = [:]
        copies = [:]
        refusedCount += unstored
        arrivals.removeFirst(chunk.arrivals.count)
        restartGroup()
    }

    mutating func commitFailed(uptime: Uptime) {
        group.failed(uptime: uptime)
    }

    /// Frames that wait do not wait for their age as well.
    mutating func restartGroup() {
        group.committed(
            remaining: arrivals.count, oldestUptime: arrivals.first?.uptime)
    }
}
