import Logging
import OfflineQueue
import Recording

/// Takes up what the store knows: straps to record, deliveries to run.
actor Startup {
    private let queue: SampleQueue
    private let recording: SensorRecording
    private let changes: EnrollmentChanges
    private let importSession: ImportSession
    private let board: BoardWatch
    private let logger: Logger
    /// The opening of the store (``StoreFacts/openings``) whose straps are recorded; nil before the first.
    private var recordedOpening: Int?
    /// Why they could not be taken up, as it was logged.
    private var fault: String?

    init(
        queue: SampleQueue, recording: SensorRecording, changes: EnrollmentChanges,
        importSession: ImportSession, board: BoardWatch, logger: Logger
    ) {
        self.board = board
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
        await board.look()
        startDeliveries()
    }

    /// Takes up what the store knows if it was opened since that was last done: it could not be read before, or what
    /// was read in its place was older, or a salvage has changed it.
    func follow(_ store: StoreFacts) async {
        guard !store.isAbsent, store.openings != recordedOpening else { return }
        await board.look()
        startDeliveries()
        do {
            try await takeUp(store)
            fault = nil
        } catch {
            // It is tried again each few seconds.
            if "\(error)" != fault { logger.error("take up the store's straps: \(error)") }
            fault = "\(error)"
        }
    }

    /// Recording waits for no delivery: each may have to wait for `systemd-creds`, which opens its tokens, or for an erasure,
    /// whose turn it is.
    private func startDeliveries() {
        Task { await changes.startMissingDeliveries() }
    }

    private func takeUp(_ store: StoreFacts) async throws {
        try await recordStraps(isStandIn: store.isAbsent)
        if !store.isAbsent { recordedOpening = store.openings }
    }

    /// After an absence of the store people pair and forget straps meanwhile.
    private nonisolated func recordStraps(isStandIn: Bool) async throws {
        await recording.recorder.storeAddresses()
        // Before the store is asked: all that is recorded was in it.
        let recorded = await recording.recorder.recorded
        let sensors = try await queue.sensors()
        let worn = Set(try await queue.openAssignments().map(\.sensorID))
        for sensor in sensors where worn.contains(sensor.id) {
            await recording.follow(sensor, isWorn: true)
        }
        guard !isStandIn else { return }
        // Known from a stand-in, or forgotten by a change that counts only now.
        let known = Set(sensors.map(\.id))
        let addresses = Set(sensors.map(\.address))
        for (sensor, recorded) in recorded
        where !known.contains(sensor) && !addresses.contains(recorded.address) {
            await recording.letGo(recorded.address)
        }
        // A paired strap has an assignment: a salvage has lost it. Its samples are held until it is paired anew.
        guard sensors.contains(where: { !worn.contains($0.id) }) else { return }
        for sensor in try await queue.assignUnworn() {
            await recording.follow(sensor, isWorn: true)
        }
    }
}
