import GATTHeartRate
import Health
import OfflineQueue
import Recording

/// The names for the store's numbers in listings: addresses are masked to their end.
struct StoreNames {
    private let sensors: [Int64: Sensor]
    private let enrollments: [Int64: String]

    init(_ queue: SampleQueue) async throws {
        sensors = try await queue.sensors(includingForgotten: true).reduce(into: [:]) {
            $0[$1.id] = $1
        }
        enrollments = try await queue.enrollments().reduce(into: [:]) { $0[$1.id] = $1.terms.name }
    }

    func address(_ sensor: Int64) -> String {
        sensors[sensor].map { Recorder.masked($0.address) } ?? ""
    }

    func name(_ sensor: Int64) -> String { sensors[sensor]?.label ?? "" }

    func enrollment(_ id: Int64) -> String? { enrollments[id] }

    static func bpm(_ frame: [UInt8]) -> Int? {
        (try? HeartRateMeasurement(frame: frame)).map { Int($0.bpm) }
    }
}
