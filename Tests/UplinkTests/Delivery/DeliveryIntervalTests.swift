import Basics
import Testing

@testable import Uplink

@Suite struct DeliveryIntervalTests {
    private static let second = Duration.seconds(1)

    private static func interval(_ shortest: Int64 = 5, _ longest: Int64 = 30) -> DeliveryInterval {
        DeliveryInterval(shortest: .seconds(shortest), longest: .seconds(longest))
    }

    /// What an exchange takes that nobody else asks, as measured.
    private static func alone(_ points: Int) -> Duration {
        .microseconds(14_000 + 6_100 * Int64(points))
    }

    @Test func anIdleExchangeIsAskedAtTheShortestIntervalForEver() {
        var interval = Self.interval()
        for turn in 0..<1000 {
            // A frame more or less is in a request, as it happens.
            let points = 4 + turn % 3
            interval.answered(after: Self.alone(points), points: points)
            #expect(interval.current == .seconds(5))
        }
    }

    @Test func answersThatAlwaysTakeHalfASecondDoNotMakeItLonger() {
        var interval = Self.interval()
        for turn in 0..<1000 {
            interval.answered(after: .milliseconds(500), points: 4 + turn % 3)
        }
        #expect(interval.current == .seconds(5))
    }

    @Test func whenHalfOfTheAnswersMeetOthersTheIntervalDoublesUpToTheLongest() {
        var interval = Self.interval()
        var lengths: [Duration] = []
        for turn in 0..<48 {
            interval.answered(after: Self.alone(5) * (turn % 2 + 1), points: 5)
            if turn % 16 == 15 { lengths.append(interval.current) }
        }
        #expect(lengths == [10, 20, 30].map { Duration.seconds($0) })
        for turn in 0..<1000 {
            interval.answered(after: Self.alone(30) * (turn % 2 + 1), points: 30)
        }
        #expect(
            interval.current == .seconds(30), "it never takes a crowded exchange for an idle one")
    }

    @Test func whenTheOthersAreGoneItComesBackToTheShortest() {
        var interval = Self.interval()
        interval.failed()
        #expect(interval.current == .seconds(30))
        var requests = 0
        while interval.current > .seconds(5), requests < 1000 {
            interval.answered(after: Self.alone(15), points: 15)
            requests += 1
        }
        #expect(interval.current == .seconds(5))
        #expect(requests == 3 * DeliveryInterval.answersMax, "30, 15, 7.5 and 5 s")
    }

    @Test func aSingleSlowAnswerChangesNothing() {
        var interval = Self.interval()
        for turn in 0..<400 {
            interval.answered(after: turn % 16 == 0 ? .seconds(4) : Self.alone(5), points: 5)
            #expect(interval.current == .seconds(5))
        }
    }

    @Test func answersThatTakeAnEighthOfTheIntervalMakeItLongerThoughAllAreAlike() {
        var interval = Self.interval()
        for _ in 0..<100 { interval.answered(after: .seconds(1), points: 5) }
        #expect(interval.current == .seconds(10))
        for _ in 0..<100 { interval.answered(after: .seconds(3), points: 5) }
        #expect(interval.current == .seconds(30))
    }

    @Test func anExchangeThatBecameSlowerForGoodIsSoonTheNewMeasure() {
        var interval = Self.interval()
        for _ in 0..<20 { interval.answered(after: .milliseconds(50), points: 5) }
        for _ in 0..<200 { interval.answered(after: .milliseconds(200), points: 5) }
        #expect(interval.current == .seconds(5))
    }

    @Test func anIntervalThatSomebodyChoseNeverChanges() {
        var interval = Self.interval(120, 120)
        for turn in 0..<100 {
            interval.answered(after: .seconds(turn % 2 == 0 ? 1 : 20), points: 5)
        }
        interval.failed()
        #expect(interval.current == .seconds(120))
        #expect(
            interval.pause(after: Self.second, arrivals: 1) == Duration.seconds(
                120)...(.seconds(120)))
        #expect(Self.interval(30, 7).current == .seconds(7), "at most the longest")
    }

    @Test func theShortIntervalCountsFromTheFetchAndVariesByATenth() {
        var interval = Self.interval()
        for _ in 0..<2 { interval.answered(after: .milliseconds(500), points: 5) }
        #expect(
            interval.pause(after: .milliseconds(500), arrivals: 1)
                == Duration.seconds(4)...(.milliseconds(4500)))
        #expect(interval.pause(after: .seconds(60), arrivals: 1) == Duration.zero...(.zero))
    }

    @Test func deliveriesThatBeganTogetherAreSpreadOverHalfAnInterval() {
        var interval = Self.interval()
        interval.answered(after: .milliseconds(500), points: 5)
        #expect(
            interval.pause(after: .milliseconds(500), arrivals: 1)
                == Duration.seconds(2)...(.milliseconds(4500)))
    }

    @Test func aRequestTakesFiveDataPointsAlong() {
        var interval = Self.interval()
        for _ in 0..<2 { interval.answered(after: .milliseconds(20), points: 1) }
        let longest = Duration.seconds(30)...Duration.seconds(30)
        #expect(interval.pause(after: .zero, arrivals: 0.1) == longest, "averages of 10 s")
        #expect(interval.pause(after: .zero, arrivals: 0) == longest, "unknown")
        #expect(interval.pause(after: .zero, arrivals: 0.5).upperBound == .seconds(10))
        #expect(interval.pause(after: .zero, arrivals: 8).upperBound == .seconds(5))
    }
}
