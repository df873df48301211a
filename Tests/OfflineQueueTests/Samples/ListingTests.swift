import Basics
import Foundation
import Testing

@testable import OfflineQueue

@Suite("Listing, purging, and taking over much")
struct ListingTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    @Test func everyStateIsListedNewestFirstWithItsReason() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let spare = try await queue.addSensor(address: "A0:9E:1A:00:00:09")
        let unbound = try await queue.assign(sensor: spare.id, enrollment: nil)
        for bpm in UInt8(60)..<70 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            try await queue.beat(unbound, bpm: bpm, clock)
        }
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 5)
        try await queue.settle(
            enrollment: worn.enrollment.id,
            batch.enumerated().map { index, sample in
                switch index {
                case 0, 1: SettledSample(sample, .dead(reason: "refused", diagnostics: "words"))
                case 2: SettledSample(sample, .dropped(reason: "zeroRate"))
                default: SettledSample(sample, .delivered)
                }
            })
        try await queue.requeue(deadLetters: [batch[1].id])

        let all = try await queue.samples(limit: 100)
        #expect(all.map(\.id) == (1...20).reversed())
        let dead = try await queue.samples(state: .dead)
        #expect(dead.map(\.id) == [batch[0].id] && dead[0].reason == "refused")
        let done = try await queue.samples(state: .delivered)
        #expect(done.map(\.id) == batch[3...].map(\.id).reversed())
        #expect(done.allSatisfy { $0.reason == nil })
        let dropped = try await queue.samples(state: .dropped)
        #expect(dropped.map(\.id) == [batch[2].id] && dropped[0].reason == "zeroRate")
        let pending = try await queue.samples(state: .pending)
        #expect(pending.count == 6 && pending.last?.id == batch[1].id)
        #expect(pending.allSatisfy { $0.reason == nil && $0.time != nil })
        let held = try await queue.samples(state: .held)
        #expect(held.count == 10 && held.allSatisfy { $0.reason == "not-enrolled" })
        #expect(try await queue.samples(sensor: spare.id, limit: 3).map(\.id) == [20, 18, 16])
        #expect(try await queue.samples(sensor: 99).isEmpty)
    }

    @Test func samplesOfATimeAreListedAcrossDays() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let begin = clock.read().wall
        clock.advance(seconds: 86_390)
        for _ in 0..<20 {
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        func ids(_ since: Double?, _ until: Double?) async throws -> [Int64] {
            func time(_ seconds: Double?) -> UTC? {
                seconds.map { begin + .milliseconds(Int64($0 * 1_000)) }
            }
            return try await queue.samples(since: time(since), until: time(until)).map(\.id)
        }
        #expect(try await ids(86_395, 86_402) == [12, 11, 10, 9, 8, 7, 6])
        #expect(try await ids(86_405, nil).count == 5)
        #expect(try await ids(nil, 86_391) == [1])
        #expect(try await ids(90_000, nil).isEmpty)
        #expect(
            try await queue.samples(state: .pending, since: begin, limit: 3).map(\.id) == [
                20, 19, 18,
            ])
    }

    /// They were listed and exported as delivered.
    @Test func aSampleThatAPolicyWithheldIsNoDeliveredOne() async throws {
        let queue = try await store.open(clock)
        let worn = [try await Worn(queue, 1), try await Worn(queue, 2)]
        for sensor in worn {
            for _ in 0..<4 { try await queue.beat(sensor.assignment, clock) }
        }
        try await queue.flush()
        for (sensor, reasons) in zip(worn, [["zeroRate"], ["zeroRate", "contactLost"]]) {
            let delivery = sensor.enrollment.id
            let batch = try await queue.nextBatch(enrollment: delivery, limit: 10)
            try await queue.settle(
                enrollment: delivery,
                batch.enumerated().map { index, sample in
                    SettledSample(sample, .dropped(reason: reasons[index % reasons.count]))
                })
        }
        let one = try await queue.samples(state: .dropped, sensor: worn[0].sensor.id)
        #expect(one.count == 4 && one.allSatisfy { $0.reason == "zeroRate" })
        let two = try await queue.samples(state: .dropped, sensor: worn[1].sensor.id)
        #expect(
            two.reversed().map(\.reason) == ["zeroRate", "contactLost", "zeroRate", "contactLost"])
        #expect(try await queue.samples(state: .delivered).isEmpty)
        var lines = ""
        try SampleQueue.export(path: store.path, selection: .everything) {
            lines += String(decoding: $0, as: UTF8.self)
        }
        #expect(lines.components(separatedBy: #""state":"dropped""#).count == 9)
        #expect(!lines.contains(#""state":"delivered""#))
        // What is remembered of them goes with their rows.
        _ = try await queue.purgeSettled(before: nil)
        #expect(try store.number("SELECT count(*) FROM dropped_range") == 0)
        #expect(try await queue.audit().isClean)
    }

    @Test func purgingTakesWhatIsDoneWithAndNothingElse() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(60)..<80 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            clock.advance(seconds: 60)
        }
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 10)
        try await queue.settle(
            enrollment: worn.enrollment.id,
            batch.enumerated().map { index, sample in
                SettledSample(
                    sample, index == 4 ? .dead(reason: "r", diagnostics: "d") : .delivered)
            })
        let horizon = batch[3].time
        #expect(try await queue.purgeSettled(before: horizon) == 3)
        #expect(try await queue.purgeSettled() == 6)
        #expect(try await queue.samples().map(\.id) == (11...20).reversed() + [5])
        #expect(try await queue.balance().isBalanced)
        #expect(try await queue.audit().isClean)
    }

    @Test func samplesThatDiedInOneDataPointGoTogether() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(60)..<70 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        let delivery = worn.enrollment.id
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 10)
        let average = batch[0].identity(of: .tenSecondAverage).description
        try await queue.settle(
            enrollment: delivery,
            batch.enumerated().map { index, sample in
                SettledSample(
                    sample, .dead(reason: "r", diagnostics: "d"), sentAs: index < 4 ? average : nil)
            })
        let letters = try await queue.deadLetters()
        #expect(letters.filter { $0.uuid == average }.map(\.sampleID) == [4, 3, 2, 1])
        #expect(letters.first?.uuid == batch[9].uuid)
        #expect(try await queue.deadLetter(2)?.uuid == average)
        #expect(try await queue.deadLetters(before: 3, limit: 9).map(\.sampleID) == [2, 1])
        #expect(try await queue.requeue(deadLetters: [2]) == 4)
        #expect(
            try await queue.nextBatch(enrollment: delivery, limit: 10).map(\.id) == [1, 2, 3, 4])
        #expect(try await queue.purge(deadLetters: [7]) == 1)
        #expect(try await queue.deadLetter(7) == nil)
        #expect(try await queue.audit().isClean)
    }

    // MARK: - Export and import

    private func export(_ filter: ExportFilter = ExportFilter()) throws -> [String] {
        var bytes: [UInt8] = []
        try SampleQueue.export(path: store.path, filter: filter) { bytes += $0 }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// Samples of two straps, one a second each, without an enrollment.
    private func record(seconds: Int) async throws {
        let queue = try await store.open(clock)
        var assignments: [Assignment] = []
        for number in 1...2 {
            let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)")
            assignments.append(try await queue.assign(sensor: sensor.id, enrollment: nil))
        }
        for second in 0..<seconds {
            for assignment in assignments {
                try await queue.beat(assignment, bpm: UInt8(60 + second % 100), clock)
            }
            clock.advance(seconds: 1)
        }
        try await queue.close()
    }

    @Test func anExportTakesTheTimeAndTheSensorThatWereAskedFor() async throws {
        let begin = clock.read().wall
        try await record(seconds: 100)
        #expect(try export().count == 202)
        let some = try export(
            ExportFilter(
                since: begin + .seconds(10), until: begin + .seconds(20),
                sensor: "A0:9E:1A:00:00:02"))
        #expect(some.count == 12 && some.last == #"{"samples":10,"damaged":0}"#)
        #expect(some[1].contains("00:00:10.000000Z") && some[10].contains("00:00:19.000000Z"))
        let refused = #expect(throws: QueueError.self) {
            try export(ExportFilter(sensor: "A0:9E:1A:00:00:07"))
        }
        #expect(refused?.code == .unknownReference)
    }

    /// A gateway with a delivery of its own that goes on recording.
    private func takeOver(
        _ lines: [String], settings: QueueSettings = QueueSettings()
    ) async throws -> (TestStore, SampleQueue, Worn, ImportTarget, String) {
        let there = try TestStore()
        let path = there.directory.appendingPathComponent("samples.ndjson").path
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: path))
        let queue = try await there.open(clock, bootID: "elsewhere", settings: settings)
        let worn = try await Worn(queue, 7)
        return (
            there, queue, worn,
            ImportTarget(enrollmentID: worn.enrollment.id, assignments: [1, 2]), path
        )
    }

    @Test func recordingGoesOnWhileMuchIsImported() async throws {
        try await record(seconds: 3_000)
        let (there, queue, worn, target, path) = try await takeOver(try export())
        let clock = clock
        let slices = Slices()
        let summary = try await queue.importSamples(from: path, into: target) { progress in
            await slices.add(progress)
            try? await queue.beat(worn.assignment, bpm: 200, clock)
            try? await queue.flush()
        }
        #expect(summary.added == 6_000)
        let told = await slices.told
        #expect(told.filter { $0.total != nil && $0.done < 6_000 }.count >= 5)
        #expect(told.last?.done == 6_000 && told.last?.total == 6_000)
        let sent = try await queue.deliverAll(worn.enrollment.id, limit: 1_000)
        #expect(sent.count == 6_000 + told.count)
        #expect(try there.number("SELECT count(*) FROM sample") == sent.count)
        #expect(Set(sent.map(\.uuid)).count == sent.count)
        #expect(try await queue.audit().isClean)
    }

    @Test func noSliceOfAnImportPartsAMinute() async throws {
        try await record(seconds: 1_000)
        let (there, queue, worn, target, path) = try await takeOver(try export())
        let clock = clock
        try await queue.importSamples(from: path, into: target) { _ in
            try? await queue.beat(worn.assignment, bpm: 200, clock)
            try? await queue.flush()
        }
        let parted = try there.number(
            """
            SELECT count(*) FROM (
                SELECT s.assignment FROM sample p JOIN segment s ON s.id = p.segment
                JOIN run r ON r.id = s.run WHERE r.is_imported
                GROUP BY s.assignment, (p.uptime_us + s.wall_offset_us) / 60000000 HAVING count(DISTINCT s.id) > 1)
            """)
        #expect(parted == 0)
        #expect(try there.number("SELECT count(*) FROM segment WHERE stored > 0") > 4)
    }

    /// The symptom was `NOT NULL constraint failed: sample.segment` in the next commit.
    @Test func aCommitAfterAnImportInTheSameProcessSucceeds() async throws {
        try await record(seconds: 5)
        let (there, queue, worn, target, path) = try await takeOver(try export())
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        try await queue.importSamples(from: path, into: target)
        for _ in 0..<3 {
            try await queue.beat(worn.assignment, clock)
            try await queue.flush()
        }
        #expect(await queue.health().fault == nil)
        #expect(try await queue.balance().stored == 14)
        #expect(try there.number("SELECT count(*) FROM sample") == 14)
    }

    @Test func anImportThatTheLimitEndsGoesOnWhenItIsRepeated() async throws {
        try await record(seconds: 3_000)
        var settings = QueueSettings()
        settings.maxBytes = 150_000
        let (there, first, worn, target, path) = try await takeOver(
            try export(), settings: settings)
        var queue = first
        await #expect {
            try await queue.importSamples(from: path, into: target)
        } throws: {
            ($0 as? QueueError)?.code == .diskFull
        }
        let taken = try await queue.balance().stored
        #expect(taken >= 1_000 && taken < 6_000)
        try await queue.close()
        queue = try await there.open(clock, bootID: "elsewhere")
        let summary = try await queue.importSamples(from: path, into: target)
        #expect(summary.known == taken && summary.added == 6_000 - taken)
        #expect(try await queue.deliverAll(worn.enrollment.id).count == 6_000)
    }
}

private actor Slices {
    private(set) var told: [ImportProgress] = []
    func add(_ progress: ImportProgress) { told.append(progress) }
}
