/// Drops the copies among a sensor's notifications, and bounds when each frame was sent. A value without a clock.
///
/// While bluetoothd hangs, the kernel keeps as many of a sensor's frames as fit, and all of them arrive at once
/// when it goes on. So each frame has bounds:
///
///     not before   the last moment at which nothing was waiting
///     not before   the frame before it, plus the least time between the two
///     not after    the frame after it, less that time
///     not after    its arrival
///
/// While no frame is lost, `StrapClock` tells both. The intake keeps back frames that the clock does not expect while
/// more follow closely, since they bound one another. Losses widen the bounds. The stored time is their middle, and its
/// uncertainty half of their width.
///
/// The intake assumes that the bus keeps the order of a sensor's frames, that bluetoothd hands over what waited
/// without a rest, and that a sensor with a clock sends no faster in a silence than before it.
///
/// bluetoothd signals a notification once for every program that listens. A frame like the one before it is a copy if
/// the sensor cannot have sent it so soon; otherwise `ListenerCount` judges. What may be a copy is marked.
///
/// The intake returns every frame once, in the order of arrival. ``deadline`` says when to call ``release(at:)`` if no
/// frame comes before.
public struct FrameIntake: Hashable, Sendable {
    /// A frame that nothing holds up arrives at most so long after it was sent, µs.
    public static let wayMicrosecondsMax: Int64 = 250_000
    /// A sensor keeps a frame for at most so long, to send it with others, µs.
    public static let holdMicrosecondsMax = StrapClock.holdMax
    /// The shortest time without a frame, µs, after which nothing is waiting.
    private static let restMin: Int64 = 750_000
    /// A copy comes at most so long after the frame before it, µs: 30 ms were seen.
    private static let copyMax: Int64 = 60_000
    /// On a busy machine one may come so long after it, µs; so may a frame of a sensor that sends faster than before.
    private static let lateCopyMax: Int64 = 200_000
    /// Frames are kept back at most so long after the last one, µs, and so many.
    private static let patienceMax: Int64 = 1_000_000
    private static let heldMax = 16_384
    private static let gapsMax = 8

    private struct Frame: Hashable {
        var bytes: [UInt8]
        /// When it arrived, µs.
        var uptime: Int64
    }

    /// A frame that is no copy, or may be none.
    private struct Kept {
        var frame: Frame
        /// How many frames came with it and before it, itself included, at least.
        var count: StrapClock.Count
        var mayBeCopy: Bool
    }

    /// bluetoothd did something after one uptime, which the gateway knew at another, µs.
    private struct Alive: Hashable {
        var since: Int64
        var at: Int64
    }

    /// The state of the strap on the assumption that so many programs have listened since frames have been in doubt.
    private struct Guess: Hashable {
        var clock: StrapClock
        var listeners: Int
        /// The last frame was not sent before, µs.
        var low: Int64
    }

    /// The number of copies dropped so far.
    public private(set) var copiesDropped = 0
    private var clock = StrapClock()
    /// Nil while no frames are in doubt.
    private var guess: Guess?
    private var listeners = ListenerCount()
    /// The last frame was not sent before, µs.
    private var low = Int64.min
    /// Nothing was waiting in bluetoothd then, µs.
    private var empty = Int64.min
    /// When the last frame arrived, copies included, or the link was made; µs.
    private var arrival = Int64.min
    /// The last frame of this link that was passed on.
    private var last: Frame?
    /// How often it came; 0 once ``listeners`` has judged that.
    private var timesCame = 0
    /// The longest time without a frame in or before each of the last few sets of frames that were kept back, µs.
    private var gaps: [Int64] = []
    /// No frame since the link was made came with another one: the sensor keeps none to send them together.
    private var areAlone = true
    /// bluetoothd did something since the last frame.
    private var alive: Alive?
    /// The same, and so long ago that nothing was waiting then.
    private var idle: Alive?
    /// Nothing was waiting in bluetoothd then, before the frames that are kept back; µs.
    private var quiet = Int64.min
    private var held: [Frame] = []
    private var latestTime = Int64.min

    /// An intake for an unknown sensor.
    public init() {}

    /// The typical time between two frames, µs; nil while unknown.
    public var cadenceMicroseconds: Int64? { clock.cadence > 0 ? clock.cadence : nil }

    /// When ``release(at:)`` is due, `CLOCK_BOOTTIME` µs; nil while nothing is kept back.
    public var deadline: Int64? { held.last.map { $0.uptime + patience } }

    /// After so long without a frame nothing is waiting in bluetoothd, µs.
    private var rest: Int64 {
        // Doubtful frames make the cadence doubtful.
        let isDoubtful = guess != nil && gaps.count > 3
        let longest =
            pace == 0 ? min(usualGap, 4 * Self.restMin) : isDoubtful ? max(pace, gap) : pace
        return max(Self.restMin, longest * 5 / 8)
    }

    /// The last cadence that was known or likely, µs; 0 if none was.
    private var pace: Int64 { max(clock.pace, guess?.clock.pace ?? 0) }

    /// The longest usual time without a frame, µs.
    private var gap: Int64 { gaps.count > 3 ? usualGap : StrapClock.holdMax }

    /// The second longest of the known gaps, since the longest may have been a hang; 0 if fewer than two are known.
    private var usualGap: Int64 { gaps.sorted().dropLast().last ?? 0 }

    /// How long the sensor may keep frames to send them together, µs.
    private var hold: Int64 {
        pace == 0 && areAlone ? 0 : min(clock.hold, gap + Self.wayMicrosecondsMax)
    }

    /// Frames that come together follow one another more closely than this, µs; a rate is to be seen half a second after
    /// its beat.
    private static let togetherMax: Int64 = 250_000

    private var patience: Int64 {
        held.count == 1 ? Self.togetherMax : min(rest, Self.patienceMax)
    }

    /// A link was made at this uptime, µs; later frames were sent after it, unless the first of them arrived before:
    /// then the link was made earlier. Returns the frames that were kept back.
    public mutating func beginLink(at uptime: Int64) -> [TimedFrame] {
        let frames = releaseAll()
        arrival = Self.clamped(uptime)
        (low, empty, last, timesCame, guess) = (arrival, arrival, nil, 0, nil)
        (areAlone, alive, idle, quiet) = (true, nil, nil, .min)
        clock.restart()
        return frames
    }

    /// bluetoothd did something after one uptime, as the gateway knew at another, µs: it answered a question, or handed
    /// over a frame of another sensor.
    public mutating func noteAlive(since: Int64, at uptime: Int64) {
        let new = Alive(since: Self.clamped(since), at: Self.clamped(uptime))
        guard let alive else { return self.alive = new }
        if new.at - alive.at > rest { (idle, self.alive) = (alive, new) }
    }

    /// Takes a frame that arrived at this uptime, µs; returns those that are ready.
    public mutating func take(_ bytes: [UInt8], at uptime: Int64) -> [TimedFrame] {
        // The frame may have waited while the gateway learned of its link.
        let isFirst = last == nil && held.isEmpty
        if low == .min || isFirst && uptime < arrival {
            _ = beginLink(at: Self.clamped(uptime) - Self.wayMicrosecondsMax)
        }
        let frame = Frame(
            bytes: bytes, uptime: max(Self.clamped(uptime), held.last?.uptime ?? arrival))
        var ready: [TimedFrame] = []
        if let over = isOver(before: frame) { ready = release(over) }
        if held.isEmpty {
            noteRest(before: frame)
            if let last, isLike(last, frame) {
                if timesCame < ListenerCount.listenersMax,
                    low + clock.least(Self.count(frame)) > frame.uptime
                {
                    drop(frame)
                    return ready
                }
            } else if let timed = pass(frame) {
                return ready + [timed]
            }
        }
        if let before = held.last ?? last, !isLike(before, frame),
            frame.uptime - (held.last?.uptime ?? arrival) <= rest
        {
            areAlone = false
        }
        held.append(frame)
        return ready
    }

    /// Returns the frames that were kept back and are due by now, an uptime in µs.
    public mutating func release(at now: Int64) -> [TimedFrame] {
        guard let deadline, deadline <= now else { return [] }
        return releaseAll()
    }

    /// Returns all frames that were kept back, since the link or the run ends.
    public mutating func releaseAll() -> [TimedFrame] { release(.end) }

    /// Far beyond any uptime, and far enough from the end for all the sums.
    private static func clamped(_ uptime: Int64) -> Int64 { min(max(uptime, -(1 << 60)), 1 << 60) }

    // MARK: - Frames as they come

    /// Whether a frame is like the one before it, and so close that it may be its copy.
    private func isLike(_ before: Frame, _ frame: Frame) -> Bool {
        let window = clock.cadence == 0 ? 30_000 : min(max(clock.cadence / 4, 10_000), Self.copyMax)
        return frame.uptime - before.uptime <= window && frame.bytes == before.bytes
    }

    /// Drops a frame that cannot have been sent so soon after the one like it.
    private mutating func drop(_ frame: Frame) {
        copiesDropped += 1
        if timesCame > 0 { timesCame += 1 }
        last?.uptime = frame.uptime
        arrival = frame.uptime
    }

    /// Passes on a frame that comes when it is due.
    private mutating func pass(_ frame: Frame) -> TimedFrame? {
        let count = Self.count(frame)
        guard clock.isOnTime(frame.uptime, after: count) else { return nil }
        if timesCame > 0 { listeners.note(timesCame) }
        clock.note(count, at: frame.uptime, firstAt: frame.uptime)
        let due = clock.earliest(StrapClock.Count()) ?? low
        low = min(max(low, empty - hold, due), frame.uptime)
        (arrival, last, timesCame) = (frame.uptime, frame, 1)
        return timed(frame, low, frame.uptime, isLive: true, isUnknown: false, mayBeCopy: false)
    }

    /// Notes since when nothing can be waiting in bluetoothd, if a frame follows a rest.
    private mutating func noteRest(before frame: Frame) {
        defer { (alive, idle) = (nil, nil) }
        quiet = .min
        guard pace > 0 || areAlone, frame.uptime - arrival > rest else { return }
        if last != nil { empty = max(empty, arrival - Self.wayMicrosecondsMax) }
        quiet =
            [alive, idle].compactMap { $0 }.first { frame.uptime - $0.at > rest }?.since ?? .min
    }

    private mutating func timed(
        _ frame: Frame, _ low: Int64, _ high: Int64, isLive: Bool, isUnknown: Bool, mayBeCopy: Bool
    ) -> TimedFrame {
        // The time of arrival is the most likely one, and the middle has half of its uncertainty.
        let (width, most) = (frame.uptime - low, TimedFrame.uncertaintyMicrosecondsMax)
        let isAtOnce =
            width <= Self.wayMicrosecondsMax
            || isLive && width <= most || isUnknown && (high - low) / 2 > most
        // No two have the same time, since it is their order in the store.
        let time = max(latestTime + 1, isAtOnce ? frame.uptime : low + (high - low) / 2)
        latestTime = time
        return TimedFrame(
            bytes: frame.bytes, uptimeMicroseconds: time,
            uncertaintyMicroseconds: max(Self.wayMicrosecondsMax, time - low, high - time),
            isRebuilt: time != frame.uptime, mayBeCopy: mayBeCopy)
    }

    private static func count(_ frame: Frame) -> StrapClock.Count {
        let measurement = try? HeartRateMeasurement(frame: frame.bytes, policy: .lenient)
        let intervals = RRIntervals(
            (measurement?.rrIntervals ?? RRIntervals()).lazy.filter { $0 > 0 })
        return StrapClock.Count(
            frames: 1, beats: intervals.reduce(0) { $0 + Int64($1) * 15_625 / 16 },
            withOne: intervals.count == 1 ? 1 : 0)
    }

    // MARK: - Frames that are kept back

    /// Why frames are released.
    private enum Release {
        /// Nothing follows closely.
        case end
        /// More frames follow; so far they came no faster than the sensor sends, or they did.
        case calm, flood
    }

    /// Why the frames that are kept back need not wait for the next one; nil if they must.
    private func isOver(before next: Frame) -> Release? {
        guard let first = held.first, let end = held.last else { return nil }
        if next.uptime - end.uptime > patience || held.count >= Self.heldMax { return .end }
        // The sensor cannot have sent so many, whoever listens.
        if held.count / ListenerCount.listenersMax > mostSent(by: end.uptime) { return .end }
        guard end.uptime - first.uptime >= rest, next.uptime - end.uptime >= pause,
            !isLike(end, next), lastStart > 0
        else { return nil }
        if pace == 0 { return .flood }
        let recent = held.count { $0.uptime > end.uptime - rest }
        let most = (rest + Self.wayMicrosecondsMax) / pace + 1
        return recent <= Int(clamping: most) * ListenerCount.listenersMax ? .calm : nil
    }

    /// The least pause between two frames, rather than between copies of one or within a batch, µs.
    private var pause: Int64 {
        zip(held, held.dropFirst()).reduce(0) { max($0, $1.1.uptime - $1.0.uptime) } / 2
    }

    /// Where the frames after the last pause begin.
    private var lastStart: Int {
        let pause = pause
        return held.indices.dropFirst().last {
            held[$0].uptime - held[$0 - 1].uptime >= pause && !isLike(held[$0 - 1], held[$0])
        } ?? 0
    }

    private mutating func release(_ release: Release) -> [TimedFrame] {
        guard let first = held.first else { return [] }
        let silence = first.uptime - arrival
        let isRested = silence > rest
        // The time from the link to its first frame is not a gap between two frames.
        gaps.append(last == nil ? 2 * pause : max(silence, 2 * pause))
        if gaps.count > Self.gapsMax { gaps.removeFirst() }
        let isCalm = release == .calm
        // A frame that the strap or its link holds back until the next one is sent arrives together with it.
        let delay = held.count > 1 ? StrapClock.holdMax : min(pace, StrapClock.holdMax)
        empty = max(empty, quiet == .min ? .min : quiet - delay - Self.wayMicrosecondsMax)
        // The next frames will show how many frames the last runs are.
        let later = held.count - lastStart
        let open = release == .end || later == 1 ? 0 : later
        let all = held
        held = Array(all.suffix(open))
        let end = all[all.count - 1 - open]
        let isKnown = guess == nil && pace > 0
        let isUsual = silence <= (isKnown ? clock.usualSilence : 2 * gap + Self.wayMicrosecondsMax)
        var (kept, seen) = withoutCopies(all, open, isUsual: isUsual)
        copiesDropped += all.count - open - kept.count
        defer {
            arrival = end.uptime
            last?.uptime = end.uptime
            if isCalm { empty = max(empty, end.uptime - Self.wayMicrosecondsMax) }
        }
        guard !kept.isEmpty else { return [] }
        let (before, hadFrame) = (low, last != nil)
        let doubtful = kept.firstIndex { $0.mayBeCopy }
        let isDoubtful = doubtful != nil
        if isDoubtful { areAlone = false }
        // So many of the first ones are certain.
        let sure = guess == nil || !isDoubtful ? doubtful ?? kept.count : 0
        let isSteady =
            isUsual && (isRested || isCalm || release == .flood || pace == 0 && kept.count == 1)
        // Frames that first show the cadence may have been held up themselves.
        let (wasKnown, isUnknown) = (clock.cadence > 0, pace == 0)
        follow(
            seen, Self.count(kept[0].frame), from: first.uptime, to: end.uptime,
            isDoubtful: isDoubtful, isSteady: isSteady, isUsual: isUsual)
        let doubt = isDoubtful ? clock.cadence : 0
        let waiting = empty - hold - doubt
        var bounds: [(low: Int64, high: Int64)] = []
        let told = isUsual && isDoubtful ? guess?.clock ?? clock : clock
        for (index, one) in kept.enumerated() {
            let chain =
                before + clock.least(hadFrame ? one.count : one.count - kept[0].count) - doubt
            let since = waiting + clock.least(one.count - kept[0].count)
            let low = max(bounds.last?.low ?? before, chain, since)
            let due = index < sure && wasKnown ? told.earliest(one.count - seen) ?? low : low
            bounds.append((max(low, due), one.frame.uptime))
        }
        let latest = latestTimes(of: kept)
        for (index, one) in kept.enumerated() {
            bounds[index].high = min(one.frame.uptime, latest[index] + clock.slack)
            if index < sure, wasKnown, let due = told.latest(one.count - seen) {
                bounds[index].high = min(bounds[index].high, due)
            }
        }
        if bounds.contains(where: { $0.low > $0.high }) {
            // The sensor has another rhythm, or a copy came late. Only the order is certain.
            (clock, guess, areAlone) = (StrapClock(), nil, false)
            bounds = kept.map { (before, $0.frame.uptime) }
            var previous = last
            for index in kept.indices {
                let frame = kept[index].frame
                if let previous, previous.bytes == frame.bytes,
                    frame.uptime - previous.uptime <= Self.lateCopyMax
                {
                    kept[index].mayBeCopy = true
                }
                previous = frame
            }
        }
        low = bounds[kept.count - 1].low
        last = kept[kept.count - 1].frame
        // Frames of an unknown strap count as live, and so does a single one.
        let isLive = isUnknown || kept.count == 1
        return zip(kept, bounds).map {
            timed(
                $0.frame, $1.low, $1.high, isLive: isLive, isUnknown: isUnknown,
                mayBeCopy: $0.mayBeCopy)
        }
    }

    /// The latest time at which each frame can have been sent, by the frames after it. All are of one rhythm.
    private func latestTimes(of kept: [Kept]) -> [Int64] {
        var latest = [Int64](repeating: .min, count: kept.count)
        for rhythm in clock.rhythms {
            var begin = Int64.max / 2
            for index in kept.indices.reversed() {
                let time = clock.shortest(kept[index].count, rhythm)
                begin = min(begin, kept[index].frame.uptime - time)
                latest[index] = max(latest[index], begin + time)
            }
        }
        return latest
    }

    /// Tells the clock how many frames came, or the guess while that is in doubt. A guess that turns out to be right
    /// takes the clock's place.
    private mutating func follow(
        _ count: StrapClock.Count, _ one: StrapClock.Count, from first: Int64, to end: Int64,
        isDoubtful: Bool, isSteady: Bool, isUsual: Bool
    ) {
        if isDoubtful {
            if guess?.listeners != listeners.likely {
                guess = Guess(
                    clock: clock, listeners: listeners.likely,
                    low: last == nil ? low - clock.leastStep : low)
            }
            clock.restart()
        }
        if listeners.known != 1, hold > clock.cadence { clock.isShared = true }
        guard var guess else {
            return clock.follow(count, from: first, to: end, isSteady: isSteady, isUsual: isUsual)
        }
        if clock.isShared { guess.clock.isShared = true }
        let isOnTime = guess.clock.isOnTime(end, after: count)
        let waiting = empty - guess.clock.hold
        guess.low = max(
            guess.low + guess.clock.least(count), waiting + guess.clock.least(count - one))
        if isUsual {
            guess.clock.follow(count, from: first, to: end, isSteady: isSteady, isUsual: true)
        } else {
            guess.clock.restart()
        }
        self.guess = guess
        if guess.low > end {
            // The sensor cannot have sent so many.
            listeners.refute(guess.listeners)
            self.guess = nil
        } else if isOnTime, listeners.weighed == guess.listeners {
            listeners.note(guess.listeners)
            (clock, self.guess) = (guess.clock, nil)
        } else if !isDoubtful, let known = listeners.known {
            if known == guess.listeners { clock = guess.clock }
            self.guess = nil
        }
    }

    /// Leaves out copies; the last `open` frames only help to judge those before them.
    private mutating func withoutCopies(
        _ frames: [Frame], _ open: Int, isUsual: Bool
    ) -> (kept: [Kept], seen: StrapClock.Count) {
        // The last frame before belongs to the first run.
        var isSame = false
        if let last, timesCame > 0 {
            isSame = isLike(last, frames[0])
            if !isSame { listeners.note(timesCame) }
        }
        let (came, passed) = isSame ? (timesCame, 1) : (0, 0)
        var runs: [ListenerCount.Run] = []
        var starts: [Int] = []
        var openRuns = 0
        for (index, frame) in frames.enumerated() {
            let previous = index > 0 ? frames[index - 1] : last
            if index > 0, let previous, isLike(previous, frame) {
                runs[runs.count - 1].count += 1
            } else {
                starts.append(index)
                if index >= frames.count - open { openRuns += 1 }
                let count = index == 0 ? came + 1 : 1
                runs.append(
                    ListenerCount.Run(
                        bytes: frame.bytes, count: count, isNew: previous?.bytes != frame.bytes))
            }
        }
        if isUsual, let right = guess, listeners.isCertain(right.listeners, runs) {
            (clock, guess) = (right.clock, nil)
        }
        let end = frames[frames.count - 1].uptime
        let verdicts = listeners.judge(
            runs, most: mostSent(by: end) + Int64(passed),
            due: isUsual ? clock.due(by: end, passed) : nil,
            isUsual: isUsual, open: openRuns)
        var kept: [Kept] = []
        var (count, seen) = (StrapClock.Count(), StrapClock.Count())
        for (index, verdict) in verdicts.enumerated() {
            let (run, skipped) = (
                runs[index].count - (index == 0 ? came : 0), index == 0 ? passed : 0
            )
            let (fewest, likely) = (verdict.range.lowerBound - skipped, verdict.likely - skipped)
            // Only another stored frame can mark the doubt about one that was passed on. From an unknown sensor, copies
            // are more likely.
            let most = clock.cadence > 0 || !isUsual ? likely : fewest
            let new = min(run, max(most, verdict.isDoubtful ? 1 : 0))
            for number in 0..<new {
                let frame = frames[starts[index] + number * run / new]
                let one = Self.count(frame)
                func add(_ frames: Int, to count: inout StrapClock.Count) {
                    let (before, after) = (number * frames, (number + 1) * frames)
                    for _ in (before + new - 1) / new..<(after + new - 1) / new {
                        count = count + one
                    }
                }
                add(fewest, to: &count)
                add(likely, to: &seen)
                kept.append(Kept(frame: frame, count: count, mayBeCopy: verdict.isDoubtful))
            }
        }
        timesCame = runs[verdicts.count - 1].count == 1 ? 1 : 0
        return (kept, seen)
    }

    /// The most frames that the sensor can have sent after the last one until `end`.
    private func mostSent(by end: Int64) -> Int64 {
        let least = clock.leastStep
        guard least > 0 else { return .max / 2 }
        let since = max(last == nil ? low - least : low, empty - hold - least)
        let most = (end - since + clock.jitter) / least
        guard let next = clock.earliest(clock.next(StrapClock.Count())) else { return most }
        return min(most, max(0, end - next + least) / least)
    }
}
