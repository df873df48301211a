import Basics
import Testing

@testable import Uplink

/// When deliveries fetch together, with imagined commits.
@Suite struct SharedFetchesTests {
    private static let interval = Duration.seconds(5)
    private static let now = Uptime.seconds(100)

    private static func seconds(_ seconds: Double) -> Duration {
        .microseconds(Int64(seconds * 1_000_000))
    }

    @Test func aFetchGoesAlongWithACommitThatIsNearerThanTheNext() {
        for (interval, early, joins) in [
            (10, 2.5, true), (10, 2.6, false), (10, 5, false), (10, -1, true), (30, 2.6, false),
            // At the commits' own pace each is followed.
            (5, 0.5, true), (5, 4, true), (5, 4.1, false), (5, -1, true), (2, 1.6, true),
        ] as [(Int64, Double, Bool)] {
            var shared = SharedFetches()
            #expect(
                shared.committed(
                    due: Self.now + Self.seconds(early), interval: .seconds(interval), Self.now)
                    == joins, "\(interval) s, \(early) s early")
        }
    }

    @Test func afterACommitTheFetchNeedsNoOther() {
        var shared = SharedFetches()
        #expect(shared.patience(interval: Self.interval, Self.now) == .seconds(1))
        #expect(shared.committed(due: Self.now, interval: Self.interval, Self.now) == true)
        let fetch = Self.now + SharedFetches.turnMax
        #expect(shared.patience(interval: Self.interval, fetch) == nil)
        #expect(
            shared.committed(due: fetch, interval: Self.interval, Self.now + Self.seconds(0.1))
                == false,
            "a second commit does not put it off")
        shared.fetched(isEmpty: false)
        #expect(shared.patience(interval: Self.interval, fetch) == .seconds(1))
    }

    @Test func aCommitThatWasLongAgoDoesNotServe() {
        var shared = SharedFetches()
        #expect(shared.committed(due: Self.now, interval: Self.interval, Self.now) == true)
        #expect(
            shared.patience(interval: Self.interval, Self.now + Self.seconds(2.1)) == .seconds(1))
    }

    @Test func aFetchWaitsForACommitOnlyOnce() {
        var shared = SharedFetches()
        let due = Self.now + Self.seconds(0.8)
        let until = shared.wait(for: due)
        #expect(until == due + SharedFetches.lateness)
        #expect(shared.patience(interval: Self.interval, until) == .zero)
        shared.fetched(isEmpty: false)
        #expect(shared.patience(interval: Self.interval, until) == .seconds(1))
    }

    @Test(arguments: [1, 2, 8, 9, 20, 200])
    func eachDeliveryHasItsPlaceInARowOfFourTenthsOfASecond(count: Int) {
        let turns = (0..<count).map { SharedFetches.turn($0, of: count) }
        #expect(turns.first == .zero)
        #expect(turns == turns.sorted())
        #expect(zip(turns, turns.dropFirst()).allSatisfy { $1 - $0 <= .milliseconds(50) })
        #expect(turns.allSatisfy { $0 <= .milliseconds(400) })
        if count == 8 { #expect(turns.last == .milliseconds(350)) }
    }

    @Test func aDeliveryThatIsHeldOrHasABacklogGoesAlongWithNoCommit() {
        var held = DeliveryDrive(1, settings: .brisk, heldSince: .exchangeFault).delivery
        #expect(held.samplesCommitted(turn: .zero, .seconds(1_000)) == false)
        var behind = DeliveryDrive(0, settings: .brisk).delivery
        #expect(behind.step(.seconds(1_000)) == .fetch(limit: 100))
        #expect(
            behind.samplesCommitted(turn: .zero, .seconds(1_000)) == false, "it fetches just now")
        behind.fetched(
            Array(repeating: nil, count: 100), hasMore: true, arrivalsPerSecond: 1,
            .seconds(1_000))
        #expect(behind.samplesCommitted(turn: .zero, .seconds(1_000)) == false)
        #expect(behind.commitPatience(.seconds(1_000)) == nil, "it has enough to fetch")
    }

    @Test func aDeliveryWithAFixedIntervalKeepsIt() {
        var settings = DeliverySettings()
        (settings.shortestInterval, settings.interval) = (.seconds(5), .seconds(5))
        var delivery = Self.rested(settings)
        #expect(delivery.samplesCommitted(turn: .zero, .seconds(1_004)) == false)
        #expect(delivery.commitPatience(.seconds(1_004)) == nil)
        #expect(delivery.step(.seconds(1_004)) == .wait(until: .seconds(1_005)))
    }

    @Test func aFetchThatIsNearComesInItsTurnAfterTheCommit() {
        var delivery = Self.rested(.brisk)
        #expect(delivery.step(.seconds(1_002)) == .wait(until: .seconds(1_005)))
        let soon = Uptime.seconds(1_000) + .milliseconds(400)
        #expect(delivery.samplesCommitted(turn: .zero, soon) == false, "4.6 s early")
        #expect(delivery.samplesCommitted(turn: .milliseconds(150), .seconds(1_004)) == true)
        let turn = Uptime.seconds(1_004) + .milliseconds(150)
        #expect(delivery.step(.seconds(1_004)) == .wait(until: turn))
        #expect(delivery.step(turn) == .fetch(limit: 100))
        #expect(delivery.commitPatience(turn) == nil)
    }

    @Test func aFetchThatWaitsForACommitGoesOnWithoutOneWhenItDoesNotCome() {
        var delivery = Self.rested(.brisk)
        #expect(delivery.step(.seconds(1_005)) == .fetch(limit: 100))
        #expect(delivery.commitPatience(.seconds(1_005)) == .seconds(1))
        delivery.awaitCommit(.seconds(1_006))
        let late = Uptime.seconds(1_006) + .milliseconds(250)
        #expect(delivery.step(.seconds(1_005)) == .wait(until: late))
        #expect(delivery.step(late) == .fetch(limit: 100))
        #expect(delivery.commitPatience(late) == .zero)
    }

    /// A delivery that fetched and delivered five samples at once, at 1,000 s, and is due 5 s later.
    private static func rested(_ settings: DeliverySettings) -> Delivery {
        let start = Uptime.seconds(1_000)
        var delivery = Delivery(settings: settings)
        #expect(delivery.step(start) == .fetch(limit: 100))
        delivery.fetched(
            Array(repeating: nil, count: 5), hasMore: false, arrivalsPerSecond: 1, start)
        #expect(delivery.step(start) == .send([0, 1, 2, 3, 4]))
        #expect(delivery.answered(.stored([0, 1, 2, 3, 4]), took: .zero, start).count == 5)
        return delivery
    }
}

extension DeliverySettings {
    /// Those of a delivery to an exchange.
    static var brisk: DeliverySettings {
        var settings = DeliverySettings()
        settings.shortestInterval = DeliverySettings.exchangeInterval
        return settings
    }
}
