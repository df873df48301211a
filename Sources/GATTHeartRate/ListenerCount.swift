/// How many programs listen to a sensor's notifications, and which of equal frames are therefore copies. A value
/// without a clock.
///
/// bluetoothd signals a notification once for each program, one right after the other. So where `n` listen, equal
/// frames come in runs `n` times as long as the sensor made them. Every explanation counts in which a program comes
/// or goes at most once, as many frames were sent as there was time for, and RR intervals are not forever the same
/// twice. Where two of them disagree on a run, the run is in doubt.
struct ListenerCount: Hashable, Sendable {
    /// The most programs that are reckoned with.
    static let listenersMax = 4
    /// Of so many frames with RR intervals, a sensor sends at most one again, and some more; hardly just when a program
    /// comes or goes.
    private static let repetitionShare = 8
    /// So often the bytes change between runs of so many, and never within them, before it is believed. By chance, a
    /// change falls between pairs every other time.
    private static let streakMin = 20

    /// Equal frames that came close together.
    struct Run: Hashable {
        var bytes: [UInt8]
        var count: Int
        /// Whether they differ from the frame before.
        var isNew: Bool
        var hasIntervals: Bool { bytes.first.map { $0 & 0x10 != 0 } ?? false }
    }

    /// How many frames a run may be of, and the one of these that is most likely.
    struct Verdict: Hashable {
        var range: ClosedRange<Int>
        var likely: Int
        var isDoubtful: Bool { range.count > 1 }
    }

    /// How many programs may be listening.
    private var possible = Set(1...listenersMax)
    /// How many listened before frames were in doubt; nil if that is not known.
    private var settled: Int?
    /// The likely number of programs that listen: the last known one; before one is known, the largest possible.
    private(set) var likely = listenersMax
    private var streaks = [Int](repeating: 0, count: listenersMax + 1)

    /// The number of programs that listen; nil while there is doubt.
    var known: Int? { possible.count == 1 ? possible.first : nil }

    /// A frame came so many times.
    mutating func note(_ listeners: Int) {
        guard known != listeners else { return }
        likely = min(listeners, Self.listenersMax)
        possible = [likely]
        settled = likely
        streaks = [Int](repeating: 0, count: Self.listenersMax + 1)
    }

    /// How many have listened since frames are in doubt, as the bytes say; nil if they do not tell.
    var weighed: Int? { streaks.lastIndex { $0 >= Self.streakMin } }

    /// So many do not listen.
    mutating func refute(_ listeners: Int) {
        possible.remove(listeners)
        likely = possible.max() ?? 1
        if known != nil || possible.isEmpty { settled = known }
    }

    /// Whether so many listened when the first of these runs came, if one of the possible numbers did.
    func isCertain(_ listeners: Int, _ runs: [Run]) -> Bool {
        stories(runs, isUsual: true).allSatisfy { story in
            (story.change > 0 ? story.before : story.after) == listeners
                && (story.change > 0 || story.mixed == nil)
        }
    }

    /// One explanation: `before` listen to the runs below `change`, and `after` to those above. Within the run
    /// `change`, if there is `mixed`, another program comes or goes.
    private struct Story {
        var before: Int
        var after: Int
        var change: Int
        var mixed: ClosedRange<Int>?
        /// How many frames all runs are of.
        var frames: ClosedRange<Int>
        /// How often RR intervals are the same twice.
        var repetitions: Int
        /// Whether the sensor repeats itself no more than sensors do.
        var isHonest: Bool
    }

    /// Judges runs that came together.
    ///
    /// - Parameters:
    ///   - most: so many frames can have been sent.
    ///   - due: so many were sent, if nothing was lost; nil if that is not known.
    ///   - isUsual: there was no silence before them in which anything may have been.
    ///   - open: so many of the last runs will be judged again, with what comes after them.
    mutating func judge(
        _ runs: [Run], most: Int64, due: ClosedRange<Int64>?, isUsual: Bool, open: Int
    ) -> [Verdict] {
        weigh(runs.dropLast(open), isUsual: isUsual)
        if !isUsual { possible = Set(1...Self.listenersMax) }
        var stories = stories(runs, isUsual: isUsual).filter { $0.frames.lowerBound <= most }
        if !stories.contains(where: { $0.isHonest }) {
            // More than one came or went.
            (possible, settled) = (Set(1...Self.listenersMax), nil)
            stories = self.stories(runs, isUsual: isUsual).filter { $0.frames.lowerBound <= most }
        }
        func prefer(_ isBetter: (Story) -> Bool) {
            if stories.contains(where: isBetter) { stories = stories.filter(isBetter) }
        }
        if let due {
            func isDue(_ story: Story) -> Bool {
                due.overlaps(Int64(story.frames.lowerBound)...Int64(story.frames.upperBound))
            }
            // Some may be lost, or late, in a moment in which bluetoothd hangs and another program comes or goes. That is
            // less strange than that RR intervals are the same twice, or that a program goes within what came.
            let usual = stories.filter(isDue).map { $0.repetitions }.min() ?? .max
            prefer { story in
                isDue(story)
                    || story.frames.upperBound <= due.upperBound
                        && (story.repetitions < usual || story.before == story.after
                            || story.change == 0 && story.mixed == nil)
            }
        }
        prefer { $0.isHonest }
        let last = runs.count - open
        possible = Set(stories.map { $0.change < last ? $0.after : $0.before })
        if known != nil || possible.isEmpty { settled = known }
        guard !possible.isEmpty else {
            possible = Set(1...Self.listenersMax)
            likely = 1
            return runs.dropLast(open).map { Verdict(range: 1...$0.count, likely: 1) }
        }
        if !possible.contains(likely) { likely = possible.max() ?? 1 }
        if let weighed, possible.contains(weighed), likely % weighed != 0 { likely = weighed }
        // Below which run, and from which one on, so many may have listened.
        var below = [Int](repeating: 0, count: Self.listenersMax + 1)
        var since = [Int](repeating: .max, count: Self.listenersMax + 1)
        var mixed: [Int: ClosedRange<Int>] = [:]
        for story in stories {
            below[story.before] = max(below[story.before], story.change)
            since[story.after] = min(
                since[story.after], story.change + (story.mixed == nil ? 0 : 1))
            if let here = story.mixed {
                mixed[story.change] = Self.union(here, mixed[story.change] ?? here)
            }
        }
        return runs.indices.dropLast(open).map { index in
            let counts = (1...Self.listenersMax).filter { index < below[$0] || index >= since[$0] }
                .map { max(1, runs[index].count / $0) }
            var range = (counts.min() ?? .max)...(counts.max() ?? .max)
            if let here = mixed[index] { range = counts.isEmpty ? here : Self.union(here, range) }
            return Verdict(
                range: range,
                likely: min(max(runs[index].count / likely, range.lowerBound), range.upperBound))
        }
    }

    private static func union(
        _ one: ClosedRange<Int>, _ other: ClosedRange<Int>
    ) -> ClosedRange<Int> {
        min(one.lowerBound, other.lowerBound)...max(one.upperBound, other.upperBound)
    }

    private func stories(_ runs: [Run], isUsual: Bool) -> [Story] {
        let sums = (0...Self.listenersMax).map { Sums(runs, max(1, $0)) }
        var stories: [Story] = []
        for before in possible {
            for after in 1...Self.listenersMax {
                // A program that came while frames were in doubt stays until the doubt is settled, or a silence.
                guard
                    after == before || settled == nil || settled == before
                        || !isUsual && settled == after
                else { continue }
                for change in runs.indices {
                    guard sums[before].isPossible(0, change) else { break }
                    func add(_ mixed: ClosedRange<Int>?, _ next: Int) {
                        guard sums[after].isPossible(next, runs.count) else { return }
                        let rest =
                            sums[before].frames[change] + sums[after].frames[runs.count]
                            - sums[after].frames[next]
                        stories.append(
                            Story(
                                before: before, after: after, change: change, mixed: mixed,
                                frames: rest
                                    + (mixed?.lowerBound ?? 0)...rest + (mixed?.upperBound ?? 0),
                                repetitions: sums[before].repetitions[change]
                                    + sums[after].repetitions[runs.count]
                                    - sums[after].repetitions[next],
                                isHonest: sums[before].isHonest(0, change, before == after)
                                    && sums[after].isHonest(next, runs.count, before == after)))
                    }
                    if before != after || change == 0 { add(nil, change) }
                    if before != after,
                        let mixed = Self.mixed(runs[change].count, before, after)
                    {
                        add(mixed, change + 1)
                    }
                }
            }
        }
        return stories
    }

    /// How many frames a run may be of, some of which came `before` times, and the others `after` times.
    private static func mixed(_ count: Int, _ before: Int, _ after: Int) -> ClosedRange<Int>? {
        let counts = stride(from: after, to: count, by: after).filter {
            (count - $0) % before == 0
        }.map { $0 / after + (count - $0) / before }
        guard let least = counts.min(), let most = counts.max() else { return nil }
        return least...most
    }

    /// A sensor that sends several frames at once changes its rate within them as often as between them, and RR
    /// intervals nearly always. If it never does, they are copies.
    private mutating func weigh(_ runs: ArraySlice<Run>, isUsual: Bool) {
        // While it is known how many listen, what was before says nothing of who comes or goes.
        if known != nil || !isUsual {
            streaks = [Int](repeating: 0, count: Self.listenersMax + 1)
        }
        guard isUsual else { return }
        for run in runs {
            for number in 2...Self.listenersMax {
                if run.count % number != 0 {
                    streaks[number] = -Self.streakMin
                } else if run.isNew {
                    streaks[number] += run.hasIntervals ? Self.streakMin / 4 : 1
                }
            }
        }
    }

    /// Running totals over runs, on the assumption that so many programs listen.
    private struct Sums {
        private(set) var frames = [0]
        private(set) var repetitions = [0]
        /// Runs that cannot be.
        private var wrong = [0]

        init(_ runs: [Run], _ listeners: Int) {
            for (index, run) in runs.enumerated() {
                let count = run.count / listeners
                frames.append(frames[index] + count)
                repetitions.append(repetitions[index] + (run.hasIntervals ? max(0, count - 1) : 0))
                wrong.append(wrong[index] + run.count % listeners)
            }
        }

        /// Whether the runs divide.
        func isPossible(_ first: Int, _ end: Int) -> Bool { wrong[end] == wrong[first] }

        /// Whether the sensor repeats itself no more than sensors do.
        func isHonest(_ first: Int, _ end: Int, _ isSame: Bool) -> Bool {
            repetitions[end] - repetitions[first]
                <= (end - first) / repetitionShare + (isSame ? 3 : 1)
        }
    }
}
