import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// A delivery with an imagined exchange and time of its own.
private struct DeliveryDrive {
    typealias Server = (_ indices: [Int], _ alone: Bool) -> DeliveryAnswer

    var delivery: Delivery
    var now = Uptime.seconds(1_000)
    var requests: [(at: Uptime, indices: [Int], alone: Bool)] = []
    var healthChecks = 0
    var healthTook = Duration.zero
    var outcomes: [Int: SettledSample.Outcome] = [:]
    /// Samples of the queue not settled yet, by number.
    var queue: [Int]
    var fetched: [Int] = []
    /// Samples that come later, one while each request is under way.
    var coming: [Int] = []
    var isHealthy = true
    var isMended = true
    var probes: [Uptime] = []
    var took = Duration.milliseconds(100)
    let quick = Duration.milliseconds(100)
    /// When the request under way was sent, for a server whose answer depends on it.
    let sentAt = Box(Uptime.zero)

    init(
        _ count: Int, settings: DeliverySettings = DeliverySettings(), heldSince: HoldReason? = nil,
        choosing choose: @escaping @Sendable (ClosedRange<Duration>) -> Duration = { $0.upperBound }
    ) {
        delivery = Delivery(settings: settings, heldSince: heldSince, choosing: choose)
        queue = Array(0..<count)
    }

    /// Runs until the queue is empty, nothing happens any more, or the time is over.
    mutating func run(for time: Duration = .seconds(86_400), _ server: Server) {
        let end = now + time
        while now < end {
            switch delivery.step(now) {
            case .wait(let until):
                guard let until, !queue.isEmpty else { return }
                #expect(until > now)
                now = min(until, end)
            case .fetch(let limit):
                fetched = Array(queue.prefix(limit))
                delivery.fetched(
                    fetched.map { _ in nil }, hasMore: fetched.count >= limit, now)
            case .send(let indices): request(indices, false, server)
            case .sendAlone(let index): request([index], true, server)
            case .checkHealth:
                healthChecks += 1
                now += healthTook
                take(delivery.checked(isHealthy: isHealthy, now))
            case .probe:
                probes.append(now)
                delivery.probed(isMended: isMended, now)
            case .fetchTrial, .probePatient:
                Issue.record("this delivery has one patient")
                return
            }
        }
    }

    private mutating func request(_ indices: [Int], _ alone: Bool, _ server: Server) {
        #expect(delivery.step(now) == .wait(until: nil), "one request at a time")
        let numbers = indices.map { fetched[$0] }
        requests.append((now, numbers, alone))
        sentAt.set(now)
        let answer = server(numbers, alone)
        if !coming.isEmpty { queue.append(coming.removeFirst()) }
        now += took
        take(delivery.answered(answer, took: took, now))
    }

    private mutating func take(_ resolved: [Delivery.Resolved]) {
        for one in resolved {
            outcomes[fetched[one.index]] = one.outcome
            queue.removeAll { $0 == fetched[one.index] }
        }
    }

    var delivered: [Int] {
        outcomes.filter { $0.value == .delivered }.keys.sorted()
    }
}

@Suite struct DeliveryTests {
    private static func answer(_ status: Int, _ text: String = "") -> EntryAnswer {
        EntryAnswer(status: status, diagnostics: text, endpoint: .bundle)
    }

    private static func stored(_ indices: [Int]) -> DeliveryAnswer {
        .entries(indices.map { _ in answer(201) })
    }

    @Test func aBacklogGoesOutOldestFirstInBundlesOfAHundred() {
        var drive = DeliveryDrive(250)
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.requests.map(\.indices.count) == [100, 100, 50])
        #expect(drive.requests.flatMap(\.indices) == Array(0..<250))
        #expect(drive.delivered == Array(0..<250))
        #expect(drive.now == Uptime.seconds(1_000) + drive.took * 3, "without a rest")
    }

    @Test func behindTheLastOfABacklogTheDeliveryRestsForItsInterval() {
        var settings = DeliverySettings()
        settings.interval = .seconds(7)
        var drive = DeliveryDrive(105, settings: settings)
        drive.coming = [105, 106, 107]
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.requests.map(\.indices.count) == [100, 6, 1, 1])
        let pauses = zip(drive.requests, drive.requests.dropFirst()).map {
            $1.at - $0.at - drive.took
        }
        #expect(pauses == [.zero, .seconds(7), .seconds(7)])
    }

    @Test func aWakeEndsTheRestBetweenDeliveries() {
        var delivery = Delivery()
        _ = delivery.step(.zero)
        delivery.fetched([nil], hasMore: false, .zero)
        _ = delivery.step(.zero)
        _ = delivery.answered(Self.stored([0]), took: .microseconds(1), .microseconds(1))
        #expect(delivery.state == .idle)
        #expect(delivery.step(.microseconds(1)) == .wait(until: .microseconds(30_000_001)))
        delivery.wake(.microseconds(2))
        #expect(delivery.step(.microseconds(2)) == .fetch(limit: 100))
    }

    @Test func anEmptyQueueIsReadAgainLaterOrWhenWoken() {
        var delivery = Delivery()
        #expect(delivery.step(.zero) == .fetch(limit: 100))
        delivery.fetched([], hasMore: false, .zero)
        #expect(delivery.step(.zero) == .wait(until: .seconds(30)))
        delivery.wake(.microseconds(5))
        #expect(delivery.step(.microseconds(5)) == .fetch(limit: 100))
    }

    @Test func aRequestThatAnEarlierRunNeverSawAnsweredRestsItsThirtySeconds() {
        var delivery = Delivery(unansweredSince: .seconds(10))
        #expect(delivery.step(.seconds(12)) == .wait(until: .seconds(40)))
        delivery.wake(.seconds(13))
        #expect(delivery.step(.seconds(13)) == .wait(until: .seconds(40)))
        #expect(delivery.step(.seconds(40)) == .fetch(limit: 100))
    }

    @Test func whatIsNotWantedIsSettledAndHoldsNothing() {
        var delivery = Delivery()
        _ = delivery.step(.zero)
        delivery.fetched([nil, nil], hasMore: true, .zero)
        #expect(delivery.step(.zero) == .send([0, 1]))
        let resolved = delivery.answered(
            .entries([Self.answer(201), EntryAnswer(.notWanted)]), took: .microseconds(1),
            .microseconds(1))
        #expect(
            resolved == [
                Delivery.Resolved(index: 0, outcome: .delivered),
                Delivery.Resolved(index: 1, outcome: .dropped(reason: Delivery.notConsented)),
            ])
        #expect(delivery.holdReason == nil)
        #expect(delivery.step(.microseconds(1)) == .fetch(limit: 100))
    }

    @Test func samplesWithheldByPolicyNeedNoRequest() {
        var delivery = Delivery()
        #expect(delivery.step(.zero) == .fetch(limit: 100))
        delivery.fetched(
            [.dropped(reason: "zeroRate"), nil, .dropped(reason: "zeroRate")], hasMore: true, .zero)
        #expect(delivery.step(.zero) == .send([1]))
        _ = delivery.answered(Self.stored([1]), took: .microseconds(1), .microseconds(1))
        #expect(delivery.step(.microseconds(1)) == .fetch(limit: 100))
        delivery.fetched([.dropped(reason: "zeroRate")], hasMore: true, .microseconds(1))
        #expect(delivery.step(.microseconds(1)) == .fetch(limit: 100))
        delivery.fetched([.dropped(reason: "zeroRate")], hasMore: false, .microseconds(2))
        #expect(delivery.step(.microseconds(2)) == .wait(until: .microseconds(30_000_002)))
    }

    @Test(
        "after an unknown outcome the same samples go out again, 30 s later or more, and within a minute",
        arguments: ["timeout", "cut", "miscounted", "500"])
    func unclear(word: String) {
        var drive = DeliveryDrive(30)
        var failures = 2
        drive.run { indices, _ in
            failures -= 1
            return failures >= 0 ? .unclear(word) : Self.stored(indices)
        }
        #expect(drive.requests.map(\.indices) == Array(repeating: Array(0..<30), count: 3))
        let ends = drive.requests.map { $0.at + drive.took }
        #expect(drive.requests[1].at - ends[0] == .seconds(30))
        #expect(drive.requests[2].at - ends[1] == .seconds(50))
        #expect(drive.delivered.count == 30)
    }

    @Test(
        "chance spreads the pauses over 30 s and shortens none below it",
        arguments: [
            .unclear("500"), .throttled(retryAfter: nil), .unanswered("cut"),
            .notSent(retryAt: nil),
        ] as [DeliveryAnswer])
    func jitter(answer: DeliveryAnswer) {
        let asked = Box<[ClosedRange<Duration>]>([])
        for chosen in [Duration.seconds(Int64.min), .zero, .seconds(45), .seconds(Int64.max)] {
            var drive = DeliveryDrive(3) { range in
                asked.change { $0.append(range) }
                return chosen
            }
            drive.isHealthy = false
            drive.run(for: .seconds(3600)) { _, _ in answer }
            let pauses = zip(drive.requests, drive.requests.dropFirst()).map {
                $1.at - $0.at - drive.took
            }
            let isNotSent = answer == .notSent(retryAt: nil)
            let steady = pauses.dropFirst(4)
            let longest = Duration.seconds(isNotSent ? 60 : 50)
            let expected = min(max(chosen, .seconds(30)), longest)
            #expect(steady.allSatisfy { $0 == expected })
            #expect(pauses.first == .seconds(isNotSent ? 5 : 30))
        }
        #expect(!asked.now.isEmpty)
        #expect(asked.now.allSatisfy { $0.lowerBound == .seconds(30) })
    }

    @Test func aServersRetryAfterIsNeverShortened() {
        var drive = DeliveryDrive(3) { $0.lowerBound }
        drive.run(for: .seconds(600)) { _, _ in .throttled(retryAfter: .seconds(120)) }
        let pauses = zip(drive.requests, drive.requests.dropFirst()).map { $1.at - $0.at }
        #expect(!pauses.isEmpty && pauses.allSatisfy { $0 >= .seconds(120) })
    }

    @Test func samplesThatArriveDuringABackoffWaitForTheResend() {
        var drive = DeliveryDrive(3)
        var isFirst = true
        drive.run(for: .seconds(10)) { _, _ in .unclear("timeout") }
        drive.queue += [3, 4]
        drive.run { indices, _ in
            defer { isFirst = false }
            if isFirst { #expect(indices == [0, 1, 2]) }
            return Self.stored(indices)
        }
        #expect(drive.delivered == [0, 1, 2, 3, 4])
    }

    @Test func anAnswerWithTooFewEntriesMarksNothingDelivered() {
        var drive = DeliveryDrive(5)
        drive.run(for: .seconds(5)) { indices, _ in Self.stored(Array(indices.dropLast())) }
        #expect(drive.outcomes.isEmpty)
        guard case .backoff = drive.delivery.state else {
            Issue.record("\(drive.delivery.state)")
            return
        }
    }

    @Test func onlyUnclearEntriesAreSentAgain() {
        var drive = DeliveryDrive(4)
        drive.run { indices, _ in
            indices.count == 4
                ? .entries([
                    Self.answer(201), Self.answer(422, "connection already closed"),
                    Self.answer(409, "Identifier already exists"), Self.answer(422, "connection"),
                ]) : Self.stored(indices)
        }
        #expect(drive.requests.map(\.indices) == [[0, 1, 2, 3], [1, 3]])
        #expect(drive.requests[1].at - drive.requests[0].at >= .seconds(30))
        #expect(drive.delivered == [0, 1, 2, 3])
    }

    @Test func refusedEntriesDieAndTheOthersAreDelivered() {
        var drive = DeliveryDrive(3)
        drive.run { indices, _ in
            .entries(
                indices.map {
                    $0 == 1 ? Self.answer(422, "{'omh_data': ['bad']}") : Self.answer(201)
                })
        }
        #expect(drive.delivered == [0, 2])
        #expect(
            drive.outcomes[1]
                == .dead(reason: "refused-422", diagnostics: "{'omh_data': ['bad']}"))
    }

    // MARK: - Poison

    /// Fails bundles that hold poison, and gives the reason alone or just 500.
    private static func poisoned(_ poison: Set<Int>, honest: Bool = true) -> DeliveryDrive.Server {
        { indices, alone in
            guard !poison.isDisjoint(with: indices) else { return stored(indices) }
            return alone && honest
                ? .entries([EntryAnswer(status: 400, diagnostics: "__root__", endpoint: .single)])
                : .unclear("500")
        }
    }

    @Test(
        "one poisonous sample among a hundred is found in fewer than 25 requests",
        arguments: [0, 1, 37, 49, 50, 51, 98], [true, false])
    func poison(position: Int, honest: Bool) {
        var drive = DeliveryDrive(100)
        drive.run(Self.poisoned([position], honest: honest))
        #expect(drive.requests.count + drive.healthChecks < 25)
        #expect(drive.delivered.count == 99)
        let outcome = drive.outcomes[position]
        #expect(
            outcome
                == (honest
                    ? .dead(reason: "refused-400", diagnostics: "__root__")
                    : .dead(reason: "refused-without-reason", diagnostics: "500")))
        #expect(drive.delivery.state == .idle)
    }

    @Test func everyPoisonIsFoundAndEveryOtherSampleDelivered() {
        var random = SeededRandom(seed: 5)
        for _ in 0..<100 {
            let count = Int.random(in: 2...100, using: &random)
            let poison = Set(
                (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    Int.random(in: 0..<count, using: &random)
                })
            guard poison.count < count else { continue }
            var drive = DeliveryDrive(count)
            let server = Self.poisoned(poison, honest: Bool.random(using: &random))
            drive.run(for: .seconds(7200), server)
            // The last of all can only be judged by others behind it.
            drive.queue += Array(count..<count + 200)
            drive.run(server)
            #expect(Set(drive.delivered) == Set(0..<count + 200).subtracting(poison))
            #expect(drive.outcomes.count == count + 200)
        }
    }

    @Test func duringAHalvingSamplesThatFailedRestForHalfAMinute() {
        var drive = DeliveryDrive(100)
        drive.run(Self.poisoned([42]))
        var lastSent: [Int: Uptime] = [:]
        for request in drive.requests {
            for index in request.indices {
                if let last = lastSent[index] {
                    #expect(request.at - last >= .seconds(30))
                }
                lastSent[index] = request.at
            }
        }
    }

    @Test func anExchangeThatTakesNothingIsHeldAndNothingDies() {
        var drive = DeliveryDrive(100)
        drive.run(for: .seconds(3600)) { _, _ in .unclear("500") }
        #expect(drive.outcomes.isEmpty)
        #expect(!drive.probes.isEmpty)
        drive.isMended = true
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.delivered.count == 100)
    }

    @Test func aSinglePoisonousSampleWaitsForOthersToProveTheExchangeWell() {
        var drive = DeliveryDrive(1)
        drive.run(for: .seconds(1200), Self.poisoned([0], honest: false))
        #expect(drive.outcomes.isEmpty)
        drive.queue += [1, 2]
        drive.run(Self.poisoned([0], honest: false))
        #expect(drive.delivered == [1, 2])
        #expect(drive.outcomes[0] == .dead(reason: "refused-without-reason", diagnostics: "500"))
    }

    @Test func aDatabaseThatCannotWriteCostsNoSampleWheneverItRecovers() {
        for count in [1, 2, 3, 60] {
            for seconds in stride(from: 10 as Int64, through: 1200, by: 35) {
                var drive = DeliveryDrive(count)
                let end = drive.now + .seconds(seconds)
                let sentAt = drive.sentAt
                var firstAfter: Uptime?
                drive.run(for: .seconds(7200)) { indices, alone in
                    guard sentAt.now < end else {
                        firstAfter = firstAfter ?? sentAt.now
                        return Self.stored(indices)
                    }
                    return .entries(
                        indices.map { _ in
                            EntryAnswer(
                                status: 422, diagnostics: "cannot execute INSERT",
                                endpoint: alone ? .single : .bundle)
                        })
                }
                #expect(drive.delivered == Array(0..<count), "\(count) samples, \(seconds) s")
                #expect(firstAfter.map { $0 - end <= .seconds(60) } == true)
            }
        }
    }

    @Test func anExchangeThatFailsInTheMiddleOfABatchMakesNoDeadLetters() {
        for works in [1, 5, 20, 60, 99] {
            var drive = DeliveryDrive(100)
            var stored: Set<Int> = []
            drive.isHealthy = true
            // It stores some samples, and from then on nothing; and it says that it is well.
            drive.run(for: .seconds(4 * 3600)) { indices, _ in
                if stored.union(indices).count > works { return .unclear("500") }
                stored.formUnion(indices)
                return Self.stored(indices)
            }
            #expect(drive.outcomes.values.allSatisfy { $0 == .delivered })
            drive.run { indices, _ in
                .entries(
                    indices.map {
                        stored.contains($0)
                            ? Self.answer(409, "Identifier already exists") : Self.answer(201)
                    })
            }
            #expect(drive.delivered == Array(0..<100))
        }
    }

    @Test func aSuspectIsTriedOnceMoreAfterTheOthersWentThrough() {
        var drive = DeliveryDrive(40)
        var failuresAlone = 0
        // It fails while sample 7 is looked for, and recovers when that one was singled out.
        drive.run { indices, alone in
            guard indices.contains(7), failuresAlone < 3 else { return Self.stored(indices) }
            if alone { failuresAlone += 1 }
            return .unclear("500")
        }
        #expect(drive.delivered == Array(0..<40))
    }

    @Test func aDeadLetterHasTheExchangesOwnWords() {
        var drive = DeliveryDrive(20)
        drive.run { indices, alone in
            .entries(
                indices.map {
                    $0 == 3
                        ? EntryAnswer(
                            status: 422, diagnostics: "value out of range",
                            endpoint: alone ? .single : .bundle) : Self.answer(201)
                })
        }
        #expect(drive.delivered == Array(0..<20).filter { $0 != 3 })
        #expect(
            drive.outcomes[3] == .dead(reason: "refused-422", diagnostics: "value out of range"))
    }

    @Test func whatFailsIsCountedUntilSomethingIsDeliveredOrHeld() {
        var drive = DeliveryDrive(3)
        drive.run(for: .seconds(100)) { _, _ in .unclear("502") }
        #expect(drive.delivery.trouble?.since == .seconds(1_000))
        #expect((drive.delivery.trouble?.attempts ?? 0) >= 2)
        #expect(drive.delivery.latestDelivery == nil)
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.delivery.trouble == nil)
        #expect(drive.delivery.latestDelivery == drive.now)
        for answer in [
            DeliveryAnswer.notSent(retryAt: nil), .throttled(retryAfter: nil),
            .unanswered("timeout"), .entries([]),
            .entries(Array(repeating: Self.answer(422, "read-only"), count: 3)),
        ] {
            var drive = DeliveryDrive(3)
            drive.run(for: .seconds(100)) { _, _ in answer }
            #expect((drive.delivery.trouble?.attempts ?? 0) >= 2, "\(answer)")
        }
        drive = DeliveryDrive(3)
        drive.isMended = false
        drive.run(for: .seconds(100)) { _, _ in .held(.noConsent, retryAt: nil) }
        #expect(drive.delivery.trouble == nil)
    }

    @Test func aGoodSampleWhoseAnswersGetLostIsNotGivenUp() {
        for losses in [1, 9] {
            var drive = DeliveryDrive(8)
            var left = losses
            drive.run { indices, alone in
                if !alone { return indices.contains(5) ? .malformed : Self.stored(indices) }
                guard indices == [5] else { return Self.stored(indices) }
                left -= 1
                return left >= 0 ? .unanswered("cut") : Self.stored(indices)
            }
            #expect(drive.delivered == Array(0..<8))
        }
    }

    @Test func aSampleThatFailsAloneWhileTheExchangeIsIllIsNotGivenUp() {
        var drive = DeliveryDrive(8)
        drive.isHealthy = false
        drive.run(for: .seconds(3600)) { indices, alone in
            if !alone { return indices.contains(5) ? .malformed : Self.stored(indices) }
            return indices == [5] ? .unclear("504") : Self.stored(indices)
        }
        #expect(drive.healthChecks > 3)
        #expect(drive.outcomes[5] == nil)
        drive.isHealthy = true
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.delivered == Array(0..<8))
    }

    @Test func anUnhealthyExchangeIsWaitedForNotHalved() {
        var drive = DeliveryDrive(100)
        drive.isHealthy = false
        drive.run(for: .seconds(7200)) { _, _ in .unclear("500") }
        #expect(drive.requests.allSatisfy { $0.indices.count == 100 })
        #expect(drive.outcomes.isEmpty)
        let pauses = zip(drive.requests, drive.requests.dropFirst()).map { $1.at - $0.at }
        #expect(pauses.max() == .seconds(50) + drive.took)
    }

    @Test func anExchangeThatIsTooBusyToAnswerIsSparedForFiveMinutes() {
        var drive = DeliveryDrive(100)
        drive.isHealthy = false
        drive.took = .seconds(60)
        drive.run(for: .seconds(7200)) { _, _ in .unanswered("timeout") }
        let pauses = zip(drive.requests, drive.requests.dropFirst()).map { $1.at - $0.at }
        #expect(pauses.max() == .seconds(300) + drive.took)
    }

    @Test func anExchangeThatHungIsDeliveredToWithinAMinuteAfterItWorksAgain() {
        for minutes in Int64(1)...40 {
            var drive = DeliveryDrive(100)
            let began = drive.now
            let back = began + .seconds(minutes * 60)
            drive.isHealthy = false
            drive.healthTook = .seconds(10)
            drive.took = .seconds(60)
            drive.run(for: back - began) { _, _ in .unanswered("timeout") }
            let (hungUntil, sent) = (drive.now, drive.requests.count)
            drive.isHealthy = true
            drive.healthTook = drive.quick
            drive.took = drive.quick
            drive.run { indices, _ in Self.stored(indices) }
            #expect(drive.delivered.count == 100)
            let asked = drive.requests[sent].at - hungUntil
            #expect(asked <= .seconds(60), "after \(minutes) min")
            let sends = drive.requests.prefix(sent + 1).map(\.at)
            let pauses = zip(sends, sends.dropFirst()).map { $1 - $0 }
            #expect(pauses.allSatisfy { $0 >= .seconds(90) }, "it may be at work for 30 s")
        }
    }

    @Test func anExchangeThatAnswersALookSlowlyIsNotAskedForMore() {
        var settings = DeliverySettings()
        settings.failuresMax = .max
        var drive = DeliveryDrive(100, settings: settings)
        drive.healthTook = .seconds(6)
        drive.took = .seconds(60)
        drive.run(for: .seconds(1200)) { _, _ in .unanswered("timeout") }
        let pauses = zip(drive.requests, drive.requests.dropFirst()).map { $1.at - $0.at }
        #expect(pauses.max() == .seconds(300) + drive.took, "\(pauses)")
    }

    @Test func aRequestRefusedAsMalformedIsHalvedAtOnce() {
        var drive = DeliveryDrive(8)
        drive.run { indices, alone in
            guard indices.contains(3) else { return Self.stored(indices) }
            return alone
                ? .entries([EntryAnswer(status: 400, diagnostics: "x", endpoint: .single)])
                : .malformed
        }
        #expect(drive.delivered == [0, 1, 2, 4, 5, 6, 7])
        #expect(drive.requests.count < 10)
        #expect(drive.healthChecks == 0)
    }

    // MARK: - Pace

    @Test func slowRequestsShrinkTheBundleAndQuickOnesLetItGrow() {
        var pace = DeliveryPace(DeliverySettings())
        var sizes: [Int] = []
        // 150 ms a sample: what a request takes goes with its size.
        for _ in 0..<4 {
            sizes.append(pace.size)
            pace.took(.milliseconds(150) * pace.size, count: pace.size)
        }
        #expect(sizes == [100, 50, 25, 25])
        for _ in 0..<3 { pace.took(.seconds(1), count: pace.size) }
        #expect(pace.size == 55)
    }

    @Test func anExchangeThatIsAlwaysSlowGetsFullBundlesWithoutARest() {
        for seconds in [6, 12, 25] as [Int64] {
            var drive = DeliveryDrive(1000)
            drive.took = .seconds(seconds)
            drive.run { indices, _ in Self.stored(indices) }
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
                        Self.stored(indices), took: .seconds(seconds), now
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
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.delivery.batchSize == 25)
    }

    @Test func howSmallRequestsAreConfiguredOrRefusedIsNotForgottenWhenTheyAreSlow() {
        var settings = DeliverySettings()
        settings.batchSamplesMax = 10
        var small = DeliveryDrive(50, settings: settings)
        small.took = .seconds(6)
        small.run { indices, _ in Self.stored(indices) }
        #expect(small.requests.map(\.indices.count) == Array(repeating: 10, count: 5))

        var drive = DeliveryDrive(100)
        drive.took = .seconds(6)
        drive.run { indices, _ in indices.count > 1 ? .tooLarge : Self.stored(indices) }
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
            drive.run { indices, _ in Self.stored(indices) }
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
        drive.run { indices, _ in indices.count > 30 ? .tooLarge : Self.stored(indices) }
        #expect(drive.requests.prefix(3).map(\.indices.count) == [100, 50, 25])
        #expect(drive.requests.dropFirst(3).allSatisfy { $0.indices.count <= 25 })
        #expect(drive.delivered.count == 300)
        #expect(drive.now < .seconds(1_030))
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
                ? .throttled(retryAfter: asked.map { .seconds($0) }) : Self.stored(indices)
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
        drive.run { indices, _ in Self.stored(indices) }
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

    // MARK: - Holds

    @Test(
        "a reason a person can mend holds the delivery, loses nothing, and drains in order when mended",
        arguments: [
            (403, "has not been consented", HoldReason.noConsent),
            (403, "The Subject Patient does not match the current user.", .wrongPatient),
            (400, "Device Data Source id=7 can not be found.", .deviceUnknown),
            (400, "Patient id=7 can not be found.", .patientUnknown),
            (400, "Code not found: x", .codeUnknown),
        ])
    func hold(status: Int, text: String, reason: HoldReason) {
        var drive = DeliveryDrive(150)
        drive.isMended = false
        drive.run(for: .seconds(600)) { indices, _ in
            .entries(indices.map { _ in Self.answer(status, text) })
        }
        #expect(drive.delivery.holdReason == reason)
        #expect(drive.requests.count == 1)
        #expect((9...10).contains(drive.probes.count))
        #expect(drive.outcomes.isEmpty)

        drive.isMended = true
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.delivery.holdReason == nil)
        #expect(drive.requests.dropFirst().map(\.indices.count) == [1, 100, 49])
        #expect(drive.requests.dropFirst().flatMap(\.indices) == Array(0..<150))
    }

    @Test func aMendedHoldThatIsNotMendedCostsOneSampleAMinute() {
        var drive = DeliveryDrive(150)
        drive.run(for: .seconds(600)) { indices, _ in
            .entries(indices.map { _ in Self.answer(403, "has not been consented") })
        }
        #expect(drive.requests.dropFirst().allSatisfy { $0.indices == [0] })
        #expect(drive.requests.count <= 11)
    }

    @Test func entriesTakenBesideAHeldOneAreDelivered() {
        var drive = DeliveryDrive(3)
        drive.isMended = false
        drive.run(for: .seconds(1)) { _, _ in
            .entries([
                Self.answer(201), Self.answer(403, "has not been consented"), Self.answer(201),
            ])
        }
        #expect(drive.delivered == [0, 2])
        #expect(drive.delivery.holdReason == .noConsent)
    }

    @Test func aLostEnrollmentIsLookedAtWhenTheTokensSay() {
        var drive = DeliveryDrive(1)
        drive.isMended = false
        let retry = drive.now + .seconds(3600)
        drive.run(for: .seconds(3700)) { _, _ in
            .held(.enrollAgain, retryAt: retry)
        }
        #expect(drive.delivery.holdReason == .enrollAgain)
        #expect(drive.probes.first == retry)
    }

    @Test func aHoldOutlivesARestartAndIsLookedAtFirst() {
        var drive = DeliveryDrive(5, heldSince: .noConsent)
        drive.run { indices, _ in Self.stored(indices) }
        #expect(drive.probes.count == 1)
        #expect(drive.requests.map(\.indices.count) == [1, 4])
    }

    @Test func aStoreThatFailsIsTriedAgainLater() {
        var delivery = Delivery()
        #expect(delivery.step(.zero) == .fetch(limit: 100))
        delivery.storeFailed(.zero)
        #expect(delivery.step(.zero) == .wait(until: .seconds(30)))
        #expect(delivery.step(.seconds(30)) == .fetch(limit: 100))
        delivery.storeFailed(.seconds(30))
        #expect(delivery.step(.seconds(30)) == .wait(until: .seconds(80)))
    }
}
