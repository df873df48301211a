import Foundation

@testable import OfflineQueue

/// A suite whose store is exported, and imported by a gateway elsewhere.
protocol TransferSuite {
    var store: TestStore { get }
    var clock: ManualClock { get }
}

extension TransferSuite {
    func export(
        _ store: TestStore, _ format: ExportFormat = .ndjson,
        _ selection: ExportSelection = .unsent, destination: String? = nil
    ) throws -> [String] {
        var bytes: [UInt8] = []
        try SampleQueue.export(
            path: store.path, format: format, selection: selection,
            filter: ExportFilter(destination: destination)
        ) {
            bytes += $0
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// Writes lines to a file and gives its path.
    func file(_ lines: [String], in store: TestStore) throws -> String {
        let path = store.directory.appendingPathComponent("samples.ndjson").path
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    func facts(_ samples: [PendingSample]) -> [String] {
        samples.map { "\($0.uuid) \($0.time) \($0.frame) \($0.flags)" }.sorted()
    }

    /// A site without a network: straps that record without an enrollment.
    func recordWithoutNetwork(_ sensors: Int = 1) async throws {
        let queue = try await store.open(clock)
        for number in 1...sensors {
            let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)")
            let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
            for bpm in UInt8(60)..<160 {
                try await queue.append(
                    Arrival(
                        sensorID: assignment.sensorID, at: clock.read(),
                        frame: [0x10, bpm, 0x00, 0x03], flags: UInt32(number)))
                clock.advance(seconds: 1)
            }
        }
        try await queue.close()
    }

    /// A connected gateway, elsewhere.
    func gateway() async throws -> (TestStore, SampleQueue, Int64) {
        let there = try TestStore()
        let queue = try await there.open(clock, bootID: "elsewhere")
        let worn = try await Worn(queue, 7)
        for bpm in UInt8(0)..<50 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        try await queue.deliverAll(worn.enrollment.id)
        let delivery = try await queue.enroll(.example("imported", patient: "p-9")).id
        return (there, queue, delivery)
    }
}
