import Basics
import Foundation
import OfflineQueue

/// A small store with samples in every state: what the golden files are made of.
enum GoldenStore {
    /// Makes the store and returns one line for each waiting sample.
    static func make(_ path: String) async throws -> [String] {
        let clock = ManualClock()
        var queue = try SampleQueue(path: path, clock: clock, bootID: "golden-boot-1")
        let sensor = try await queue.addSensor(
            address: "A0:9E:1A:00:00:01", details: SensorDetails(name: "Strap 1", bodyLocation: 1))
        let spare = try await queue.addSensor(address: "A0:9E:1A:00:00:02")
        let delivery = try await queue.enroll(.example("golden")).id
        let worn = try await queue.assign(sensor: sensor.id, enrollment: delivery)
        let unbound = try await queue.assign(sensor: spare.id, enrollment: nil)
        for bpm in UInt8(60)..<100 {
            for assignment in [worn, unbound] {
                try await queue.beat(assignment, bpm: bpm, clock)
                clock.advance(seconds: 0.5)
            }
        }
        try await queue.append(
            Arrival(sensorID: worn.sensorID, at: clock.read(), frame: [1], fault: "truncated"))
        try await queue.flush()
        try await queue.beginRequest(enrollment: delivery)
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 10)
        try await queue.settle(
            enrollment: delivery,
            batch.enumerated().map { index, sample in
                switch index {
                case 0, 1: SettledSample(sample, .dead(reason: "invalid", diagnostics: "words"))
                case 2: SettledSample(sample, .dropped(reason: "zero-rate"))
                default: SettledSample(sample, .delivered)
                }
            }, upload: UploadRecord(batch, outcome: "delivered"))
        try await queue.requeue(deadLetters: [batch[1].id])
        try await queue.setHold(enrollment: delivery, reason: nil)
        try await queue.close()

        clock.set { $0.isTrusted = false }
        queue = try SampleQueue(path: path, clock: clock, bootID: "golden-boot-2")
        try await queue.beat(worn, bpm: 120, clock)
        try await queue.flush()
        try await addElsewhere(queue, to: worn)
        let lines = try await lines(queue, delivery: delivery)
        try await queue.close()
        return lines
    }

    /// A further destination with samples in every state.
    private static func addElsewhere(_ queue: SampleQueue, to worn: Assignment) async throws {
        var terms = EnrollmentTerms.elsewhere()
        terms.keep = Coverage.day * 30
        let elsewhere = try await queue.enroll(terms).id
        try await queue.add(destination: elsewhere, to: worn.id, from: .kept)
        let batch = try await queue.nextBatch(enrollment: elsewhere, limit: 6)
        try await queue.settle(
            enrollment: elsewhere,
            batch.enumerated().map { index, sample in
                switch index {
                case 0, 1: SettledSample(sample, .dead(reason: "invalid", diagnostics: "elsewhere"))
                case 2: SettledSample(sample, .dropped(reason: "zero-rate"))
                default: SettledSample(sample, .delivered)
                }
            })
        try await queue.requeue(deadLetters: [batch[1].id], destination: elsewhere)
    }

    static func lines(_ queue: SampleQueue, delivery: Int64) async throws -> [String] {
        try await queue.nextBatch(enrollment: delivery, limit: 1_000).map { sample in
            "\(sample.uuid) \(sample.time.microseconds) \(sample.frame)"
        }
    }
}
