import Logging
import OfflineQueue

/// Takes up what the store knows: straps to record, deliveries to run.
actor Startup {
    private let queue: SampleQueue
    private let recording: SensorRecording
    private let changes: EnrollmentChanges
    private let importSession: ImportSession
    private let logger: Logger
    /// Whether all that the store knows is recorded and delivered.
    private var isComplete = false

    init(
        queue: SampleQueue, recording: SensorRecording, changes: EnrollmentChanges,
        importSession: ImportSession, logger: Logger
    ) {
        self.queue = queue
        self.recording = recording
        self.changes = changes
        self.importSession = importSession
        self.logger = logger
    }

    /// Begins. A store that cannot be written or read at the moment keeps nothing from starting; the rest
    /// follows when it can be.
    ///
    /// - Throws: ``QueueError``
    func begin() async throws {
        await importSession.discard()
        do {
            try await takeUp()
        } catch let error as QueueError where error.isStoreTrouble {
            logger.error("read store: \(error)")
        }
    }

    /// The store can be written again: what could not be taken up is taken up now.
    func completeAfterAbsence() async {
        guard !isComplete else { return }
        do {
            try await takeUp()
        } catch {
            logger.error("read store: \(error)")
        }
    }

    private func takeUp() async throws {
        var isComplete = true
        try await recordStraps()
        for enrollment in try await queue.enrollments() {
            do {
                try await changes.startDelivery(of: enrollment.id)
            } catch let error as QueueError where error.isStoreTrouble {
                logger.error("start delivery: \(error)")
                isComplete = false
            }
        }
        self.isComplete = isComplete
    }

    /// After an absence of the store people pair and forget straps meanwhile.
    private nonisolated func recordStraps() async throws {
        try await recording.changes.run {
            let sensors = try await queue.sensors()
            for assignment in try await queue.openAssignments() {
                guard let sensor = sensors.first(where: { $0.id == assignment.sensorID }) else {
                    continue
                }
                await recording.start(sensor, as: assignment.id)
            }
        }
    }
}
