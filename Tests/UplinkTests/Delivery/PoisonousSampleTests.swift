import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// Samples that an exchange refuses, found among those that it takes.
@Suite struct PoisonousSampleTests {
    /// Fails bundles that hold poison, and gives the reason alone or just 500.
    private static func poisoned(_ poison: Set<Int>, honest: Bool = true) -> DeliveryDrive.Server {
        { indices, alone in
            guard !poison.isDisjoint(with: indices) else { return .stored(indices) }
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
        drive.run { indices, _ in .stored(indices) }
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
                        return .stored(indices)
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
                return .stored(indices)
            }
            #expect(drive.outcomes.values.allSatisfy { $0 == .delivered })
            drive.run { indices, _ in
                .entries(
                    indices.map {
                        stored.contains($0)
                            ? .entry(409, "Identifier already exists") : .entry(201)
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
            guard indices.contains(7), failuresAlone < 3 else { return .stored(indices) }
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
                            endpoint: alone ? .single : .bundle) : .entry(201)
                })
        }
        #expect(drive.delivered == Array(0..<20).filter { $0 != 3 })
        #expect(
            drive.outcomes[3] == .dead(reason: "refused-422", diagnostics: "value out of range"))
    }

    @Test func aGoodSampleWhoseAnswersGetLostIsNotGivenUp() {
        for losses in [1, 9] {
            var drive = DeliveryDrive(8)
            var left = losses
            drive.run { indices, alone in
                if !alone { return indices.contains(5) ? .malformed : .stored(indices) }
                guard indices == [5] else { return .stored(indices) }
                left -= 1
                return left >= 0 ? .unanswered("cut") : .stored(indices)
            }
            #expect(drive.delivered == Array(0..<8))
        }
    }

    @Test func aSampleThatFailsAloneWhileTheExchangeIsIllIsNotGivenUp() {
        var drive = DeliveryDrive(8)
        drive.isHealthy = false
        drive.run(for: .seconds(3600)) { indices, alone in
            if !alone { return indices.contains(5) ? .malformed : .stored(indices) }
            return indices == [5] ? .unclear("504") : .stored(indices)
        }
        #expect(drive.healthChecks > 3)
        #expect(drive.outcomes[5] == nil)
        drive.isHealthy = true
        drive.run { indices, _ in .stored(indices) }
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
            drive.run { indices, _ in .stored(indices) }
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
            guard indices.contains(3) else { return .stored(indices) }
            return alone
                ? .entries([EntryAnswer(status: 400, diagnostics: "x", endpoint: .single)])
                : .malformed
        }
        #expect(drive.delivered == [0, 1, 2, 4, 5, 6, 7])
        #expect(drive.requests.count < 10)
        #expect(drive.healthChecks == 0)
    }
}
