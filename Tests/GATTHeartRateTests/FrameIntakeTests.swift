import Basics
import GATTHeartRate
import Testbed
import Testing

@Suite("What notifications go through before they are stored")
struct FrameIntakeTests {
    typealias Sent = (bytes: [UInt8], at: Int64)

    private static let second: Int64 = 1_000_000

    private func frames(
        _ style: StrapStyle = .chest, seconds: Int = 300
    ) throws -> [Sent] {
        var packer = try StrapPacker(heart: .fiveMinutes(), style: style)
        return packer.advance(milliseconds: seconds * 1000).map {
            ($0.bytes, Int64($0.atMilliseconds) * 1000)
        }
    }

    private func run(_ arrivals: [Sent]) -> (frames: [TimedFrame], intake: FrameIntake) {
        var intake = FrameIntake()
        var frames = intake.beginLink(at: (arrivals.first?.at ?? 0) - 500_000)
        for arrival in arrivals {
            if let due = intake.deadline, due <= arrival.at { frames += intake.release(at: due) }
            frames += intake.take(arrival.bytes, at: arrival.at)
        }
        while let due = intake.deadline { frames += intake.release(at: due) }
        return (frames, intake)
    }

    /// Each frame `copies` times, at most 30 ms apart.
    private func doubled(_ sent: [Sent], copies: Int = 2, from first: Int = 0) -> [Sent] {
        var random = SeededRandom(seed: 7)
        return sent.enumerated().flatMap { index, frame -> [Sent] in
            guard index >= first else { return [frame] }
            var at = frame.at
            return (0..<copies).map { copy in
                if copy > 0 { at += Int64.random(in: 50...15_000, using: &random) }
                return (frame.bytes, at)
            }
        }
    }

    private static let steady = made(200, every: 1_000_000) { _ in 60 }

    private static func made(
        _ count: Int, every microseconds: Int64, _ bpm: (Int) -> Int
    ) -> [Sent] {
        (0..<count).map { index -> Sent in
            (bytes: [0, UInt8(bpm(index))], at: Int64(index) * microseconds)
        }
    }

    // MARK: Copies

    @Test("a strap that another program reads as well is stored once, from the first pair on")
    func pairs() throws {
        for sent in [try frames(), Self.steady] {
            for copies in [2, 3, 4] {
                for first in [0, 1, 2, 30] {
                    let (frames, intake) = run(doubled(sent, copies: copies, from: first))
                    #expect(frames.map(\.bytes) == sent.map(\.bytes), "\(copies) from \(first)")
                    #expect(intake.copiesDropped == (copies - 1) * (sent.count - first))
                    // Before RR intervals or a cadence show it, or if all frames are the same, nothing tells.
                    let marked = frames.count { $0.mayBeCopy }
                    let most = first == 30 ? 0 : sent.count == Self.steady.count ? sent.count : 8
                    #expect(marked <= most, "\(copies) from \(first)")
                }
            }
        }
    }

    @Test("a program that comes and goes changes nothing")
    func comingAndGoing() throws {
        let sent = try frames()
        var arrivals: [Sent] = []
        for (index, frame) in sent.enumerated() {
            arrivals.append(frame)
            if index / 20 % 2 == 1 { arrivals.append((frame.bytes, frame.at + 8_000)) }
            if index / 20 % 4 == 3 { arrivals.append((frame.bytes, frame.at + 9_000)) }
        }
        #expect(run(arrivals).frames.map(\.bytes) == sent.map(\.bytes))
    }

    @Test("two equal frames a second apart are two")
    func equalFrames() {
        let (frames, intake) = run(Self.steady)
        #expect(frames.count == Self.steady.count)
        #expect(intake.copiesDropped == 0)
    }

    @Test("steady frames that were held up by the air and come together are all kept")
    func stalls() {
        var arrivals: [Sent] = []
        for (index, frame) in Self.steady.enumerated() {
            // Every tenth one waits for the two after it.
            let late = index % 10 == 5 ? 2 : index % 10 == 6 ? 1 : 0
            let wait: Int64 = index % 10 == 7 ? 2_000 : Int64(late) * Self.second + Int64(2 - late)
            arrivals.append((frame.bytes, frame.at + wait))
        }
        let (frames, intake) = run(arrivals)
        #expect(frames.count == arrivals.count)
        #expect(intake.copiesDropped == 0)
    }

    @Test("late and early steady frames are all kept", arguments: [1, 2, 3] as [UInt64])
    func jitter(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var latest: Int64 = 0
        let arrivals = Self.steady.map { frame -> Sent in
            latest = max(latest + 1, frame.at + Int64.random(in: 0...900_000, using: &random))
            return (frame.bytes, latest)
        }
        #expect(run(arrivals).frames.count == arrivals.count)
    }

    @Test("a strap of 20 frames a second with steady bytes loses none, a handful at a time or not")
    func fastSteady() {
        for handful in [1, 2, 5] {
            let arrivals = (0..<2_000).map { index -> Sent in
                let event = Int64(index / handful * handful + handful - 1) * 50_000
                return ([0, 60], event + Int64(index % handful))
            }
            let (frames, intake) = run(arrivals)
            if handful == 2 {
                // Two at once, always the same, may be copies.
                #expect(frames.allSatisfy { $0.mayBeCopy })
            } else {
                // Some of the first handful may be copies.
                #expect(frames.count + intake.copiesDropped == arrivals.count)
                #expect(intake.copiesDropped < handful, "\(handful)")
            }
        }
    }

    @Test("a fast strap is stored once when another program begins to read it")
    func fastPairs() {
        let sent = Self.made(1_000, every: 50_000) { 60 + $0 / 20 % 20 }
        let (frames, intake) = run(doubled(sent, from: 200))
        // While it is not clear that they come twice, copies are stored and marked. Later, the last frames that are judged
        // together are marked: two more or less would be on time, so that the other program may just have gone.
        #expect(frames.count >= sent.count && frames.count <= sent.count * 5 / 4)
        #expect(frames.count { !$0.mayBeCopy } <= sent.count)
        #expect(frames.count + intake.copiesDropped == 1_800)
    }

    // MARK: Floods

    /// What was sent from `begin` on for so many seconds arrives at the end of it, within half a second.
    private func held(_ sent: [Sent], from begin: Int64, seconds: Int64) -> [Sent] {
        let end = begin + seconds * Self.second
        var count: Int64 = 0
        return sent.map { frame in
            guard frame.at > begin, frame.at <= end else { return frame }
            count += 1
            return (frame.bytes, end + count * 2_000)
        }
    }

    @Test(
        "after bluetoothd hung, frames get the times at which they were sent",
        arguments: [40, 100, 150] as [Int64])
    func hang(seconds: Int64) throws {
        for style in [StrapStyle.chest, .wrist] {
            let sent = try frames(style)
            let (frames, _) = run(held(sent, from: 60 * Self.second, seconds: seconds))
            #expect(frames.map(\.bytes) == sent.map(\.bytes))
            var estimated = 0
            for (frame, sent) in zip(frames, sent) {
                let error = abs(frame.uptimeMicroseconds - sent.at)
                #expect(error <= frame.uncertaintyMicroseconds, "\(error) at \(sent.at)")
                #expect(!frame.isUncertain && !frame.mayBeCopy)
                guard frame.isRebuilt else {
                    #expect(error < 500_000)
                    continue
                }
                estimated += 1
                #expect(error <= 2 * Self.second, "\(error) at \(sent.at)")
            }
            #expect(abs(estimated - Int(seconds)) <= 2)
        }
    }

    /// It was stored with the time of the link, a second after it was sent, as if that were certain.
    @Test("a frame that waits while the gateway learns of its link keeps its time of arrival")
    func beforeItsLink() throws {
        var intake = FrameIntake()
        let sent = try frames()
        var known = intake.beginLink(at: sent[0].at - 500_000)
        for frame in sent.prefix(60) { known += intake.take(frame.bytes, at: frame.at) }
        known += intake.beginLink(at: sent[62].at + 200_000)
        let rest = sent[61..<70]
        var late: [TimedFrame] = []
        for frame in rest { late += intake.take(frame.bytes, at: frame.at) }
        late += intake.releaseAll()
        #expect(late.map(\.uptimeMicroseconds) == rest.map(\.at))
        #expect(
            late.allSatisfy { $0.uncertaintyMicroseconds < 2 * FrameIntake.wayMicrosecondsMax },
            "\(late.map(\.uncertaintyMicroseconds))")
    }

    @Test("rebuilt times only grow")
    func order() throws {
        let arrivals = held(try frames(), from: 60 * Self.second, seconds: 100)
        let times = run(arrivals).frames.map(\.uptimeMicroseconds)
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
    }

    @Test("copies in a flood are dropped, and steady frames in one are not")
    func doubledFlood() throws {
        for sent in [try frames(), Self.steady] {
            let flood = held(sent, from: 60 * Self.second, seconds: 60)
            let (single, _) = run(flood)
            #expect(single.map(\.bytes) == sent.map(\.bytes))
            // If they are all the same, another program may have come while half of them were lost.
            let isSteady = sent.count == Self.steady.count
            #expect(single.count { $0.mayBeCopy } == (isSteady ? 60 : 0))
            let twice = flood.flatMap { frame -> [Sent] in [frame, (frame.bytes, frame.at + 500)] }
            let (frames, _) = run(twice)
            #expect(frames.map(\.bytes) == sent.map(\.bytes))
            // Of a strap that always sends the same, nothing tells how often each frame comes.
            let marked = frames.count { $0.mayBeCopy }
            #expect(isSteady ? marked == sent.count : marked <= 8)
        }
    }

    @Test("what a silence is much longer than is marked as uncertain")
    func lostInTheFlood() throws {
        let sent = try frames()
        let begin = 60 * Self.second
        // The strap was out of range for the second half.
        let arrivals = held(sent, from: begin, seconds: 100).enumerated().filter { index, _ in
            sent[index].at <= begin + 50 * Self.second || sent[index].at > begin + 100 * Self.second
        }.map(\.element)
        let late = run(arrivals).frames.filter { $0.isUncertain }
        #expect((45...55).contains(late.count))
        #expect(late.allSatisfy { $0.isRebuilt })
    }

    @Test("a strap with a frame every 20 s is dated by its cadence")
    func rare() {
        let sent = Self.made(40, every: 20_000_000) { 60 + $0 }
        let (frames, _) = run(held(sent, from: 305 * Self.second, seconds: 130))
        #expect(frames.map(\.bytes) == sent.map(\.bytes))
        for (frame, sent) in zip(frames, sent) {
            #expect(abs(frame.uptimeMicroseconds - sent.at) <= 2 * Self.second)
            #expect(abs(frame.uptimeMicroseconds - sent.at) <= frame.uncertaintyMicroseconds)
        }
        // Of the first ones nothing is known.
        #expect(frames.dropFirst(4).allSatisfy { !$0.isUncertain })
    }

    @Test(
        "a first frame after a pause may have been sent in it, and one after the second is on time")
    func pause() throws {
        let sent = try frames().filter { $0.at < 60 * Self.second || $0.at > 120 * Self.second }
        let (frames, _) = run(sent)
        for (frame, sent) in zip(frames, sent) {
            #expect(abs(frame.uptimeMicroseconds - sent.at) <= frame.uncertaintyMicroseconds)
        }
        #expect(frames.dropFirst(4).count { $0.isRebuilt } <= 2)
    }

    @Test("a link that was just made has nothing that is late")
    func newLink() throws {
        let sent = try frames(seconds: 60)
        var intake = FrameIntake()
        var frames: [TimedFrame] = intake.beginLink(at: 0)
        for frame in sent { frames += intake.take(frame.bytes, at: frame.at) }
        frames += intake.releaseAll()
        frames += intake.beginLink(at: 200 * Self.second)
        for offset in Int64(0)..<4 {
            frames += intake.take([0, 60], at: 201 * Self.second + offset * 1_000)
        }
        frames += intake.releaseAll()
        #expect(frames.suffix(4).allSatisfy { $0.uncertaintyMicroseconds <= 1_250_000 })
    }

    // MARK: Beginnings

    @Test("the first frame of a link is dated as it came, a quarter of a second later")
    func firstFrame() {
        var intake = FrameIntake()
        for link in [Int64(10), 200] {
            _ = intake.beginLink(at: link * Self.second)
            let at = link * Self.second + 900_000
            #expect(intake.take([0, 60], at: at).isEmpty)
            let frames = intake.release(at: at + 250_000)
            #expect(frames.map(\.uptimeMicroseconds) == [at])
            #expect(frames.first?.uncertaintyMicroseconds == 900_000)
        }
    }

    /// What is stored if bluetoothd shows now and then that it does not hang.
    private func run(_ sent: [Sent], aliveEvery pause: Int64) -> [TimedFrame] {
        var intake = FrameIntake()
        var frames = intake.beginLink(at: 0)
        var alive: Int64 = 0
        for arrival in sent {
            while alive + pause < arrival.at {
                alive += pause
                intake.noteAlive(since: alive, at: alive)
                if let due = intake.deadline, due <= alive { frames += intake.release(at: due) }
            }
            if let due = intake.deadline, due <= arrival.at { frames += intake.release(at: due) }
            frames += intake.take(arrival.bytes, at: arrival.at)
        }
        return frames + intake.releaseAll()
    }

    /// A strap that needs 100 s from each connect to its first frame lost that frame: it was withheld.
    @Test(
        "the first frames of a strap that starts or sends slowly are as certain as bluetoothd is known not to hang",
        arguments: [6_000_000, 500_000] as [Int64], [1_000_000, 4_000_000, 20_000_000] as [Int64])
    func slowStart(alive: Int64, cadence: Int64) {
        let sent = Self.made(10, every: cadence) { 60 + $0 }.map {
            (bytes: $0.bytes, at: $0.at + 100 * Self.second)
        }
        let frames = run(sent, aliveEvery: alive)
        #expect(frames.map(\.bytes) == sent.map(\.bytes))
        for (frame, sent) in zip(frames, sent) {
            #expect(!frame.isUncertain, "\(frame)")
            #expect(abs(frame.uptimeMicroseconds - sent.at) <= frame.uncertaintyMicroseconds)
        }
    }

    @Test("a strap that pauses for a minute loses no frame to doubt, while others are heard")
    func pauses() {
        let sent = Self.made(400, every: 1_000_000) { 60 + $0 % 40 }.filter {
            $0.at / Self.second % 100 < 40
        }
        let frames = run(sent, aliveEvery: 500_000)
        #expect(frames.map(\.bytes) == sent.map(\.bytes))
        #expect(frames.allSatisfy { !$0.isUncertain })
    }

    /// Frames of a strap that began to send 20 times a second were kept back until it stopped.
    @Test(
        "a strap that changes its cadence is followed within seconds",
        arguments: [
            (1_000_000, 50_000), (50_000, 1_000_000), (1_000_000, 250_000), (250_000, 4_000_000),
            (20_000_000, 1_000_000),
        ] as [(Int64, Int64)])
    func otherCadence(from first: Int64, to second: Int64) {
        let before = Self.made(60, every: first) { 60 + $0 % 40 }
        let begin = (before.last?.at ?? 0) + second
        let after = Self.made(600, every: second) { 60 + $0 % 40 }.map {
            (bytes: $0.bytes, at: begin + $0.at)
        }
        var intake = FrameIntake()
        var frames = intake.beginLink(at: -500_000)
        var kept: Int64 = 0
        for arrival in before + after {
            if let due = intake.deadline, due <= arrival.at { frames += intake.release(at: due) }
            frames += intake.take(arrival.bytes, at: arrival.at)
            let waiting = before.count + after.count - frames.count
            if let next = (before + after).dropFirst(frames.count).first, waiting > 0 {
                kept = max(kept, arrival.at - next.at)
            }
        }
        frames += intake.releaseAll()
        #expect(frames.map(\.bytes) == (before + after).map(\.bytes))
        #expect(kept <= 4 * Self.second)
        #expect(frames.count { $0.isUncertain } <= 4, "at first")
        #expect(frames.suffix(400).allSatisfy { $0.uncertaintyMicroseconds <= 500_000 })
        for (frame, sent) in zip(frames, before + after) {
            #expect(abs(frame.uptimeMicroseconds - sent.at) <= frame.uncertaintyMicroseconds)
        }
    }

    // MARK: What was lost

    @Test("a fast strap that loses nothing is not said to lose frames", arguments: [1, 3, 5])
    func nothingLost(handful: Int) {
        var beats = BeatTimeline()
        for index in 0..<30_000 {
            let at = Int64(index / handful * handful + handful - 1) * 20_000
            _ = beats.add(rr: RRIntervals(), arrivedAt: at + Int64(index % handful))
        }
        #expect(beats.estimatedLostFrames == 0)
    }
}
