import GATTHeartRate

#if canImport(Basics)
    import Basics
#endif

/// A strap, the air, the kernel, bluetoothd and the bus, as far as they decide when a frame arrives and how often;
/// and a gateway that takes what arrives. A value: the same seed makes the same world.
///
/// bluetoothd signals a notification once for each program that listens, one right after the other, and the
/// notifications of a strap in the order in which it sent them (BlueZ's `gatt-client.c`: `notify_cb` writes the
/// value and flushes the signal, for one client after the other, before the next packet is read). What a link has
/// delivered stays in order in the kernel. So nothing is reordered but copies, which are all the same.
struct FrameWorld {
    /// A frame as the strap made it.
    struct Sent {
        var bytes: [UInt8]
        var at: Int64
    }

    /// A signal.
    struct Arrival {
        /// Which frame it is of.
        var frame: Int
        var at: Int64
        var isCopy: Bool
    }

    /// What a strap sends.
    enum Content: CaseIterable {
        /// Rates and RR intervals, hardly ever the same twice.
        case intervals
        /// The same, but now and then a frame is sent again.
        case intervalsRepeated
        /// Rates alone, which stay the same for a while.
        case rates
        /// Always the same.
        case steady
        /// Rates alone, each of them in two frames.
        case twice
    }

    /// What the kernel keeps of a hang.
    enum Kept {
        case all
        case oldest(Int)
        case newest(Int)
    }

    /// bluetoothd stands still.
    struct Hang {
        var begin: Int64
        var end: Int64
        var kept = Kept.all
        /// A pause while it hands over what was kept, after so many frames.
        var pauseAfter = Int.max
        var pause: Int64 = 0
        /// From one frame to the next meanwhile.
        var step: Int64 = 500
    }

    static let second: Int64 = 1_000_000

    var seed: UInt64
    /// Time between two frames.
    var cadence: Int64
    /// How far off the beat of its clock a frame is sent, in parts of the cadence.
    var jitter = 0.0
    /// One frame a heartbeat instead.
    var sendsPerBeat = false
    var content = Content.intervals
    /// So many frames go over the air together.
    var batch = 1
    var seconds: Int64 = 300
    var hangs: [Hang] = []
    /// Since when how many programs listen.
    var listeners: [(since: Int64, count: Int)] = [(0, 1)]
    /// Most frames take up to a third of that.
    var wayMax: Int64 = 180_000
    /// The strap sends its first frame so long after the link was made, µs.
    var startsAfter: Int64 = 0
    /// Since when the strap sends at another cadence.
    var change: (since: Int64, cadence: Int64)?
    /// The strap sends nothing.
    var silences: [Range<Int64>] = []
    /// bluetoothd is asked whenever nothing has come for six seconds.
    var isAsked = true
    let linkedAt: Int64 = 1_000_000_000

    private(set) var sent: [Sent] = []
    private(set) var arrivals: [Arrival] = []

    init(seed: UInt64, cadence: Int64) {
        self.seed = seed
        self.cadence = cadence
    }

    /// A time after the link was made.
    func at(_ seconds: Double) -> Int64 { linkedAt + Int64(seconds * 1e6) }

    /// Lets the strap send and all of it arrive.
    mutating func run() {
        var random = SeededRandom(seed: seed)
        send(&random)
        arrive(&random)
    }

    // MARK: The strap

    private mutating func send(_ random: inout SeededRandom) {
        let end = linkedAt + seconds * Self.second
        var slot =
            linkedAt + startsAfter + Int64.random(in: 50_000...max(60_000, cadence), using: &random)
        var heart = Heart(at: slot, &random)
        var previous: [UInt8] = []
        sent = []
        while slot < end {
            var time = slot
            if sendsPerBeat {
                time = heart.nextBeat(&random)
                slot = time
            } else {
                let step = change.flatMap { $0.since <= slot ? $0.cadence : nil } ?? cadence
                let most = Int64(Double(step) * jitter)
                if most > 0 { time += Int64.random(in: -most...most, using: &random) }
                slot += step
            }
            if silences.contains(where: { $0.contains(time) }) { continue }
            var bytes = frame(time, &heart, &random)
            if content == .intervalsRepeated, !previous.isEmpty,
                Int.random(in: 0..<40, using: &random) == 0
            {
                bytes = previous
            }
            if content == .twice, sent.count % 2 == 1 { bytes = previous }
            previous = bytes
            sent.append(Sent(bytes: bytes, at: max(time, (sent.last?.at ?? linkedAt) + 1)))
        }
    }

    private func frame(
        _ time: Int64, _ heart: inout Heart, _ random: inout SeededRandom
    ) -> [UInt8] {
        let ticks = heart.intervals(until: time, &random).prefix(9)
        let rate = UInt8(clamping: heart.rate)
        switch content {
        case .intervals, .intervalsRepeated:
            return [ticks.isEmpty ? 0 : 0x10, rate]
                + ticks.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        case .rates, .twice: return [0, rate]
        case .steady: return [0, 60]
        }
    }

    /// A heart whose rate wanders.
    private struct Heart {
        private var beat: Int64
        private var length: Int64 = 800_781
        private var waiting: [UInt16] = []
        private var mean: Double

        init(at time: Int64, _ random: inout SeededRandom) {
            beat = time
            mean = Double.random(in: 450_000...1_100_000, using: &random)
        }

        var rate: Int { Int(60_000_000 / mean) }

        mutating func nextBeat(_ random: inout SeededRandom) -> Int64 {
            beat += length
            waiting.append(UInt16(clamping: length * 16 / 15_625))
            mean += Double.random(in: -12_000...12_000, using: &random)
            mean = min(max(mean, 400_000), 1_300_000)
            let next = mean + Double.random(in: -40_000...40_000, using: &random)
            length = (Int64(next) * 16 / 15_625 * 15_625 + 15) / 16
            return beat
        }

        mutating func intervals(until time: Int64, _ random: inout SeededRandom) -> [UInt16] {
            while beat + length <= time { _ = nextBeat(&random) }
            defer { waiting = [] }
            return waiting
        }
    }

    // MARK: The way

    private mutating func arrive(_ random: inout SeededRandom) {
        var coming = sent.indices.map { index -> (frame: Int, at: Int64) in
            // A batch goes with its last frame.
            let last = min(index / batch * batch + batch - 1, sent.count - 1)
            let isSlow = Int.random(in: 0..<20, using: &random) == 0
            let way = Int64.random(in: 3_000...wayMax / (isSlow ? 1 : 3), using: &random)
            return (index, sent[last].at + way)
        }
        for index in coming.indices.dropFirst() {
            coming[index].at = max(coming[index].at, coming[index - 1].at + 20)
        }
        for hang in hangs { coming = pass(coming, through: hang, &random) }
        arrivals = []
        var free: Int64 = 0
        for (frame, ready) in coming {
            var time = max(ready, free + 20)
            for copy in 0..<(listeners.last { $0.since <= time }?.count ?? 1) {
                if copy > 0 {
                    time += Int64.random(in: 50...min(9_000, cadence / 20), using: &random)
                }
                arrivals.append(Arrival(frame: frame, at: time, isCopy: copy > 0))
            }
            free = time
        }
    }

    private func pass(
        _ coming: [(frame: Int, at: Int64)], through hang: Hang, _ random: inout SeededRandom
    ) -> [(frame: Int, at: Int64)] {
        let before = coming.filter { $0.at < hang.begin }
        var held = coming.filter { (hang.begin..<hang.end).contains($0.at) }
        switch hang.kept {
        case .all: break
        case .oldest(let count): held = Array(held.prefix(count))
        case .newest(let count): held = Array(held.suffix(count))
        }
        var time = hang.end
        for index in held.indices {
            if index == hang.pauseAfter { time += hang.pause }
            time += Int64.random(in: hang.step / 2...hang.step * 3 / 2, using: &random)
            held[index].at = time
        }
        return before + held + coming.filter { $0.at >= hang.end }
    }

    // MARK: The gateway

    /// What is stored of all that arrives.
    func stored() -> [TimedFrame] {
        var intake = FrameIntake()
        var frames = intake.beginLink(at: linkedAt)
        var heard = linkedAt
        for arrival in arrivals {
            if let due = intake.deadline, due <= arrival.at { frames += intake.release(at: due) }
            while isAsked, heard + 6 * Self.second < arrival.at {
                heard += 6 * Self.second
                if !hangs.contains(where: { $0.begin <= heard && heard < $0.end }) {
                    intake.noteAlive(since: heard, at: heard + 5_000)
                }
            }
            heard = arrival.at
            frames += intake.take(sent[arrival.frame].bytes, at: arrival.at)
        }
        while let due = intake.deadline { frames += intake.release(at: due) }
        return frames
    }

    /// A stored frame beside what was sent.
    struct Pair {
        var sent: Sent
        /// When it arrived.
        var arrival: Int64
        var stored: TimedFrame
        var off: Int64 { abs(sent.at - stored.uptimeMicroseconds) }
    }

    /// What is wrong with what was stored, empty if nothing is; and each stored frame beside the one sent.
    func judge(_ stored: [TimedFrame]) -> (faults: [String], pairs: [Pair]) {
        let came = arrivals.filter { !$0.isCopy }
        let sentRuns = Self.runs(came) { sent[$0.frame].bytes }
        let storedRuns = Self.runs(stored, \.bytes)
        guard sentRuns.map({ sent[$0[0].frame].bytes }) == storedRuns.map({ $0[0].bytes }) else {
            return (["other frames were stored than sent"], [])
        }
        var (lost, doubled) = (0, 0)
        var wrongAt: Double?
        var pairs: [Pair] = []
        for (came, stored) in zip(sentRuns, storedRuns) {
            let extra = stored.count - came.count
            let doubtful = stored.count(where: \.mayBeCopy)
            if doubtful == 0 { lost += max(0, -extra) }
            doubled += max(0, extra - doubtful)
            if doubtful == 0 && extra < 0 || extra > doubtful {
                wrongAt = wrongAt ?? Double(came[0].at - linkedAt) / 1e6
            }
            for (index, frame) in stored.enumerated() {
                // Which of equal frames it is, nobody knows.
                let first = min(max(0, index - abs(extra) - doubtful), came.count - 1)
                let end = min(index + max(0, -extra) + doubtful, came.count - 1)
                let meant = Self.nearest(
                    to: frame.uptimeMicroseconds, in: first...end
                ) { sent[came[$0].frame].at }
                pairs.append(
                    Pair(
                        sent: sent[came[meant].frame], arrival: came[meant].at, stored: frame))
            }
        }
        var faults: [String] = []
        if lost > 0 {
            faults.append(
                "\(lost) of \(came.count) frames were dropped as copies, at \(wrongAt ?? 0) s")
        }
        if doubled > 0 {
            faults.append("\(doubled) copies were stored and not marked, at \(wrongAt ?? 0) s")
        }
        let wrong = pairs.filter { $0.off > $0.stored.uncertaintyMicroseconds }
        if let worst = wrong.max(by: {
            $0.off - $0.stored.uncertaintyMicroseconds < $1.off - $1.stored.uncertaintyMicroseconds
        }) {
            let seconds = [
                worst.sent.at - linkedAt, worst.off, worst.stored.uncertaintyMicroseconds,
            ].map { Double($0) / 1e6 }
            faults.append(
                "\(wrong.count) of \(stored.count) times are off by more than they say, one sent at "
                    + "\(seconds[0]) s by \(seconds[1]) s instead of \(seconds[2]) s")
        }
        if zip(stored, stored.dropFirst()).contains(where: {
            $0.uptimeMicroseconds > $1.uptimeMicroseconds
        }) {
            faults.append("times go back")
        }
        return (faults, pairs)
    }

    /// Which one of times that only grow is nearest to another.
    private static func nearest(
        to time: Int64, in range: ClosedRange<Int>, _ times: (Int) -> Int64
    ) -> Int {
        var (low, high) = (range.lowerBound, range.upperBound)
        while low < high {
            let middle = (low + high) / 2
            if times(middle) < time { low = middle + 1 } else { high = middle }
        }
        guard low > range.lowerBound else { return low }
        return abs(times(low - 1) - time) < abs(times(low) - time) ? low - 1 : low
    }

    private static func runs<Frame>(
        _ frames: [Frame], _ bytes: (Frame) -> [UInt8]
    ) -> [[Frame]] {
        var runs: [[Frame]] = []
        for frame in frames {
            if let last = runs.last?.last, bytes(last) == bytes(frame) {
                runs[runs.count - 1].append(frame)
            } else {
                runs.append([frame])
            }
        }
        return runs
    }
}

extension FrameWorld: CustomStringConvertible {
    /// Any world: cadences from 50 ms to 20 s, jitter, batches, hangs of 1 to 300 s with losses at either end and
    /// pauses in what follows, programs that listen beside the gateway.
    init(any seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let magnitudes: [ClosedRange<Int64>] = [
            50_000...150_000, 150_000...450_000, 450_000...900_000, 900_000...1_100_000,
            1_100_000...4_000_000, 4_000_000...20_000_000,
        ]
        let cadences = magnitudes[Int.random(in: 0..<magnitudes.count, using: &random)]
        self.init(seed: seed &* 7919, cadence: .random(in: cadences, using: &random))
        let lengths: [ClosedRange<Int64>] = [1...3, 3...10, 10...30, 30...100, 100...300]
        let contents = Content.allCases
        content = contents[Int.random(in: 0..<contents.count, using: &random)]
        switch Int.random(in: 0..<6, using: &random) {
        case 0: jitter = 0.02
        case 1: jitter = 0.05
        case 2 where content == .intervals && (400_000...1_500_000).contains(cadence):
            sendsPerBeat = true
        case 3 where content != .twice, 4 where content != .twice:
            let most = min(10, 10 * Self.second / cadence)
            if most > 1 { batch = Int(Int64.random(in: 2...most, using: &random)) }
        default: break
        }
        seconds = max(300, cadence * 100 / Self.second)
        let length = seconds * Self.second
        var time = linkedAt + Int64.random(in: length / 4...length / 2, using: &random)
        for _ in 0..<[0, 1, 1, 1, 1, 1, 2, 2][Int.random(in: 0..<8, using: &random)] {
            let length = lengths[Int.random(in: 0..<lengths.count, using: &random)]
            let most = length.lowerBound * Self.second...length.upperBound * Self.second
            time = addHang(at: time, .random(in: most, using: &random), &random)
        }
        seconds += (time - linkedAt) / Self.second
        let other = Int.random(in: 2...4, using: &random)
        let silence = hangs.first.map { $0.begin + 1 }
        switch Int.random(in: 0..<6, using: &random) {
        case 0: listeners = [(0, 2)]
        case 1:
            let from = linkedAt + Int64.random(in: 0...length, using: &random)
            listeners = [(0, 1), (from, other), (from + length / 2, 1)]
        case 2: listeners = [(0, 1)] + (silence.map { [($0, 2)] } ?? [])
        case 3 where silence != nil: listeners = [(0, 2)] + (silence.map { [($0, 1)] } ?? [])
        default: break
        }
    }

    /// Any world in which the strap starts late or falls silent for a while, or changes its cadence.
    init(changing seed: UInt64, mayChangeCadence: Bool = false) {
        self.init(any: seed)
        var random = SeededRandom(seed: seed &* 104_729)
        func time() -> Int64 {
            linkedAt + Int64.random(in: 0...seconds * Self.second, using: &random)
        }
        switch Int.random(in: 0..<4, using: &random) {
        case 0: startsAfter = Int64.random(in: 1...120, using: &random) * Self.second
        case 1 where batch == 1:
            for _ in 0..<3 {
                let begin = time()
                silences.append(
                    begin..<begin + Int64.random(in: 2...60, using: &random) * Self.second)
            }
        case _ where mayChangeCadence && batch == 1 && !sendsPerBeat:
            // What a hang hides of it, nobody knows.
            let (since, learning) = (time(), 10 * Self.second + 4 * cadence)
            guard !hangs.contains(where: { ($0.begin - learning..<$0.end).contains(since) })
            else { break }
            change = (
                since,
                [50_000, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 5_000_000]
                    .randomElement(using: &random) ?? cadence
            )
        default: break
        }
    }

    /// Returns a time at which another one may begin.
    private mutating func addHang(
        at begin: Int64, _ length: Int64, _ random: inout SeededRandom
    ) -> Int64 {
        var hang = Hang(begin: begin, end: begin + length)
        let count = Int(length / cadence)
        let some = max(1, Int.random(in: 0...max(1, count), using: &random))
        switch Int.random(in: 0..<4, using: &random) {
        case 0: hang.kept = .oldest(93)
        case 1: hang.kept = .oldest(some)
        case 2: hang.kept = .newest(some)
        default: break
        }
        if !sendsPerBeat, Bool.random(using: &random) {
            hang.pauseAfter = Int.random(in: 1...max(2, min(count, 93)), using: &random)
            hang.pause = cadence / 2
        }
        hang.step = Int64.random(in: 50...4_000, using: &random)
        hangs.append(hang)
        return hang.end + 24_000 * Int64(count) + 2 * hang.pause
            + Int64.random(in: Self.second...60 * Self.second, using: &random)
    }

    /// Whether frames are sent at the beat of a clock.
    var isRegular: Bool { jitter == 0 && !sendsPerBeat }

    var description: String {
        let times = hangs.map {
            "\(($0.begin - linkedAt) / Self.second) s for \($0.end - $0.begin) µs"
        }
        return "\(seed) \(content) every \(cadence) µs, jitter \(jitter), \(batch) at once, "
            + "\(sendsPerBeat ? "per beat, " : "")starts after \(startsAfter) µs, "
            + "\(change.map { "every \($0.cadence) µs at \(($0.since - linkedAt) / Self.second) s, " } ?? "")"
            + "silent at \(silences.map { "\(($0.lowerBound - linkedAt) / Self.second) s for \($0.count) µs" }), "
            + "hangs at \(times), listeners \(listeners)"
    }
}
