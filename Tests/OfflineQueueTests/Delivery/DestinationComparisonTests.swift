import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("What two destinations have of the same samples")
struct DestinationComparisonTests {
    let store: TestStore
    let clock = ManualClock()
    /// 2026-12-01.
    private static let firstDay: Int64 = 20_788

    init() throws { store = try TestStore() }

    /// A strap that delivers to two destinations, one sample an hour from midnight on.
    private struct Scene {
        let queue: SampleQueue
        let worn: Worn
        let own: Int64
        let other: Int64

        init(_ queue: SampleQueue) async throws {
            self.queue = queue
            worn = try await Worn(queue)
            own = worn.enrollment.id
            other = try await queue.enroll(.elsewhere()).id
        }

        func beat(hours: Int, _ clock: ManualClock) async throws {
            for _ in 0..<hours {
                try await queue.beat(worn.assignment, clock)
                clock.advance(seconds: 3_600)
            }
            try await queue.flush()
        }

        func settle(
            _ destination: Int64, _ count: Int, _ outcome: SettledSample.Outcome
        ) async throws {
            let batch = try await queue.nextBatch(enrollment: destination, limit: count)
            try await queue.settle(
                enrollment: destination, batch.map { SettledSample($0, outcome) })
        }
    }

    @Test func eachDayTellsWhatOneOfThemLacksAndWhy() async throws {
        let scene = try await Scene(try await store.open(clock))
        try await scene.queue.add(
            destination: scene.other, to: scene.worn.assignment.id, from: .now)
        try await scene.beat(hours: 60, clock)
        try await scene.queue.deliverAll(scene.own)
        try await scene.settle(scene.other, 20, .delivered)
        try await scene.settle(scene.other, 3, .dead(reason: "invalid", diagnostics: ""))
        try await scene.settle(scene.other, 2, .dropped(reason: "zero-rate"))

        let found = try await scene.queue.compare(
            scene.own, scene.other, since: .epoch)
        #expect(
            found.days.map(\.days) == [2, 1, 0].map { Self.firstDay + $0...Self.firstDay + $0 })
        #expect(found.days.map(\.samples) == [12, 24, 24])
        #expect(found.days.map(\.first.delivered) == [12, 24, 24])
        #expect(found.days.map(\.second.delivered) == [0, 0, 20])
        #expect(found.days.map(\.second.waiting) == [12, 23, 0])
        #expect(found.days.map(\.second.dead) == [0, 0, 3])
        #expect(found.days.map(\.second.dropped) == [0, 1, 1])
        #expect(!found.isSame && found.firstOnly == 0 && found.secondOnly == 0)

        // The other way round it is the same.
        let turned = try await scene.queue.compare(
            scene.other, scene.own, since: .epoch)
        #expect(turned.days.map(\.first) == found.days.map(\.second))
        // Since yesterday.
        let since = clock.read().wall - Coverage.day
        #expect(
            try await scene.queue.compare(scene.own, scene.other, since: since).days
                == Array(found.days.prefix(2)))
        #expect(try await scene.queue.audit().isClean)
    }

    @Test func countsStayWhenTheSamplesAreLongDeleted() async throws {
        let scene = try await Scene(try await store.open(clock))
        try await scene.queue.add(
            destination: scene.other, to: scene.worn.assignment.id, from: .now)
        try await scene.beat(hours: 30, clock)
        for destination in [scene.own, scene.other] {
            try await scene.queue.deliverAll(destination)
        }
        clock.advance(seconds: 30 * 86_400)
        #expect(try await scene.queue.prune() == 30)
        let found = try await scene.queue.compare(
            scene.own, scene.other, since: .epoch)
        #expect(found.isSame && found.days.map(\.samples) == [6, 24])
    }

    @Test func whatWasGoneBeforeOrGoesToOneAloneIsNamed() async throws {
        let scene = try await Scene(try await store.open(clock))
        try await scene.beat(hours: 10, clock)
        try await scene.queue.deliverAll(scene.own)
        #expect(try await scene.queue.purgeSettled() == 10)
        try await scene.beat(hours: 4, clock)
        try await scene.queue.add(
            destination: scene.other, to: scene.worn.assignment.id, from: .kept)
        let second = try await Worn(scene.queue, 2)
        try await scene.queue.beat(second.assignment, clock)
        try await scene.queue.flush()

        let found = try await scene.queue.compare(
            scene.own, scene.other, since: .epoch)
        #expect(found.days.map(\.samples) == [14] && found.days.first?.second.before == 10)
        #expect(found.days.first?.second.waiting == 4)
        let strangers = try await scene.queue.compare(
            second.enrollment.id, scene.other, since: .epoch)
        #expect(strangers.days.isEmpty && strangers.firstOnly == 1 && strangers.secondOnly == 14)
    }

    @Test func aClockThatIsCorrectedAtMidnightMovesNoDay() async throws {
        let scene = try await Scene(try await store.open(clock))
        try await scene.queue.add(
            destination: scene.other, to: scene.worn.assignment.id, from: .now)
        try await scene.beat(hours: 24, clock)
        // The clock is now two seconds ahead of what the boot began with.
        clock.set { $0.wall += .seconds(2) }
        try await scene.beat(hours: 24, clock)
        clock.set { $0.wall += .seconds(-4) }
        try await scene.beat(hours: 24, clock)
        let found = try await scene.queue.compare(
            scene.own, scene.other, since: .epoch)
        #expect(found.days.allSatisfy { $0.days?.count == 1 })
        #expect(found.days.map(\.samples).reduce(0, +) == 72)
        // Two seconds before midnight, the first sample of the third day is one of the second.
        #expect(found.days.map(\.samples) == [23, 25, 24])
    }

    @Test func samplesWithoutATimeAreADayOfTheirOwn() async throws {
        clock.set { $0.isTrusted = false }
        let scene = try await Scene(try await store.open(clock))
        try await scene.queue.add(
            destination: scene.other, to: scene.worn.assignment.id, from: .now)
        try await scene.beat(hours: 30, clock)
        let found = try await scene.queue.compare(
            scene.own, scene.other, since: .epoch)
        #expect(found.days.count == 1 && found.days.first?.days == nil)
        #expect(found.days.first?.first.waiting == 30)
    }

    @Test func anUnknownDestinationIsAnError() async throws {
        let scene = try await Scene(try await store.open(clock))
        await #expect {
            try await scene.queue.compare(scene.own, 99, since: .epoch)
        } throws: {
            ($0 as? QueueError)?.code == .unknownReference
        }
    }
}
