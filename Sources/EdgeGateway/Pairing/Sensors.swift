import Basics
import BlueZ
import GATTHeartRate
import Health
import OfflineQueue
import Recording

/// The known sensors, as commands see them.
struct Sensors: Sendable {
    let queue: SampleQueue
    let recorder: Recorder
    let coverage: TodaysCoverage
    let clock: any GatewayClock

    /// The known sensors and their links. `isForPerson`: including frames that are still gathering; a program that
    /// asks again and again would keep them from it.
    func reports(
        includingForgotten: Bool = false, isForPerson: Bool = false
    ) async throws -> [SensorReport] {
        if isForPerson { await recorder.catchUp() }
        let names = Dictionary(
            try await queue.enrollments().map { ($0.id, $0.terms.name) },
            uniquingKeysWith: { first, _ in first })
        let assignments = Dictionary(
            try await queue.openAssignments().map { ($0.sensorID, $0) },
            uniquingKeysWith: { first, _ in first })
        // Of all of them at once: there may be thousands.
        let counts = try await queue.sensorCounts()
        let recorded = await recorder.recorded
        var reports: [SensorReport] = []
        for sensor in try await queue.sensors(includingForgotten: includingForgotten) {
            let assignment = assignments[sensor.id]
            reports.append(
                try await report(
                    on: sensor, enrollment: assignment?.enrollmentID.flatMap { names[$0] },
                    patient: assignment?.patient, counts[sensor.id], recorded[sensor.id]))
        }
        return reports
    }

    /// The report on one sensor.
    func report(
        on sensor: Sensor, enrollment: String?, patient: String?
    ) async throws -> SensorReport {
        try await report(
            on: sensor, enrollment: enrollment, patient: patient,
            try await queue.sensorCounts()[sensor.id],
            await recorder.recorded[sensor.id])
    }

    private func report(
        on sensor: Sensor, enrollment: String?, patient: String?, _ counts: SensorCounts?,
        _ recorded: (address: String, session: SensorSession)?
    ) async throws -> SensorReport {
        let address = recorded?.address ?? sensor.address
        let session = recorded?.session
        let link = await recorder.link(of: address)
        let now = clock.read().uptime
        let age = session?.latestArrival.map { now - $0 }
        // An old rate is no rate: it must not be mistaken for a beating heart.
        let isFresh = age.map { $0 <= SensorReport.freshTime } ?? false
        return SensorReport(
            id: sensor.id, address: sensor.address,
            name: sensor.label, link: link.state, linkDetail: link.detail,
            bpm: isFresh ? session?.latestRate : nil,
            contact: isFresh ? session?.latest?.contact.detected : nil,
            secondsSinceFrame: age?.inSeconds, batteryPercent: session?.batteryPercent,
            lostFrames: session?.lostFrames, enrollment: enrollment,
            patient: patient,
            coverageTodayPercent: try await coverage.percent(of: sensor.id),
            stored: counts?.stored ?? 0,
            pending: counts?.unsent ?? 0)
    }
}

extension SensorReport {
    /// A rate counts as present for this long after its frame: straps send one a second.
    static let freshTime = Duration.seconds(10)
}
