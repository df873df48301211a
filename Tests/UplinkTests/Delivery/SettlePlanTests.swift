import Basics
import GATTHeartRate
import Testing

@testable import OfflineQueue
@testable import Uplink

@Suite struct SettlePlanTests {
    private static let minute = ResolutionTests.minute

    private static func plan(
        _ samples: [PendingSample], _ resolution: Resolution = .tenSeconds, intervals: Bool = false
    ) -> SettlePlan {
        SettlePlan(
            SampleGroup.complete(
                of: PendingRange(samples: samples, isEnded: true), resolution, now: nil),
            resolution, straps: [:], DeliveryPolicy(), intervals: intervals)
    }

    /// One sample a second with these rates.
    private static func samples(_ rates: [UInt8], rr: [UInt16] = []) -> [PendingSample] {
        rates.enumerated().map {
            .made(
                id: Int64($0.offset) + 1, at: minute + Int64($0.offset) * 1_000_000,
                bpm: $0.element, rr: rr)
        }
    }

    private static let dead = SettledSample.Outcome.dead(reason: "refused-422", diagnostics: "x")
    private static let noRate = SettledSample.Outcome.dropped(reason: "zeroRate")
    private static let noConsent = SettledSample.Outcome.dropped(reason: "no-consent")

    @Test func aWindowIsTheAverageOfWhatIsBelievedAndNamedByItsFirstSample() throws {
        let samples = Self.samples([0, 70, 71, 73, 0, 80, 80, 80, 80, 80, 99])
        let plan = Self.plan(samples)
        try #require(plan.points.count == 2)
        let start = UTC(microseconds: Self.minute)
        #expect(
            plan.points[0].point.content
                // 614 / 8 is 76.75.
                == .averageHeartRate(tenths: 768, count: 8, window: start..<start + .seconds(10)))
        let id = samples[0].identity(of: .tenSecondAverage).description
        #expect(plan.points[0].point.uuid == id)
        #expect(id != samples[0].uuid)
    }

    @Test(
        "One verdict settles every sample of its window",
        arguments: [
            (SettledSample.Outcome.delivered, SettledSample.Outcome.delivered), (dead, dead),
        ])
    func oneVerdict(verdict: SettledSample.Outcome, becomes: SettledSample.Outcome) {
        var plan = Self.plan(Self.samples([70, 0, 71, 72]))
        #expect(plan.known == [nil, Self.noRate])
        #expect(plan.ready.isEmpty, "the first sample is not resolved, and no other goes before")
        plan.resolve([Delivery.Resolved(index: 0, outcome: verdict)])
        #expect(plan.ready.map(\.outcome) == [becomes, Self.noRate, becomes, becomes])
        plan.settled(plan.ready)
        #expect(plan.ready.isEmpty)
    }

    @Test func aDeadSampleIsKnownByTheDataPointThatWasRefused() throws {
        var plan = Self.plan(Self.samples([70, 71, 72]))
        plan.resolve([Delivery.Resolved(index: 0, outcome: Self.dead)])
        let average = plan.points[0].point.uuid
        #expect(plan.ready.map(\.sentAs) == [average, average, average])

        plan = Self.plan(Self.samples([70], rr: [800, 820]), .raw, intervals: true)
        try #require(plan.points.count == 3)
        plan.resolve([
            Delivery.Resolved(index: 0, outcome: Self.dead),
            Delivery.Resolved(index: 1, outcome: .delivered),
            Delivery.Resolved(index: 2, outcome: .delivered),
        ])
        #expect(plan.ready.map(\.outcome) == [Self.dead])
        #expect(plan.ready.map(\.sentAs) == [plan.points[0].point.uuid])

        plan = Self.plan(Self.samples([70]), .raw)
        plan.resolve([Delivery.Resolved(index: 0, outcome: .delivered)])
        #expect(plan.ready.map(\.sentAs) == [nil])
    }

    @Test func aWindowInWhichNothingWasMeasuredNeedsNoDataPoint() {
        let plan = Self.plan(Self.samples([0, 0, 0]))
        #expect(plan.points.isEmpty)
        #expect(plan.known == [Self.noRate, Self.noRate, Self.noRate])
        #expect(plan.ready.map(\.outcome) == [Self.noRate, Self.noRate, Self.noRate])
    }

    /// Heart rate, first RR interval, second RR interval: what becomes of the sample.
    @Test(
        "A sample is resolved when all its data points are",
        arguments: [
            ([.delivered, .delivered, .delivered], .delivered),
            ([.delivered, noConsent, noConsent], .delivered),
            ([.delivered, .delivered, noConsent], .delivered),
            // Only the intervals were refused: a heart rate that was delivered counted as dead.
            ([.delivered, dead, .delivered], .delivered), ([.delivered, dead, dead], .delivered),
            ([.delivered, dead, nil], nil), ([dead, .delivered, noConsent], dead),
            ([dead, noConsent, noConsent], dead), ([.delivered, .delivered, nil], nil),
            ([nil, .delivered, .delivered], nil),
        ] as [([SettledSample.Outcome?], SettledSample.Outcome?)])
    func verdictTable(points: [SettledSample.Outcome?], sample: SettledSample.Outcome?) {
        for resolution in [Resolution.raw, .sixtySeconds] {
            var plan = Self.plan(Self.samples([70], rr: [800, 820]), resolution, intervals: true)
            #expect(plan.points.count == 3)
            plan.resolve(
                points.enumerated().compactMap { index, outcome in
                    outcome.map { Delivery.Resolved(index: index, outcome: $0) }
                })
            #expect(plan.ready.first?.outcome == sample)
        }
    }

    @Test func aWindowIsSettledAsAWholeSinceHalfOfItWouldBeAnotherDataPoint() {
        var plan = Self.plan(Self.samples([0, 70, 71], rr: [800]), intervals: true)
        #expect(plan.points.count == 3)
        plan.resolve([0, 1].map { Delivery.Resolved(index: $0, outcome: .delivered) })
        #expect(plan.ready.isEmpty)
        plan.resolve([Delivery.Resolved(index: 2, outcome: .delivered)])
        #expect(plan.ready.count == 3)
    }

    @Test func intervalsEndWhereTheNextOneBeginsAndTheLastOneAtTheArrival() throws {
        let arrival = Self.minute + 7_000_000
        let arrived = UTC(microseconds: arrival)
        let sample = PendingSample.made(id: 9, at: arrival, rr: [512, 0, 1024, 256])
        let points = Self.plan([sample], .raw, intervals: true).points.map(\.point)
        #expect(
            points.dropFirst().map(\.content) == [
                .interval(ticks: 512, end: arrived - .microseconds(1_250_000)),
                .interval(ticks: 1024, end: arrived - .microseconds(250_000)),
                .interval(ticks: 256, end: arrived),
            ])
        let kinds = [0, 2, 3].map { DataPointKind.interval($0) }
        #expect(
            points.dropFirst().map(\.uuid) == kinds.map { sample.identity(of: $0!).description })
        #expect(Self.plan([sample], .raw).points.count == 1, "unless they are wanted")
    }

    @Test func noTwoDataPointsOfASampleShareAnIdentity() {
        let sample = PendingSample.made(
            id: 3, at: Self.minute, rr: Array(repeating: 100, count: 255))
        let points = Self.plan([sample], .tenSeconds, intervals: true).points
        #expect(points.count == 1 + DataPointKind.intervalsMax)
        #expect(Set(points.map(\.point.uuid) + [sample.uuid]).count == points.count + 1)
    }

    @Test func whatIsWithheldHasNoIntervalsEither() {
        let plan = Self.plan(Self.samples([0, 70], rr: [900]), .raw, intervals: true)
        #expect(plan.points.count == 2)
        #expect(plan.points.allSatisfy { $0.point.uuid.hasSuffix("0200") || $0.point.isInterval })
    }

    @Test func aRecordOfARequestCountsSamplesAndNotDataPoints() {
        let plan = Self.plan(Self.samples([70, 0, 71, 72], rr: [800]), intervals: true)
        #expect(plan.points.count == 4)
        #expect(plan.samples(ofPoints: [0]).map(\.id) == [1, 3, 4])
        #expect(plan.samples(ofPoints: [2]).map(\.id) == [3])
    }
}
