import Basics
import GATTHeartRate
import Testbed
import Testing

@Suite("Plausibility beside what came before")
struct PlausibilityJudgeTests {
    private static let second: Int64 = 1_000_000

    private func frame(bpm: UInt8, rr: [UInt16] = []) throws -> HeartRateMeasurement {
        let ticks = rr.flatMap {
            [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
        }
        return try HeartRateMeasurement(frame: [rr.isEmpty ? 0 : 0x10, bpm] + ticks)
    }

    /// The findings on one frame a second.
    private func findings(_ frames: [HeartRateMeasurement]) -> [Plausibility] {
        var judge = PlausibilityJudge()
        return frames.enumerated().map {
            judge.judge($0.element, at: Int64($0.offset) * Self.second)
        }
    }

    @Test("The hearts of two people are believed, beat for beat, by a strap and without averaging")
    func recordedHearts() throws {
        for heart in [try RecordedHeart.fiveMinutes(), try .oneHour()] {
            var packer = StrapPacker(heart: heart)
            var judge = PlausibilityJudge()
            var found: Set<Plausibility> = []
            for frame in packer.advance(milliseconds: 3_600_000) {
                let measurement = try HeartRateMeasurement(frame: frame.bytes)
                found.insert(judge.judge(measurement, at: Int64(frame.atMilliseconds) * 1000))
            }
            // Before its first beat a strap has no rate.
            #expect(found.subtracting([.zeroRate]) == [[]])
            let each = try heart.intervals.map {
                try frame(
                    bpm: UInt8(60_000 / $0), rr: [RecordedHeart.ticks(milliseconds: $0)])
            }
            #expect(findings(each).allSatisfy { $0 == [] })
        }
    }

    @Test("Intervals are frozen from the 31st frame that holds the same ones, until they change")
    func frozen() throws {
        let same = try Array(repeating: frame(bpm: 70, rr: [877]), count: 40)
        let found = findings(same + [try frame(bpm: 70, rr: [878]), try frame(bpm: 70, rr: [878])])
        #expect(found.prefix(30).allSatisfy { $0 == [] })
        #expect(found[30..<40].allSatisfy { $0 == .frozenRR })
        #expect(found[40...].allSatisfy { $0 == [] })
    }

    @Test("One value in ones and twos, or one list again and again, is frozen as well")
    func frozenLists() throws {
        let metronome = try (0..<40).map {
            try frame(bpm: 75, rr: $0 % 4 == 0 ? [819, 819] : [819])
        }
        #expect(findings(metronome).last == .frozenRR)
        let list = try Array(repeating: frame(bpm: 150, rr: [400, 411]), count: 40)
        #expect(findings(list).last == .frozenRR)
    }

    @Test("A flat rate without intervals is no frozen one, and frames without them end no row")
    func flatRate() throws {
        #expect(try findings(Array(repeating: frame(bpm: 58), count: 600)).allSatisfy { $0 == [] })
        let slow = try (0..<80).map { try frame(bpm: 35, rr: $0 % 2 == 0 ? [1755] : []) }
        let found = findings(slow)
        #expect(found[60] == .frozenRR)
        #expect(found[61] == [], "a frame that tells nothing is not blamed")
    }

    /// From the 31st frame on each was taken for one that repeats itself.
    @Test("Zeros in the place of intervals are none")
    func zeros() throws {
        let zeros = try Array(repeating: frame(bpm: 58, rr: [0]), count: 80)
        #expect(findings(zeros).allSatisfy { $0 != .frozenRR })
        let padded = try (0..<80).map { try frame(bpm: 58, rr: [UInt16(1_000 + $0), 0, 0]) }
        #expect(findings(padded).allSatisfy { $0 != .frozenRR })
    }

    @Test("A change of more than 100 a second is flagged, both ways, and once")
    func jump() throws {
        let rates: [UInt8] = [70, 170, 70, 171, 171, 70, 71]
        let found = findings(try rates.map { try frame(bpm: $0) })
        #expect(found == [[], [], [], .impossibleJump, [], .impossibleJump, []])
    }

    @Test("The longer between two frames, the more may change")
    func elapsed() throws {
        var judge = PlausibilityJudge()
        #expect(judge.judge(try frame(bpm: 40), at: 0) == [])
        #expect(judge.judge(try frame(bpm: 200), at: 1_500_000) == .impossibleJump)
        #expect(judge.judge(try frame(bpm: 40), at: 3_100_000) == [])
        // Held up together: at least a beat lies between them.
        #expect(judge.judge(try frame(bpm: 130), at: 3_100_000) == [])
        #expect(judge.judge(try frame(bpm: 240), at: 3_100_000) == .impossibleJump)
    }

    @Test("From no pulse or no skin to a rate is no jump")
    func regained() throws {
        #expect(
            findings([try frame(bpm: 0), try frame(bpm: 140), try frame(bpm: 0)])
                == [.zeroRate, [], .zeroRate])
        let off = try HeartRateMeasurement(frame: [0x04, 40])
        #expect(findings([off, try frame(bpm: 180)]) == [.contactLost, []])
    }

    @Test("After ten seconds of silence, nothing that came before counts")
    func silence() throws {
        var judge = PlausibilityJudge()
        for second in 0..<40 {
            _ = judge.judge(try frame(bpm: 60, rr: [1024]), at: Int64(second) * Self.second)
        }
        #expect(judge.judge(try frame(bpm: 60, rr: [1024]), at: 49 * Self.second) == .frozenRR)
        #expect(judge.judge(try frame(bpm: 60, rr: [1024]), at: 59 * Self.second + 1) == [])
    }

    @Test("What one measurement tells is judged as ever")
    func alone() throws {
        var random = SeededRandom.fresh()
        for _ in 0..<2000 {
            guard let measurement = decode(random.frame(), .lenient).value else { continue }
            var judge = PlausibilityJudge()
            #expect(judge.judge(measurement, at: 0) == Plausibility.judge(measurement))
        }
    }

    @Test("No frame at any time traps")
    func hostile() {
        var random = SeededRandom.fresh()
        var judge = PlausibilityJudge()
        var stream = DoubledStream()
        for _ in 0..<20_000 {
            let frame = random.frame()
            let time = Int64.random(in: .min ... .max, using: &random)
            stream.note(frame, at: time)
            guard let measurement = decode(frame, .lenient).value else { continue }
            let found = judge.judge(measurement, at: time)
            #expect(found.isSuperset(of: Plausibility.judge(measurement)), "\(random.seed)")
        }
    }
}
