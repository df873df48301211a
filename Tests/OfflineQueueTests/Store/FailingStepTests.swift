import FaultyDisk
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

/// What a person changes in the store, on a disk that fails at its first write, its second, and so on.
@Suite("A change that a disk breaks off")
struct FailingStepTests {
    enum Change: CaseIterable {
        case importing, requeueing, purgingDeadLetters, purgingSettled, erasing
        case forgetting, assigning, pairing, enrolling, renaming, discarding, binding

        /// It is made of several transactions, and going on with it is documented.
        var isMadeInSteps: Bool { self == .erasing }
    }

    /// A store with two patients, dead letters, settled samples, and a file to import.
    private struct Scene {
        let store: TestStore
        let disk: BadDisk
        let queue: SampleQueue
        let worn: Worn
        let other: Worn
        let file: String
        let letters: [Int64]
        let unbound: Assignment
        let elsewhere: Enrollment

        init(_ clock: ManualClock) async throws {
            let away = try TestStore()
            let abroad = try await away.open(clock)
            let strap = try await abroad.addSensor(address: "A0:9E:1A:00:00:03")
            let assignment = try await abroad.assign(sensor: strap.id, enrollment: nil)
            for bpm in UInt8(60)..<90 {
                try await abroad.beat(assignment, bpm: bpm, clock)
                clock.advance(seconds: 1)
            }
            try await abroad.close()

            store = try TestStore()
            disk = try BadDisk(store.directory, seed: 1)
            queue = try await store.open(clock)
            worn = try await Worn(queue, 1)
            other = try await Worn(queue, 2)
            for bpm in UInt8(60)..<100 {
                try await queue.beat(worn.assignment, bpm: bpm, clock)
                try await queue.beat(other.assignment, bpm: bpm, clock)
                clock.advance(seconds: 1)
            }
            let spare = try await queue.addSensor(address: "A0:9E:1A:00:00:08")
            unbound = try await queue.assign(sensor: spare.id, enrollment: nil)
            elsewhere = try await queue.enroll(.elsewhere())
            for bpm in UInt8(60)..<70 {
                if bpm == 65 {
                    try await queue.add(destination: elsewhere.id, to: unbound.id, from: .now)
                }
                try await queue.beat(unbound, bpm: bpm, clock)
                clock.advance(seconds: 1)
            }
            try await queue.flush()
            for one in [worn, other] {
                let batch = try await queue.nextBatch(enrollment: one.enrollment.id, limit: 20)
                try await queue.settle(
                    enrollment: one.enrollment.id,
                    batch.enumerated().map { number, sample in
                        number % 4 == 3
                            ? SettledSample(sample, .dead(reason: "r", diagnostics: "d"))
                            : SettledSample(sample, .delivered)
                    }, upload: UploadRecord(batch, outcome: "delivered"))
            }
            letters = try await queue.deadLetters().map(\.sampleID)
            file = store.directory.appendingPathComponent("visitor.ndjson").path
            var bytes: [UInt8] = []
            try SampleQueue.export(path: away.path, format: .ndjson, selection: .unsent) {
                bytes += $0
            }
            try Data(bytes).write(to: URL(fileURLWithPath: file))
        }

        func make(_ change: Change) async throws {
            switch change {
            case .importing:
                try await queue.importSamples(
                    from: file, into: ImportTarget(enrollmentID: other.enrollment.id))
            case .requeueing: _ = try await queue.requeue(deadLetters: letters)
            case .purgingDeadLetters: _ = try await queue.purge(deadLetters: letters)
            case .purgingSettled: _ = try await queue.purgeSettled()
            case .erasing:
                while try await !queue.erase(Erasure(enrollment: other.enrollment.id)) {}
            case .forgetting: try await queue.forgetSensor(worn.sensor.id)
            case .assigning:
                _ = try await queue.assign(
                    sensor: worn.sensor.id, enrollment: other.enrollment.id)
            case .pairing:
                _ = try await queue.pair(
                    address: "A0:9E:1A:00:00:09", details: SensorDetails(name: "new"),
                    enrollment: other.enrollment.id)
            case .enrolling: _ = try await queue.enroll(.example("new", patient: "p-9"))
            case .binding:
                try await queue.bind(assignment: unbound.id, enrollment: elsewhere.id)
            case .discarding: _ = try await queue.discard(assignment: unbound.id)
            case .renaming:
                try await queue.updateSensor(
                    worn.sensor.id, details: SensorDetails(name: "new", serial: "S9"))
            }
        }

        /// Every row of every table, as a reader of the file sees them.
        func rows() throws -> [String] { try Self.rows(of: store.path) }

        private static func rows(of path: String) throws -> [String] {
            try DatabaseQueue(path: path).read { db in
                let tables = try String.fetchAll(
                    db, sql: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
                return try tables.flatMap { table in
                    try Row.fetchAll(db, sql: "SELECT * FROM \"\(table)\"").map {
                        "\(table) \($0)"
                    }
                }
            }
        }
    }

    /// More writes than any of the changes needs.
    private static let stepsMax = 500

    @Test(arguments: Change.allCases, [FAULTY_DISK_FULL, FAULTY_DISK_IO])
    func leavesNothingByHalf(change: Change, fault: Int) async throws {
        let clock = ManualClock()
        let scene = try await Scene(clock)
        if change == .erasing { try await scene.queue.forgetSensor(scene.other.sensor.id) }
        let before = try scene.rows()
        var failed = 0
        var latest: (any Error)?
        for step in 0..<Self.stepsMax {
            scene.disk.fail(fault, after: step)
            do {
                try await scene.make(change)
                break
            } catch {
                latest = error
            }
            scene.disk.fail(0)
            failed += 1
            // With the rows that it had it is clean.
            guard change.isMadeInSteps else {
                #expect(try scene.rows() == before, "step \(step)")
                continue
            }
            #expect(try await scene.queue.audit().isClean, "step \(step)")
        }
        scene.disk.fail(0)
        #expect(failed > 0 && failed < Self.stepsMax, "\(String(describing: latest))")
        #expect(try scene.rows() != before)
        #expect(try await scene.queue.audit().isClean)
        #expect(try await scene.queue.balance().isBalanced)
        try await scene.queue.close()
        #expect(try SampleQueue.verify(path: scene.store.path).isClean)
    }
}
