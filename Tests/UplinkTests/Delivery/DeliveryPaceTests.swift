import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// How much a request holds, and how long a delivery waits for the next.
@Suite struct DeliveryPaceTests {
    @Test func slowRequestsShrinkTheBundleAndQuickOnesLetItGrow() {
        var pace = DeliveryPace(DeliverySettings())
        var sizes: [Int] = []
        // 150 ms a sample: what a request takes goes with its size.
        for _ in 0..<4 {
            sizes.append(pace.size)
            pace.took(.milliseconds(150) * pace.size, count: pace.size)
        }
        #expect(sizes == [100, 50, 25, 35])
        for _ in 0..<3 { pace.took(.seconds(1), count: pace.size) }
        #expect(pace.size == 55)
    }

    /// Those that came first kept requests four times as large as the others.
    @Test func deliveriesThatShareAnExchangeAreServedAlike() {
        var paces = Array(repeating: DeliveryPace(DeliverySettings()), count: 8)
        var served = Array(repeating: 0, count: 8)
        // Two workers take 18 ms a sample, and the requests in turn.
        var free = [Duration.zero, .zero]
        var asked = Array(repeating: Duration.zero, count: 8)
        for turn in 0..<60 * 8 {
            let who = turn % 8
            let worker = free[0] <= free[1] ? 0 : 1
            let begin = max(free[worker], asked[who])
            let count = paces[who].size
            free[worker] = begin + .milliseconds(18) * count
            paces[who].took(free[worker] - asked[who], count: count)
            asked[who] = free[worker]
            if turn >= 20 * 8 { served[who] += count }
        }
        #expect((served.max() ?? 0) <= (served.min() ?? 0) * 5 / 4, "\(served)")
    }

    @Test func anExchangeThatIsAlwaysSlowGetsFullBundlesWithoutARest() {
        for seconds in [6, 12, 25] as [Int64] {
            var drive = DeliveryDrive(1000)
            drive.took = .seconds(seconds)
            drive.run { indices, _ in .stored(indices) }
            #expect(drive.delivered.count == 1000)
            // A smaller one shows that size is not what makes it slow.
            #expect(drive.requests.dropFirst(2).dropLast().allSatisfy { $0.indices.count == 100 })
            #expect(drive.now - Uptime.seconds(1_000) <= drive.took * 12)
        }
    }

    @Test(
        "an exchange that takes long for every request never makes samples pile up",
        arguments: [6, 20, 28] as [Int64], [1, 3] as [Int64])
    func slowAndSteady(seconds: Int64, straps: Int64) {
        var delivery = Delivery()
        var now = Uptime.zero
        var settled: Int64 = 0
        func made(_ now: Uptime) -> Int64 { now.microseconds / 1_000_000 * straps }
        var fetched: Int64 = 0
        while now < .seconds(4 * 3600) {
            switch delivery.step(now) {
            case .wait(let until): now = max(until ?? now, now + .microseconds(1))
            case .fetch(let limit):
                fetched = min(Int64(limit), made(now) - settled)
                delivery.fetched(
                    Array(repeating: nil, count: Int(fetched)), hasMore: fetched == Int64(limit),
                    arrivalsPerSecond: Double(straps), now)
            case .send(let indices):
                now += .seconds(seconds)
                settled += Int64(
                    delivery.answered(
                        .stored(indices), took: .seconds(seconds), now
                    ).count)
            default: Issue.record("nothing else is asked for")
            }
        }
        #expect(made(now) - settled < 200 * straps)
    }

    @Test func restsNeverLetMoreBeRecordedThanARequestTakesAlong() {
        var pace = DeliveryPace(DeliverySettings())
        for _ in 0..<5 { pace.took(.seconds(40), count: pace.size) }
        #expect(pace.rest == .seconds(280))
        #expect(pace.size == 25)
        #expect(pace.rest(after: .seconds(40), arrivals: 0) == .seconds(280))
        #expect(pace.rest(after: .seconds(40), arrivals: 1) == .zero)
        #expect(pace.rest(after: .seconds(40), arrivals: 0.1) == .microseconds(182_222_222))
    }

    @Test func theSlowerTheAnswersTheLessABacklogIsMadeSmaller() {
        let pace = DeliveryPace(DeliverySettings())
        #expect(pace.gain(after: .zero) == 2)
        #expect(pace.gain(after: .seconds(5)) == 2)
        #expect(pace.gain(after: .seconds(20)) == 1.25)
        #expect(pace.gain(after: .seconds(60)) > 1.08)
    }

    @Test func slowAnswersAndNoneMakeNoRequestSmallerThanTwentyFive() {
        for answer in [DeliveryAnswer.unanswered("timeout"), .unclear("504")] {
            var drive = DeliveryDrive(1000)
            drive.isHealthy = false
            drive.took = .seconds(60)
            drive.run(for: .seconds(7200)) { _, _ in answer }
            #expect(drive.requests.prefix(4).map(\.indices.count) == [100, 50, 25, 25])
            #expect(drive.requests.allSatisfy { $0.indices.count >= 25 })
        }
        var drive = DeliveryDrive(200)
        drive.took = .seconds(6)
        // A strap's few samples say nothing about larger requests.
        drive.queue = Array(0..<3)
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.delivery.batchSize == 25)
    }

    @Test func howSmallRequestsAreConfiguredOrRefusedIsNotForgottenWhenTheyAreSlow() {
        var settings = DeliverySettings()
        settings.batchSamplesMax = 10
        var small = DeliveryDrive(50, settings: settings)
        small.took = .seconds(6)
        small.run { indices, _ in .stored(indices) }
        #expect(small.requests.map(\.indices.count) == Array(repeating: 10, count: 5))

        var drive = DeliveryDrive(100)
        drive.took = .seconds(6)
        drive.run { indices, _ in indices.count > 1 ? .tooLarge : .stored(indices) }
        #expect(drive.requests.prefix(7).map(\.indices.count) == [100, 50, 25, 12, 6, 3, 1])
        #expect(drive.requests.dropFirst(6).allSatisfy { $0.indices.count == 1 })
        #expect(drive.delivered.count == 100)
    }

    @Test(
        "after a second slow answer the exchange is left to others, by how much too slow it was",
        arguments: [(4, 0), (6, 8), (20, 120), (40, 280), (59, 300)] as [(Int64, Int64)])
    func rest(took: Int64, most: Int64) {
        var settings = DeliverySettings()
        // So few that no smaller request shows whether the exchange is always so.
        settings.batchSamplesMax = DeliveryPace.contendedSize
        for isLongest in [false, true] {
            var drive = DeliveryDrive(200, settings: settings) {
                isLongest ? $0.upperBound : $0.lowerBound
            }
            drive.took = .seconds(took)
            drive.run { indices, _ in .stored(indices) }
            let pauses = zip(drive.requests, drive.requests.dropFirst()).map {
                $1.at - $0.at - drive.took
            }
            #expect(pauses.first == .zero, "one slow answer says nothing")
            #expect(
                pauses.dropFirst().allSatisfy {
                    $0 == .seconds(isLongest ? most : most / 2)
                })
            #expect(drive.delivered.count == 200)
        }
    }

    @Test func aQuickAnswerEndsTheRests() {
        var pace = DeliveryPace(DeliverySettings())
        for _ in 0..<3 { pace.took(.seconds(40), count: pace.size) }
        #expect(pace.rest > .zero)
        pace.took(.seconds(1), count: pace.size)
        #expect(pace.rest == .zero)
    }

    @Test func aTooLargeRequestIsHalvedAtOnceAndTheLimitRemembered() {
        var drive = DeliveryDrive(300)
        drive.run { indices, _ in indices.count > 30 ? .tooLarge : .stored(indices) }
        #expect(drive.requests.prefix(3).map(\.indices.count) == [100, 50, 25])
        #expect(drive.requests.dropFirst(3).allSatisfy { $0.indices.count <= 25 })
        #expect(drive.delivered.count == 300)
        #expect(drive.now < .seconds(1_030))
    }

    /// One spell of 413 made a delivery send one sample a request until the gateway was started again.
    @Test func aLimitIsForgottenWhenTheHoldThatItLedToIsMended() {
        var drive = DeliveryDrive(2_000)
        drive.isMended = false
        drive.run(for: .seconds(600)) { _, _ in .tooLarge }
        #expect(drive.requests.map(\.indices.count) == [100, 50, 25, 12, 6, 3, 1])
        #expect(drive.delivery.holdReason == .requestRefused)
        drive.requests = []
        drive.isMended = true
        drive.run { indices, _ in .stored(indices) }
        let sizes = drive.requests.map(\.indices.count)
        #expect(sizes.prefix(4) == [1, 1, 11, 21])
        #expect(sizes.count { $0 == 100 } > 10)
    }

    @Test func aLimitIsForgottenAfterAnHour() {
        var drive = DeliveryDrive(100)
        drive.run { indices, _ in indices.count > 30 ? .tooLarge : .stored(indices) }
        #expect(drive.delivery.batchSize == 25)
        drive.now += DeliveryPace.limitTime
        drive.queue = Array(100..<1_000)
        drive.requests = []
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.requests.prefix(4).map(\.indices.count) == [25, 35, 45, 55])
        #expect(drive.requests.contains { $0.indices.count == 100 })
    }

    @Test(arguments: [1, 2, 7, 30, 99])
    func aLimitThatStaysCostsOneRefusedRequestAnHour(limit: Int) {
        var pace = DeliveryPace(DeliverySettings())
        var refused: [Uptime] = []
        var now = Uptime.zero
        while now < .seconds(10 * 3_600) {
            pace.forgetOldLimit(now)
            let count = pace.size
            if count > limit {
                refused.append(now)
                pace.wasTooLarge(count, now)
            } else {
                pace.took(.seconds(1), count: count)
            }
            now += .seconds(1)
        }
        #expect(refused.count { $0 >= .seconds(3_600) } <= 9)
        #expect(pace.size * 2 >= limit)
    }

    @Test func aSingleSampleThatIsTooLargeHoldsTheDelivery() {
        var drive = DeliveryDrive(1)
        drive.run(for: .seconds(1)) { _, _ in .tooLarge }
        #expect(drive.delivery.holdReason == .requestRefused)
    }

    @Test(
        "Retry-After is honoured, within bounds",
        arguments: [(nil, 30), (5, 30), (120, 120), (.max, 3600), (-1, 30)] as [(Int64?, Int64)])
    func retryAfter(asked: Int64?, seconds: Int64) {
        var drive = DeliveryDrive(1)
        var isFirst = true
        drive.run { indices, _ in
            defer { isFirst = false }
            return isFirst
                ? .throttled(retryAfter: asked.map { .seconds($0) }) : .stored(indices)
        }
        #expect(drive.requests.count == 2)
        #expect(
            drive.requests[1].at - drive.requests[0].at
                == .seconds(seconds) + drive.took)
    }

    @Test func withoutAConnectionItIsTriedEveryMinuteAtMost() {
        var drive = DeliveryDrive(10)
        drive.run(for: .seconds(600)) { _, _ in .notSent(retryAt: nil) }
        let pauses = zip(drive.requests, drive.requests.dropFirst()).map {
            $1.at - $0.at - drive.took
        }
        #expect(pauses.prefix(6).map { $0 / .seconds(1) } == [5, 10, 20, 40, 60, 60])
        drive.delivery.wake(drive.now)
        let then = drive.now
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.requests.last?.at == then)
    }

    @Test func aWakeDoesNotCutShortThePauseAfterAnUnknownOutcome() {
        var drive = DeliveryDrive(10)
        drive.run(for: .seconds(1)) { _, _ in .unclear("timeout") }
        drive.delivery.wake(drive.now)
        guard case .wait(let until) = drive.delivery.step(drive.now), let until else {
            Issue.record("not waiting")
            return
        }
        #expect(until >= drive.requests[0].at + .seconds(30))
    }
}
