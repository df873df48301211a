import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct DeliveryTests {
    @Test func aBacklogGoesOutOldestFirstInBundlesOfAHundred() {
        var drive = DeliveryDrive(250)
        drive.run { indices, _ in .stored(indices) }
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
        drive.run { indices, _ in .stored(indices) }
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
        _ = delivery.answered(.stored([0]), took: .microseconds(1), .microseconds(1))
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

    /// A hold that was mended at once sent the samples again while the exchange could still be working on them.
    @Test func aHoldThatIsOverDoesNotMakeUpForTheRestAfterAnUnansweredRequest() {
        var delivery = Delivery(heldSince: .exchangeFault, unansweredSince: .seconds(10))
        #expect(delivery.step(.seconds(12)) == .probe(.exchangeFault))
        delivery.probed(isMended: true, .seconds(13))
        #expect(delivery.step(.seconds(13)) == .wait(until: .seconds(40)))
        delivery.wake(.seconds(14))
        let fetches = delivery.samplesCommitted(turn: .zero, .seconds(15))
        #expect(!fetches)
        #expect(delivery.step(.seconds(15)) == .wait(until: .seconds(40)))
        #expect(delivery.step(.seconds(40)) == .fetch(limit: 100))
    }

    @Test(arguments: [DeliveryAnswer.unanswered("no answer in time"), .unclear("504")])
    func aHoldRightAfterAnUnclearAnswerIsNotEndedSoonerThanItsRest(answer: DeliveryAnswer) throws {
        var settings = DeliverySettings()
        settings.halvingFailuresMax = 1
        var drive = DeliveryDrive(2, settings: settings)
        while drive.delivery.holdReason == nil, drive.requests.count < 20 {
            drive.run(for: .seconds(1)) { _, _ in answer }
        }
        #expect(drive.delivery.holdReason == .exchangeFault)
        let last = try #require(drive.requests.last)
        drive.requests = []
        drive.delivery.wake(drive.now)
        drive.run { indices, _ in .stored(indices) }
        let next = try #require(drive.requests.first)
        #expect(next.at >= last.at + drive.took + .seconds(30))
        #expect(next.at < last.at + .seconds(60), "the hold was looked at when it was woken")
        #expect(drive.delivered == [0, 1])
    }

    /// A table that was locked for 330 s stored one sample six times: each resend left an insert behind it.
    @Test func afterAnUnansweredRequestNothingIsSentBeforeTheDestinationAnswers() throws {
        var drive = DeliveryDrive(3, mayRace: true)
        let unlocked = drive.now + .seconds(330)
        drive.isSilenceOver = { $0 >= unlocked }
        // Whatever it says of itself meanwhile, from other tables.
        drive.isHealthy = false
        let took = Duration.seconds(60)
        drive.took = took
        drive.run(for: .seconds(100)) { _, _ in .unanswered("no answer in time") }
        #expect(drive.requests.count == 1)
        drive.took = drive.quick
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.requests.map(\.indices) == [[0, 1, 2], [0, 1, 2]])
        #expect(drive.requests[1].at >= unlocked)
        #expect(drive.requests[1].at < unlocked + .seconds(60))
        #expect((4...10).contains(drive.silenceChecks.count))
        for (one, next) in zip(drive.silenceChecks, drive.silenceChecks.dropFirst()) {
            #expect(next - one >= .seconds(30))
        }
        #expect(drive.delivered == [0, 1, 2])
    }

    /// An earlier run sent a request and was killed: the same holds for it.
    @Test func aRequestOfAnEarlierRunIsAskedForBeforeItsSamplesGoOut() {
        var delivery = Delivery(unansweredSince: .seconds(10), mayRace: true)
        #expect(delivery.step(.seconds(12)) == .wait(until: .seconds(40)))
        #expect(delivery.step(.seconds(40)) == .checkSilence)
        #expect(delivery.step(.seconds(41)) == .wait(until: nil))
        delivery.checkedSilence(isOver: false, .seconds(50))
        delivery.wake(.seconds(51))
        guard case .wait = delivery.step(.seconds(52)) else {
            Issue.record("it does not wait")
            return
        }
        #expect(delivery.step(.seconds(100)) == .checkSilence)
        delivery.checkedSilence(isOver: false, .seconds(101))
        #expect(delivery.trouble == .init(since: .seconds(40), attempts: 2))
        #expect(delivery.step(.seconds(150)) == .checkSilence)
        delivery.checkedSilence(isOver: true, .seconds(151))
        #expect(delivery.step(.seconds(151)) == .fetch(limit: 100))
        // What waited was given up meanwhile.
        delivery.fetched([], hasMore: false, .seconds(152))
        #expect(delivery.trouble == nil)
    }

    /// The connection was missing before, so that a wake ended every pause.
    @Test func aWakeDoesNotEndTheRestOfARequestWhoseTaskIsGone() {
        var delivery = Delivery()
        _ = delivery.step(.zero)
        delivery.fetched([nil], hasMore: false, .zero)
        #expect(delivery.step(.zero) == .send([0]))
        _ = delivery.answered(.notSent(retryAt: nil), took: .zero, .zero)
        #expect(delivery.step(.seconds(5)) == .send([0]))
        delivery.resume(.seconds(6))
        delivery.wake(.seconds(7))
        #expect(delivery.step(.seconds(7)) == .wait(until: .seconds(36)))
    }

    @Test func whatIsNotWantedIsSettledAndHoldsNothing() {
        var delivery = Delivery()
        _ = delivery.step(.zero)
        delivery.fetched([nil, nil], hasMore: true, .zero)
        #expect(delivery.step(.zero) == .send([0, 1]))
        let resolved = delivery.answered(
            .entries([.entry(201), EntryAnswer(.notWanted(.noConsent))]), took: .microseconds(1),
            .microseconds(1))
        #expect(
            resolved == [
                Delivery.Resolved(index: 0, outcome: .delivered),
                Delivery.Resolved(index: 1, outcome: .dropped(reason: "no-consent")),
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
        _ = delivery.answered(.stored([1]), took: .microseconds(1), .microseconds(1))
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
            return failures >= 0 ? .unclear(word) : .stored(indices)
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
            return .stored(indices)
        }
        #expect(drive.delivered == [0, 1, 2, 3, 4])
    }

    @Test func anAnswerWithTooFewEntriesMarksNothingDelivered() {
        var drive = DeliveryDrive(5)
        drive.run(for: .seconds(5)) { indices, _ in .stored(Array(indices.dropLast())) }
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
                    .entry(201), .entry(422, "connection already closed"),
                    .entry(409, "Identifier already exists"), .entry(422, "connection"),
                ]) : .stored(indices)
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
                    $0 == 1 ? .entry(422, "{'omh_data': ['bad']}") : .entry(201)
                })
        }
        #expect(drive.delivered == [0, 2])
        #expect(
            drive.outcomes[1]
                == .dead(reason: "refused-422", diagnostics: "{'omh_data': ['bad']}"))
    }

    @Test func whatFailsIsCountedUntilSomethingIsDeliveredOrHeld() {
        var drive = DeliveryDrive(3)
        drive.run(for: .seconds(100)) { _, _ in .unclear("502") }
        #expect(drive.delivery.trouble?.since == .seconds(1_000))
        #expect((drive.delivery.trouble?.attempts ?? 0) >= 2)
        drive.run { indices, _ in .stored(indices) }
        #expect(drive.delivery.trouble == nil)
        for answer in [
            DeliveryAnswer.notSent(retryAt: nil), .throttled(retryAfter: nil),
            .unanswered("timeout"), .entries([]),
            .entries(Array(repeating: .entry(422, "read-only"), count: 3)),
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
