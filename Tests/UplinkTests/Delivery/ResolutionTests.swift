import Basics
import Testing

@testable import OfflineQueue
@testable import Uplink

extension PendingSample {
    /// A sample of a frame with this rate, and RR intervals if there are any.
    static func made(
        id: Int64, at microseconds: Int64, bpm: UInt8 = 72, rr: [UInt16] = [], flags: UInt32 = 0,
        segment: Int64 = 1
    ) -> PendingSample {
        let ticks = rr.flatMap {
            [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
        }
        return PendingSample(
            id: id, segmentID: segment, sensorID: 1, assignmentID: 1, patient: nil, runNonce: 77,
            time: UTC(microseconds: microseconds), frame: [rr.isEmpty ? 0 : 0x10, bpm] + ticks,
            flags: flags, identityNumber: id)
    }
}

@Suite struct ResolutionTests {
    /// A minute of UTC.
    static let minute: Int64 = 1_795_285_500_000_000
    private static let second: Int64 = 1_000_000

    private static func range(
        _ seconds: [Double], isEnded: Bool = false
    ) -> PendingRange {
        PendingRange(
            samples: seconds.enumerated().map {
                .made(id: Int64($0.offset) + 1, at: minute + Int64($0.element * 1_000_000))
            }, isEnded: isEnded)
    }

    private static func sizes(
        _ range: PendingRange, _ resolution: Resolution = .tenSeconds, now: UTC? = nil
    ) -> [Int] {
        SampleGroup.complete(of: range, resolution, now: now).map(\.samples.count)
    }

    @Test func theSpellingIsThatOfTheCommandLineAndTheStore() {
        #expect(Resolution.allCases.map(\.rawValue) == ["raw", "10s", "60s"])
        #expect(Resolution(rawValue: "5s") == nil)
        #expect(Resolution(stored: "10s") == .tenSeconds)
        // Never finer than what was agreed.
        #expect(Resolution(stored: "10 s") == .sixtySeconds)
        #expect(Resolution(stored: "") == .sixtySeconds)
    }

    @Test func windowsAreAlignedToUTC() {
        let minute = UTC(microseconds: Self.minute)
        #expect(
            Resolution.sixtySeconds.window(around: minute) == minute..<minute + .seconds(60))
        #expect(
            Resolution.tenSeconds.window(around: minute + .microseconds(19_999_999))
                == minute + .seconds(10)..<minute + .seconds(20))
        let epoch = UTC.epoch
        #expect(
            Resolution.tenSeconds.window(around: epoch - .microseconds(1))
                == epoch - .seconds(10)..<epoch)
        #expect(Resolution.raw.window(around: minute) == nil)
        for time in [Int64.min, .max] {
            let window = Resolution.sixtySeconds.window(around: UTC(microseconds: time))
            #expect(window.map { $0.upperBound - $0.lowerBound } == .seconds(60))
        }
    }

    @Test func aWindowWaitsUntilItIsKnownToBeWhole() {
        let open = Self.range([0, 1, 2, 3, 9.9])
        #expect(Self.sizes(open) == [])
        #expect(Self.sizes(Self.range([0, 1, 2, 3, 9.9, 10])) == [5], "a later sample")
        #expect(Self.sizes(Self.range([0, 1, 2, 3, 9.9], isEnded: true)) == [5], "a later run")
        let end = UTC(microseconds: Self.minute) + .seconds(10)
        #expect(Self.sizes(open, now: end + .seconds(119)) == [])
        #expect(Self.sizes(open, now: end + .seconds(120)) == [5], "a long time")
    }

    /// A backlog of hours is read in parts: the minute at the end of a part went out as two averages.
    @Test func aWindowThatIsReadInPartWaitsForItsRestHoweverOldItIs() {
        var cut = Self.range([0, 9, 10, 11, 12])
        let late = UTC(microseconds: Self.minute) + .seconds(86_400)
        #expect(Self.sizes(cut, now: late) == [2, 3])
        cut = PendingRange(samples: cut.samples, isEnded: false, isCut: true)
        #expect(Self.sizes(cut, now: late) == [2])
    }

    @Test func aClockThatIsSetBackMakesAWindowOfItsOwnAndLosesNothing() {
        let range = Self.range([8, 9, 10, 11, 9.5, 9.7, 10.1, 20], isEnded: true)
        #expect(Self.sizes(range) == [2, 2, 2, 1, 1])
        let groups = SampleGroup.complete(of: range, .tenSeconds, now: nil)
        #expect(groups.flatMap(\.samples) == range.samples)
        #expect(groups[0].window == groups[2].window)
        #expect(groups[0].samples[0].id != groups[2].samples[0].id, "so their identities differ")
    }

    @Test func aWindowWithMoreSamplesThanFitIsClosedAtTheSamePlaceEveryTime() {
        let max = SampleGroup.samplesMax
        let many = Self.range((0..<max + 500).map { Double($0) / 1000 })
        #expect(Self.sizes(many) == [max])
        #expect(
            Self.sizes(PendingRange(samples: Array(many.samples[..<max]), isEnded: false))
                == [max])
        #expect(
            Self.sizes(PendingRange(samples: Array(many.samples[max...]), isEnded: true))
                == [500])
    }

    @Test func rawHasNoWindowsAndNothingToWaitFor() {
        #expect(Self.sizes(Self.range([0, 1, 1, 0.5]), .raw) == [1, 1, 1, 1])
    }

    /// What is left of a range is read again with what has come since.
    @Test(arguments: [Resolution.raw, .tenSeconds, .sixtySeconds])
    func theGroupsAreTheSameInWhateverPiecesTheSamplesAreRead(_ resolution: Resolution) {
        for seed in UInt64(1)...100 {
            var random = SeededRandom(seed: seed)
            var time = Self.minute + Int64.random(in: 0...60_000_000, using: &random)
            let samples = (0..<Int.random(in: 1...400, using: &random)).map { number in
                // Pauses, bursts, and a clock that is set back now and then.
                switch Int.random(in: 0..<40, using: &random) {
                case 0: time += Int64.random(in: 0...300_000_000, using: &random)
                case 1: time -= Int64.random(in: 0...20_000_000, using: &random)
                case 2...5: break
                default: time += Int64.random(in: 500_000...1_500_000, using: &random)
                }
                return PendingSample.made(
                    id: Int64(number) + 1, at: time,
                    bpm: UInt8.random(in: 0...250, using: &random))
            }
            let whole = SampleGroup.complete(
                of: PendingRange(samples: samples, isEnded: true), resolution, now: nil)
            #expect(whole.flatMap(\.samples) == samples, "seed \(seed)")

            var pieces: [SampleGroup] = []
            var next = 0
            var committed = 0
            while next < samples.count {
                committed = min(
                    samples.count, committed + Int.random(in: 0...80, using: &random))
                guard committed > next else { continue }
                let read = min(committed, next + Int.random(in: 1...200, using: &random))
                let range = PendingRange(
                    samples: Array(samples[next..<read]),
                    isEnded: read == samples.count)
                let groups = SampleGroup.complete(of: range, resolution, now: nil)
                // A delivery takes as many as fit into its request.
                let taken = groups.prefix(Int.random(in: 0...groups.count, using: &random))
                pieces += taken
                next += taken.reduce(0) { $0 + $1.samples.count }
            }
            #expect(pieces.map(\.samples) == whole.map(\.samples), "seed \(seed)")
            #expect(pieces.map(\.window) == whole.map(\.window), "seed \(seed)")
        }
    }
}
