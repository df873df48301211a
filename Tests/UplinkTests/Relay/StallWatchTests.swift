import Basics
import Testing

@testable import Uplink

@Suite struct StallWatchTests {
    private static func time(_ seconds: Double) -> Uptime { .zero + .seconds(seconds) }

    @Test func whatIsReadLeftTheServerAfterTheLastAnsweredQuestion() {
        var watch = StallWatch(Self.time(100))
        #expect(watch.departure(ofWhatIsReadAt: Self.time(100.5)) == Self.time(100))
        watch.answered(askedAt: Self.time(101), Self.time(101.2))
        #expect(watch.departure(ofWhatIsReadAt: Self.time(101.2)) == Self.time(101))
        // An older answer says nothing new.
        watch.answered(askedAt: Self.time(100.5), Self.time(101.3))
        #expect(watch.departure(ofWhatIsReadAt: Self.time(101.4)) == Self.time(101))
        #expect(watch.stalledSince == nil)
    }

    @Test func afterAStallEverythingMayBeAsOldAsTheStall() {
        var watch = StallWatch(Self.time(100))
        watch.answered(askedAt: Self.time(101), Self.time(101))
        // The first thing that happens after it is that something is read.
        #expect(watch.departure(ofWhatIsReadAt: Self.time(160)) == Self.time(101))
        watch.answered(askedAt: Self.time(160), Self.time(160.1))
        #expect(watch.departure(ofWhatIsReadAt: Self.time(170)) == Self.time(101))
        #expect(watch.stalledSince == Self.time(101))
    }

    @Test func anAnswerThatTookTooLongIsAStall() {
        var watch = StallWatch(Self.time(100))
        watch.answered(askedAt: Self.time(100.2), Self.time(100) + StallWatch.gapMax)
        #expect(watch.stalledSince == nil)
        watch.answered(askedAt: Self.time(104), Self.time(100.3) + StallWatch.gapMax)
        #expect(watch.stalledSince == Self.time(100.2))
    }

    @Test func aRequestThatLeftTheServerLongAgoIsTurnedAway() {
        var batcher = RelayBatcher(workers: 1)
        let now = Self.time(160)
        let job = RelayBatcher.Job(
            id: 1, gateway: "a", points: 1, isAlone: false, received: now,
            latest: RelayPatience.latestBegin(Self.time(101), patience: .seconds(60)))
        guard case .busy = batcher.admit(job, now) else {
            Issue.record("it waits")
            return
        }
    }
}
