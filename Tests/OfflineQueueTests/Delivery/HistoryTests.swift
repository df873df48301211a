import Basics
import Testing

@testable import OfflineQueue

@Suite("What a sensor measured, by the hour")
struct HistoryTests {
    let store: TestStore
    let clock = ManualClock()
    /// 2026-12-01T00:00:00Z, when the clock begins.
    let midnight = ManualClock.midnight

    init() throws { store = try TestStore() }

    @Test func hoursCountWhatIsThereSentOrNot() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let other = try await Worn(queue, 2)
        for minute in 0..<180 {
            try await queue.beat(worn.assignment, bpm: UInt8(60 + minute / 60 * 10), clock)
            try await queue.beat(worn.assignment, bpm: UInt8(70 + minute / 60 * 10), clock)
            // Rates that are none: a band that does not measure sends 255.
            try await queue.beat(worn.assignment, bpm: 0, clock)
            try await queue.beat(worn.assignment, bpm: 255, clock)
            try await queue.beat(other.assignment, bpm: 200, clock)
            clock.advance(seconds: 60)
        }
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 100)
        try await queue.settle(
            enrollment: worn.enrollment.id, batch.map { SettledSample($0, .delivered) })
        let hours = try await queue.hourlyHeartRate(
            sensor: worn.sensor.id, until: clock.read().wall, needsContact: true)
        #expect(hours.map(\.begin) == (0..<3).map { midnight + .seconds($0 * 3_600) })
        #expect(hours.map(\.count) == [120, 120, 120])
        #expect(hours.map(\.lowestBPM) == [60, 70, 80] && hours.map(\.highestBPM) == [70, 80, 90])
        #expect(hours.map(\.meanBPM) == [65, 75, 85])
        let second = try await queue.hourlyHeartRate(
            sensor: worn.sensor.id, until: midnight + .microseconds(7_199_999_999), hours: 1,
            needsContact: true)
        #expect(second == [hours[1]])
        #expect(
            try await queue.hourlyHeartRate(sensor: 99, until: midnight, needsContact: true).isEmpty
        )
        await #expect(throws: QueueError.self) {
            try await queue.hourlyHeartRate(
                sensor: 1, until: UTC(microseconds: -1), needsContact: true)
        }
    }

    /// The chart of a strap showed the patient who had worn it before, too.
    @Test func aChartOfOneWearerHasNothingOfTheOneBefore() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in [60, 61] as [UInt8] {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 60)
        }
        let next = try await queue.enroll(.example("next", patient: "p-next"))
        let assignment = try await queue.assign(sensor: worn.sensor.id, enrollment: next.id)
        clock.advance(seconds: 60)
        try await queue.beat(assignment, bpm: 90, clock)
        try await queue.flush()
        func rates(_ assignment: Int64?) async throws -> [Double] {
            try await queue.heartRateChart(
                sensor: worn.sensor.id, assignment: assignment, from: midnight,
                until: midnight + .seconds(3_600), bucket: .seconds(5), needsContact: true
            ).map(\.meanBPM)
        }
        #expect(try await rates(worn.assignment.id) == [60, 61])
        #expect(try await rates(assignment.id) == [90])
        #expect(try await rates(nil) == [60, 61, 90])
    }

    @Test func severalRunsAndABootWithoutAClockMakeOneHistory() async throws {
        clock.set { $0.isTrusted = false }
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<50 {
            try await queue.beat(worn.assignment, bpm: 80, clock)
            clock.advance(seconds: 1)
        }
        try await queue.close()
        queue = try await store.open(clock)
        for _ in 0..<50 {
            try await queue.beat(worn.assignment, bpm: 90, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        let now = clock.read().wall
        #expect(
            try await queue.hourlyHeartRate(sensor: worn.sensor.id, until: now, needsContact: true)
                .isEmpty)
        clock.set { $0.isTrusted = true }
        try await queue.noteClock(clock.read())
        let hours = try await queue.hourlyHeartRate(
            sensor: worn.sensor.id, until: now, needsContact: true)
        #expect(hours.map(\.count) == [100] && hours.map(\.meanBPM) == [85])
    }

    /// Where contact is demanded, coverage counted such rates as missing, and the mean counted them.
    @Test func aRateWithoutSkinContactCountsOnlyWhereNoneIsDemanded() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.append(
            contentsOf: [[0x06, 60], [0x04, 200], [0x00, 80]].map { (frame: [UInt8]) in
                clock.advance(seconds: 1)
                return Arrival(sensorID: worn.sensor.id, at: clock.read(), frame: frame)
            })
        try await queue.flush()
        for (needsContact, mean) in [(true, 70.0), (false, 340.0 / 3)] {
            let hours = try await queue.hourlyHeartRate(
                sensor: worn.sensor.id, until: clock.read().wall, needsContact: needsContact)
            #expect(hours.map(\.meanBPM) == [mean])
        }
    }

    /// Any hour agrees with looking at every sample.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func halvingFindsTheSameAsLookingAtAll(seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let queue = try await store.open(clock)
        let worn = [try await Worn(queue, 1), try await Worn(queue, 2)]
        var counts: [[UTC: Int]] = [[:], [:]]
        for _ in 0..<2_000 {
            let index = Int.random(in: 0...1, using: &random)
            try await queue.beat(worn[index].assignment, bpm: 70, clock)
            counts[index][clock.read().wall.start(ofEach: .seconds(3_600)), default: 0] += 1
            clock.advance(seconds: Double.random(in: 0..<80, using: &random))
        }
        try await queue.flush()
        for index in 0...1 {
            let hours = try await queue.hourlyHeartRate(
                sensor: worn[index].sensor.id, until: clock.read().wall, hours: 48,
                needsContact: true)
            #expect(hours.count == counts[index].count)
            for hour in hours {
                #expect(hour.count == counts[index][hour.begin])
            }
        }
    }
}
