import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("Lost samples are seen by a person")
struct LossTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    /// A strap with a further destination that takes nothing for longer than samples wait for it.
    private func lose(_ queue: SampleQueue) async throws -> (worn: Worn, elsewhere: Int64) {
        let worn = try await Worn(queue)
        var terms = EnrollmentTerms.elsewhere()
        terms.keep = Coverage.day * 2
        let elsewhere = try await queue.enroll(terms).id
        try await queue.add(destination: elsewhere, to: worn.assignment.id, from: .now)
        for _ in 0..<5 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        try await queue.deliverAll(worn.enrollment.id)
        clock.advance(seconds: 3 * 86_400)
        try await queue.prune()
        return (worn, elsewhere)
    }

    @Test func whatWasDroppedByAgeIsNamedUntilItIsAcknowledged() async throws {
        let queue = try await store.open(clock)
        let (worn, elsewhere) = try await lose(queue)
        #expect(try await queue.balance(of: .enrollment(elsewhere)).dropped == ["max-age": 5])
        #expect(try await queue.totals().lost == ["max-age": 5])
        try await queue.close()
        let again = try await store.open(clock, bootID: "boot-2")
        #expect(try await again.totals().lost == ["max-age": 5])
        try await again.acknowledgeSalvages()
        #expect(try await again.totals().lost.isEmpty)
        // New losses are new.
        try await again.beat(worn.assignment, clock)
        try await again.flush()
        clock.advance(seconds: 3 * 86_400)
        try await again.prune()
        #expect(try await again.totals().lost == ["max-age": 1])
        #expect(try await again.balance(of: .enrollment(elsewhere)).dropped == ["max-age": 6])
    }

    @Test func whatAPersonOrASettingGaveUpIsNoLoss() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<4 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 2)
        try #require(batch.count == 2)
        try await queue.settle(
            enrollment: worn.enrollment.id,
            [
                SettledSample(batch[0], .dead(reason: "invalid", diagnostics: "")),
                SettledSample(batch[1], .dropped(reason: "zero-rate")),
            ])
        try await queue.purge(deadLetters: [batch[0].id])
        #expect(try await queue.balance().dropped == ["purged": 1, "zero-rate": 1])
        #expect(try await queue.totals().lost.isEmpty)
    }

    @Test func whatAFullStoreRefusesIsNamed() async throws {
        var settings = QueueSettings()
        settings.maxBytes = 100 * 1024
        let queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        for _ in 0..<3_000 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        let refused = try await queue.balance().refused[LossReason.queueFull.rawValue] ?? 0
        #expect(refused > 0)
        #expect(try await queue.totals().lost == [LossReason.queueFull.rawValue: refused])
    }

    /// What another patient had lost by then, and nobody had seen, was said no more.
    @Test("acknowledged losses that are erased hide no others", arguments: [true, false])
    func erasedLosses(areErasedFirst: Bool) async throws {
        let queue = try await store.open(clock)
        let (worn, elsewhere) = try await lose(queue)
        try await queue.acknowledgeSalvages()
        try await queue.endAssignment(sensor: worn.sensor.id)
        func erase() async throws {
            while try await !queue.erase(Erasure(enrollment: worn.enrollment.id)) {}
        }
        if areErasedFirst { try await erase() }
        let next = try await Worn(queue, 2)
        try await queue.add(destination: elsewhere, to: next.assignment.id, from: .now)
        for _ in 0..<3 { try await queue.beat(next.assignment, clock) }
        try await queue.flush()
        clock.advance(seconds: 3 * 86_400)
        try await queue.prune()
        if !areErasedFirst { try await erase() }
        #expect(try await queue.totals().lost == ["max-age": 3])
    }
}
