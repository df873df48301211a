import Basics
import Foundation
import GATTHeartRate
import Testing

@Suite("What is stored of straps, hangs and other programs")
struct FrameWorldTests {
    /// Worlds in which one gateway listens to a strap that sends one by one, as nearly all do.
    private static func usual(_ seeds: Range<UInt64>, kept: FrameWorld.Kept) -> [FrameWorld] {
        seeds.map { seed in
            var random = SeededRandom(seed: seed)
            var world = FrameWorld(
                seed: seed, cadence: .random(in: 900_000...1_100_000, using: &random))
            world.content = seed % 2 == 0 ? .intervals : .rates
            let length = Int64.random(in: 1...300, using: &random) * FrameWorld.second
            let begin = world.at(120)
            world.hangs = [FrameWorld.Hang(begin: begin, end: begin + length, kept: kept)]
            world.seconds = 240 + length / FrameWorld.second
            return world
        }
    }

    @Test(
        "a strap that sends once a second is dated within a cadence after a hang that lost nothing")
    func lossless() {
        let tally = FrameTally(Self.usual(0..<10, kept: .all))
        #expect(tally.faults == [])
        for kind in [FrameTally.Kind.live, .shortHang, .longHang] {
            #expect(FrameTally.quantile(0.5, of: tally.seconds[kind]) <= 0.5, "\(kind)")
        }
        #expect(FrameTally.quantile(0.5, of: tally.seconds[.live]) <= 0.25)
        #expect(FrameTally.quantile(0.99, of: tally.seconds[.live]) <= 2)
    }

    /// A hang longer than the kernel's buffer was dated from its end: 40 s off.
    @Test("what a hang has lost, at either end, is in the uncertainty", arguments: [true, false])
    func lossy(isOldest: Bool) {
        let tally = FrameTally(Self.usual(0..<10, kept: isOldest ? .oldest(40) : .newest(40)))
        #expect(tally.faults == [])
    }

    /// A fast strap's flood was split where nothing came for half a cadence: 399 of 821 rows were up to 20 s off.
    @Test("a pause within a flood splits nothing", arguments: [50_000, 200_000, 1_000_000])
    func pause(cadence: Int64) {
        var world = FrameWorld(seed: 5, cadence: cadence)
        var hang = FrameWorld.Hang(begin: world.at(60), end: world.at(80))
        (hang.pauseAfter, hang.pause) = (7, cadence / 2)
        world.hangs = [hang]
        world.seconds = 120
        #expect(FrameTally([world]).faults == [])
    }

    /// Batches without RR intervals spoiled the learned cadence: 47 of 104 rows were up to 9 s off.
    @Test("a strap that sends ten frames at once every ten seconds is dated by its cadence")
    func batches() {
        var world = FrameWorld(seed: 5, cadence: 1_000_000)
        (world.content, world.batch, world.seconds) = (.rates, 10, 300)
        let tally = FrameTally([world])
        #expect(tally.faults == [])
        #expect(FrameTally.quantile(0.5, of: tally.cadences[.batch]) <= 1)
    }

    /// Copies in a hang were stored: 43 of 55.
    @Test(
        "a hang with a second program beside it stores no copy that is not marked",
        arguments: [0, 60, 75])
    func copies(since: Double) {
        var world = FrameWorld(seed: 5, cadence: 1_000_000)
        world.hangs = [FrameWorld.Hang(begin: world.at(60), end: world.at(115))]
        world.listeners = since == 0 ? [(0, 2)] : [(0, 1), (world.at(since), 2)]
        world.seconds = 180
        #expect(FrameTally([world]).faults == [])
    }

    /// A frame like the one before it hid that the strap sends with each heartbeat, and a hang was dated by the rate
    /// before it: a heart that beat faster in it was up to 105 s off.
    @Test(
        "a heart that changes its rate while a hang loses frames is dated no closer than is known",
        arguments: [4_469, 13_533, 28_122, 36_403] as [UInt64])
    func perBeat(seed: UInt64) {
        let world = FrameWorld(any: seed)
        #expect(world.sendsPerBeat)
        #expect(FrameTally([world]).faults == [])
    }

    /// A hang cut a batch off in the instant in which the second program went: a copy counted as the next frame.
    @Test("a second program that goes while a batch comes leaves no copy unmarked")
    func goingWithinBatch() {
        #expect(FrameTally([FrameWorld(any: 500_388)]).faults == [])
    }

    /// A pause in what a hang handed over was taken for a rest, so that times were 10 s off.
    @Test(
        "a strap of which nothing is known while another program listens is dated no closer than is known",
        arguments: [705_695, 801_281, 803_830, 807_138, 808_149] as [UInt64])
    func unknownAndShared(seed: UInt64) {
        #expect(FrameTally([FrameWorld(any: seed)]).faults == [])
    }

    /// A hang just after a strap's first frames was taken for its batches, and taught a cadence that was half as long
    /// again; a pause in what it handed over was taken for a rest. Times were up to 52 s off.
    @Test(
        "a hang just after the first frames of a strap teaches no cadence and is no rest",
        arguments: [4_761, 5_757, 7_701, 9_704] as [UInt64])
    func hungAtTheStart(seed: UInt64) {
        #expect(FrameTally([FrameWorld(changing: seed)]).faults == [])
    }

    /// Frames that first showed the cadence counted as on time; those of a hang were bounded by RR intervals and by the
    /// clock in turn.
    @Test(
        "frames that are held up while the cadence is learned say so",
        arguments: [4_573, 9_498] as [UInt64])
    func heldUpWhileLearning(seed: UInt64) {
        #expect(FrameTally([FrameWorld(any: seed)]).faults == [])
    }

    /// Frames of a strap that starts late, or falls silent, were withheld as uncertain.
    @Test("in any world in which a strap starts late or falls silent, the same holds")
    func changingWorld() {
        #expect(FrameTally((0..<40).lazy.map { FrameWorld(changing: $0) }).faults == [])
    }

    /// The frames of a strap that sent faster than before were dropped as copies, as far apart as a fifth of a second; and
    /// its frames counted as jitter, so that the old cadence went on dating them.
    @Test(
        "a strap that sends faster from one frame to the next loses none, and is dated no closer than is known",
        arguments: [99, 326, 408, 526, 670, 1_377] as [UInt64])
    func fasterAtOnce(seed: UInt64) {
        let world = FrameWorld(changing: seed, mayChangeCadence: true)
        #expect(world.change != nil)
        #expect(FrameTally([world]).faults == [])
    }

    /// FRAME_WORLDS more worlds, from seed FRAME_SEED on.
    @Test("in any world, times are off by no more than they say, and copies are dropped or marked")
    func anyWorld() {
        let environment = ProcessInfo.processInfo.environment
        let count = environment["FRAME_WORLDS"].flatMap { UInt64($0) } ?? 24
        let first = environment["FRAME_SEED"].flatMap { UInt64($0) } ?? 0
        let tally = FrameTally((first..<first + count).lazy.map { FrameWorld(any: $0) })
        #expect(tally.faults == [])
        print("\(count) worlds, \(tally.broken) broken\n\(tally.table)")
    }
}
