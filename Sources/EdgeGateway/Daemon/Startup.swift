import Logging
import OfflineQueue
import Recording

/// Takes up what the store knows: straps to record, deliveries to run.
actor Startup {
    private let queue: SampleQueue
    private let recording: SensorRecording
    private let changes: EnrollmentChanges
    private let importSession: ImportSession
    private let logger: Logger
    /// The opening of the store (``StoreFacts/openings``) whose straps are recorded; nil before the first.
    private var recordedOpening: Int?

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
            try await takeUp(await queue.health())
        } catch let error as QueueError where error.isStoreTrouble {
            logger.error("read store: \(error)")
        }
    }

    /// Takes up what the store knows if it was opened since that was last done: it could not be read before, or what
    /// was read in its place was older, or a salvage has changed it.
    func follow(_ store: StoreFacts) async {
        guard !store.isAbsent, store.openings != recordedOpening else { return }
        do {
            try await takeUp(store)
        } catch {
            logger.error("read store: \(error)")
        }
    }

    private func takeUp(_ store: StoreFacts) async throws {
        try await recordStraps(isStandIn: store.isAbsent)
        if !store.isAbsent { recordedOpening = store.openings }
        await changes.startMissingDeliveries()
    }

    /// After an absence of the store people pair and forget straps meanwhile.
    private nonisolated func recordStraps(isStandIn: Bool) async throws {
        try await recording.changes.run {
            let open = try await queue.openAssignments()
            let sensors = try await queue.sensors()
            for sensor in sensors {
                var assignment = open.first { $0.sensorID == sensor.id }?.id
                if assignment == nil, !isStandIn {
                    // A paired strap has one: a salvage has lost it. Its samples are held until it is paired anew.
                    assignment = try await queue.assign(sensor: sensor.id, enrollment: nil).id
                }
                if let assignment { await recording.start(sensor, as: assignment) }
            }
            // Known from a stand-in, or forgotten by a change that counts only now.
            let addresses = Set(sensors.map(\.address))
            for address in await recording.recorder.recorded.keys
            where !isStandIn && !addresses.contains(address) {
                await recording.stop(address)
            }
        }
    }
}
