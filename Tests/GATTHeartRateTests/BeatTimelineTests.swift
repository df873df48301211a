import Basics
import GATTHeartRate
import Testbed
import Testing

@Suite("Beats on the time line")
struct BeatTimelineTests {
    /// How far from the truth the beats of a link are.
    struct Errors {
        var beats = 0
        var beyondUncertainty = 0
        var worst: Int64 = 0
        var uncertainties: [Int64] = []
        var medianUncertainty: Int64 { uncertainties.sorted()[uncertainties.count / 2] }
    }

    private func errors(
        of deliveries: [LossyLink.Delivery], on line: inout BeatTimeline
    ) throws -> Errors {
        var errors = Errors()
        for delivery in deliveries {
            let found = line.add(
                rr: delivery.measurement.rrIntervals, arrivedAt: delivery.arrivedAt)
            guard found.map(\.intervalTicks) == Array(delivery.measurement.rrIntervals) else {
                Issue.record("other intervals than were sent")
                continue
            }
            for (beat, truth) in zip(found, delivery.beats) {
                let error = abs(beat.uptimeMicroseconds - truth)
                errors.beats += 1
                errors.worst = max(errors.worst, error)
                errors.uncertainties.append(beat.uncertaintyMicroseconds)
                if error > beat.uncertaintyMicroseconds { errors.beyondUncertainty += 1 }
            }
        }
        return errors
    }

    @Test("On a good link every beat of an hour lies within its uncertainty, which is under 0.35 s")
    func goodLink() throws {
        var link = LossyLink()
        link.crystalPartsPerMillion = 20
        let deliveries = try link.deliveries(of: .oneHour(), seconds: 3600, seed: 1)
        var line = BeatTimeline()
        let errors = try errors(of: deliveries, on: &line)
        #expect(errors.beats == link.beatsSent)
        #expect(errors.beyondUncertainty == 0)
        #expect(errors.medianUncertainty < 350_000)
        #expect(line.estimatedLostBeats == 0)
        #expect(line.estimatedLostFrames == 0)
    }

    /// What the model of the link allows for: a frame that nothing holds up takes at most half of
    /// ``BeatTimeline/delayMicrosecondsMax``.
    @Test(
        "Frames lost and held up: times stay within their uncertainty, and losses are counted",
        arguments: [0.01, 0.05, 0.2], [0.0, 0.01])
    func lossyLink(loss: Double, stall: Double) throws {
        for seed in UInt64(1)...4 {
            var link = LossyLink(loss: loss, delayMicrosecondsMax: 250_000, stall: stall)
            let deliveries = try link.deliveries(
                of: seed % 2 == 0 ? .oneHour() : .fiveMinutes(), seconds: 1800, seed: seed)
            var line = BeatTimeline()
            let errors = try errors(of: deliveries, on: &line)
            let told: Comment = "seed \(seed): \(errors.beyondUncertainty) of \(errors.beats)"
            #expect(errors.beyondUncertainty * 400 <= errors.beats, told)
            #expect(errors.medianUncertainty < (loss < 0.1 ? 350_000 : 700_000), told)
            let beats = abs(line.estimatedLostBeats - link.beatsLost)
            #expect(beats <= 2 + link.beatsLost / 10, "seed \(seed): \(beats) beats off")
            let frames = abs(line.estimatedLostFrames - link.framesLost)
            #expect(frames <= 10 + link.framesLost / 20, "seed \(seed): \(frames) frames off")
        }
    }

    @Test("Beats that no frame tells of are found by the time they took, though no frame is lost")
    func silentBeats() throws {
        var link = LossyLink()
        var line = BeatTimeline()
        var missed = 0
        for (index, delivery) in try link.deliveries(of: .oneHour(), seconds: 1800, seed: 4)
            .enumerated()
        {
            let isMissed = index % 25 == 24
            if isMissed { missed += delivery.beats.count }
            let rr = isMissed ? [] : delivery.measurement.rrIntervals
            _ = line.add(rr: rr, arrivedAt: delivery.arrivedAt)
        }
        #expect(missed > 70)
        #expect(abs(line.estimatedLostBeats - missed) <= missed / 10)
        #expect(line.estimatedLostFrames == 0)
    }

    @Test("Rates far from one beat a frame lose nothing", arguments: [280, 333, 1500, 1999])
    func rates(milliseconds: Int) throws {
        var link = LossyLink()
        let heart = try RecordedHeart.steady(milliseconds: milliseconds)
        let deliveries = try link.deliveries(of: heart, seconds: 600, seed: 3)
        var line = BeatTimeline()
        let errors = try errors(of: deliveries, on: &line)
        #expect(errors.beyondUncertainty == 0)
        #expect(line.estimatedLostBeats == 0)
        #expect(errors.beats == link.beatsSent)
    }

    @Test("A rate that doubles and halves within a beat keeps the chain")
    func rateChange() throws {
        let intervals = (0..<400).map { ($0 / 40) % 2 == 0 ? 900 : 400 }
        var link = LossyLink()
        let deliveries = try link.deliveries(
            of: RecordedHeart(intervals: intervals), seconds: 240, seed: 5)
        var line = BeatTimeline()
        let errors = try errors(of: deliveries, on: &line)
        #expect(errors.beyondUncertainty == 0)
        #expect(line.estimatedLostBeats == 0)
    }

    @Test("Several intervals in a frame are oldest first, and the last beat is nearest to arrival")
    func severalIntervals() throws {
        var line = BeatTimeline()
        let beats = line.add(rr: [512, 256, 1024], arrivedAt: 10_000_000)
        #expect(beats.map(\.intervalTicks) == [512, 256, 1024])
        try #require(beats.count == 3)
        #expect(beats[1].uptimeMicroseconds - beats[0].uptimeMicroseconds == 250_000)
        #expect(beats[2].uptimeMicroseconds - beats[1].uptimeMicroseconds == 1_000_000)
        #expect(beats[2].uptimeMicroseconds <= 10_000_000)
        #expect(
            beats[2].uptimeMicroseconds + beats[2].uncertaintyMicroseconds >= 10_000_000,
            "it may have been the moment before")
        #expect(beats.map(\.followsLast) == [false, true, true])
    }

    @Test("The whole intervals before an odd tail count, and its half one does not")
    func oddTail() throws {
        let measurement = try HeartRateMeasurement(frame: octets("10 3e b1 03 de"))
        var line = BeatTimeline()
        let beats = line.add(rr: measurement.rrIntervals, arrivedAt: 1_000_000)
        #expect(beats.map(\.intervalTicks) == [945])
    }

    @Test("A sensor without intervals has no beats, and the frames it loses are counted")
    func noIntervals() {
        var line = BeatTimeline()
        for second in 1...100 where second % 20 != 0 {
            #expect(line.add(rr: [], arrivedAt: Int64(second) * 1_000_000) == [])
        }
        #expect(line.reanchorCount == 0)
        #expect(line.estimatedLostBeats == 0)
        #expect(line.estimatedLostFrames == 4)
    }

    @Test("An interval of zero is no beat")
    func zeroInterval() {
        var line = BeatTimeline()
        #expect(line.add(rr: [0, 1000, 0], arrivedAt: 1).map(\.intervalTicks) == [1000])
        #expect(line.add(rr: [0], arrivedAt: 2) == [])
    }

    @Test("After a long silence everything begins anew, and nothing of it counts as lost")
    func silence() throws {
        var line = BeatTimeline()
        var fresh = BeatTimeline()
        for second in 1...20 { _ = line.add(rr: [1024], arrivedAt: Int64(second) * 1_000_000) }
        let after = line.add(rr: [1024], arrivedAt: 60_000_000)
        #expect(after == fresh.add(rr: [1024], arrivedAt: 60_000_000))
        #expect(line.estimatedLostBeats == 0)
        #expect(line.estimatedLostFrames == 0)
        // Time that runs backwards is another boot, so another time line.
        #expect(line.add(rr: [1024], arrivedAt: 0).map(\.followsLast) == [false])
    }

    @Test("The same frames give the same beats, whatever was computed before")
    func deterministic() throws {
        var link = LossyLink(loss: 0.1, stall: 0.02)
        let deliveries = try link.deliveries(of: .fiveMinutes(), seconds: 120, seed: 9)
        func beats() -> [Beat] {
            var line = BeatTimeline()
            return deliveries.flatMap {
                line.add(rr: $0.measurement.rrIntervals, arrivedAt: $0.arrivedAt)
            }
        }
        #expect(beats() == beats())
    }

    @Test("No frame at any time traps, nor makes time run backwards within a frame")
    func hostile() {
        var random = SeededRandom.fresh()
        for _ in 0..<50 {
            var line = BeatTimeline()
            var arrival = Int64.random(in: .min ... .max, using: &random)
            var isSorted = true
            for _ in 0..<200 {
                let count = Int.random(in: 0...12, using: &random)
                let rr = RRIntervals(
                    (0..<count).map { _ in UInt16.random(in: 0...UInt16.max, using: &random) })
                let beats = line.add(rr: rr, arrivedAt: arrival)
                let times = beats.map(\.uptimeMicroseconds)
                isSorted = isSorted && times == times.sorted()
                isSorted = isSorted && beats.allSatisfy { $0.uncertaintyMicroseconds >= 0 }
                let step = Int64.random(in: -100_000...12_000_000, using: &random)
                arrival =
                    Int.random(in: 0..<20, using: &random) == 0
                    ? Int64.random(in: .min ... .max, using: &random) : arrival &+ step
            }
            #expect(isSorted, "seed \(random.seed)")
        }
    }
}
