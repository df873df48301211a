import BlueZ
import Foundation
import GATTHeartRate
import Health
import Logging
import OfflineQueue
import Recording
import Uplink

/// The gateway as commands see it: knows the radio, the store and the deliveries, and wires them.
actor Gateway {
    let settings: Settings
    let queue: SampleQueue
    let central: Central
    let recorder: Recorder
    let deliveries: Deliveries
    let health: HealthMonitor
    /// Enrollments are changed one at a time: the number of a new one must not go to another's tokens.
    let enrollmentChanges = OneAtATime()
    /// Called before each step of a change to an enrollment; what it throws makes the step fail. For tests.
    var failing: @Sendable (EnrollmentStep) throws -> Void = { _ in }
    let session = PairingSession()
    let importSession: ImportSession
    let shares: Shares
    /// What the control socket and the page say of themselves.
    nonisolated let servers = ServerStates()
    /// The link that a phone is to hand over, if one is waited for.
    var webEnrollment = OneTimeEnrollment()
    let clock: any GatewayClock
    let logger: Logger

    /// Today's coverage by sensor, and when it was counted (uptime, µs).
    var coverageCounted: [Int64: (percent: Double?, uptime: Int64)] = [:]
    private let startedUptime: Int64
    /// Whether all that the store knows is recorded and delivered.
    private var isTakenUp = false

    init(
        settings: Settings, queue: SampleQueue, central: Central, clock: any GatewayClock,
        logger: Logger, services: ServiceStates = ServiceStates()
    ) {
        self.settings = settings
        self.queue = queue
        self.central = central
        self.clock = clock
        self.logger = logger
        recorder = Recorder(
            queue: queue, central: central, clock: clock, policy: settings.decodePolicy,
            logger: logger)
        importSession = ImportSession(directory: settings.stateDirectory)
        shares = Shares(stateDirectory: settings.stateDirectory)
        deliveries = Deliveries(settings: settings, queue: queue, clock: clock, logger: logger)
        health = HealthMonitor(
            recording: RecordingHealth(recorder: recorder, central: central, queue: queue),
            deliveries: DeliveryHealth(queue: queue, deliveries: deliveries), services: services,
            servers: servers,
            clock: clock, batteryLowPercent: settings.batteryLowPercent, logger: logger)
        startedUptime = clock.read().uptimeMicroseconds
    }

    /// Takes up what the store knows: straps to record, deliveries to run. A store that cannot be written or
    /// read at the moment keeps nothing from starting; the rest follows when it can be.
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

    private func takeUp() async throws {
        var isComplete = true
        let sensors = try await queue.sensors()
        for assignment in try await queue.openAssignments() {
            guard let sensor = sensors.first(where: { $0.id == assignment.sensorID }) else {
                continue
            }
            await record(sensor, as: assignment.id)
        }
        for enrollment in try await queue.enrollments() {
            do {
                try await startDelivery(of: enrollment.id)
            } catch let error as QueueError where error.isStoreTrouble {
                logger.error("start delivery: \(error)")
                isComplete = false
            }
        }
        isTakenUp = isComplete
    }

    /// The store can be written again: what could not be taken up is taken up now.
    func takeUpAfterAbsence() async {
        guard !isTakenUp else { return }
        do {
            try await takeUp()
        } catch {
            logger.error("read store: \(error)")
        }
    }

    /// Records a sensor from now on.
    func record(_ sensor: Sensor, as assignment: Int64) async {
        await recorder.record(
            address: sensor.address, sensorID: sensor.id, assignmentID: assignment)
        await central.watch(
            address: sensor.address, service: HeartRateService.service,
            characteristic: HeartRateService.measurement)
    }

    /// Starts the delivery of an enrollment, or says in the books that it cannot run.
    func startDelivery(of id: Int64) async throws {
        guard let enrollment = try await queue.enrollments().first(where: { $0.id == id }) else {
            return
        }
        let hasTokens = await deliveries.start(enrollment, tokens: tokenFile(of: id))
        if !hasTokens {
            try await queue.setState(enrollment: id, .enrollAgain)
        } else if enrollment.state == .enrollAgain,
            enrollment.holdReason != HoldReason.enrollAgain.rawValue
        {
            // The file could not be read at an earlier start; the exchange itself has refused nothing.
            try await queue.setState(enrollment: id, .active)
        }
    }

    /// Starts every delivery that should run and does not: its tokens could not be read, or the store failed
    /// when it was last to start.
    func startMissingDeliveries() async {
        await changingEnrollments {
            do {
                for enrollment in try await queue.enrollments()
                where await !deliveries.isRunning(enrollment.id) {
                    try await startDelivery(of: enrollment.id)
                }
            } catch {
                logger.error("start delivery: \(error)")
            }
        }
    }

    /// Does `work` while no other change to an enrollment is under way.
    func changingEnrollments<Value>(
        _ work: () async throws -> Value
    ) async rethrows -> Value {
        await enrollmentChanges.enter()
        do {
            let value = try await work()
            await enrollmentChanges.leave()
            return value
        } catch {
            await enrollmentChanges.leave()
            throw error
        }
    }

    // MARK: - Reports

    /// The known sensors and their links.
    func sensors(includingForgotten: Bool = false) async throws -> [SensorReport] {
        try await asking {
            let enrollments = try await queue.enrollments()
            let assignments = try await queue.openAssignments()
            var reports: [SensorReport] = []
            for sensor in try await queue.sensors(includingForgotten: includingForgotten) {
                let enrollment = assignments.first { $0.sensorID == sensor.id }?.enrollmentID
                reports.append(
                    try await report(
                        on: sensor,
                        enrollment: enrollments.first { $0.id == enrollment }?.terms.name))
            }
            return reports
        }
    }

    /// The report on one sensor.
    func report(on sensor: Sensor, enrollment: String?) async throws -> SensorReport {
        let balance = try await queue.balance(of: .sensor(sensor.id))
        let session = await recorder.session(of: sensor.address)
        let link = await recorder.link(of: sensor.address)
        let now = clock.read().uptimeMicroseconds
        let age = session?.latestUptimeMicroseconds.map { Double(now - $0) / 1_000_000 }
        // An old rate is no rate: nobody shall mistake it for a beating heart.
        let isFresh = age.map { $0 <= Self.freshSeconds } ?? false
        return SensorReport(
            id: sensor.id, address: sensor.address,
            name: sensor.details.name ?? "", link: link.state, linkDetail: link.detail,
            bpm: isFresh ? session?.latest.map { Int($0.bpm) } : nil,
            contact: isFresh ? session?.latest?.contact.detected : nil,
            secondsSinceFrame: age, batteryPercent: session?.batteryPercent,
            lostFrames: session?.lostFrames, enrollment: enrollment,
            coverageTodayPercent: try await coverageToday(of: sensor.id), stored: balance.stored,
            pending: balance.unsent)
    }

    /// The whole state.
    func status() async throws -> StatusReport {
        try await asking {
            let sensors = try await sensors()
            let enrollments = try await enrollments()
            let balance = try await queue.balance()
            let reading = clock.read()
            let items = await health.items()
            return StatusReport(
                version: GatewayVersion.text, well: items.isEmpty, health: items,
                uptimeSeconds: Double(reading.uptimeMicroseconds - startedUptime) / 1_000_000,
                clockTrusted: reading.isTrusted, sensors: sensors, enrollments: enrollments,
                balance: BalanceReport(balance),
                oldestUnsent: balance.oldestUnsentMicroseconds.map(Date.init(microseconds:)))
        }
    }

    /// A rate counts as present for this long after its frame: straps send one a second.
    static let freshSeconds = 10.0

    /// Runs `work`; a fault of the store becomes a problem with advice.
    func asking<Report>(_ work: () async throws -> Report) async throws -> Report {
        do {
            return try await work()
        } catch let error as QueueError {
            logger.error("\(error)")
            throw ProblemReport(
                code: ProblemCode(error.code), message: "\(error.operation): \(error.cause)",
                advice: error.code.advice)
        }
    }
}

extension BalanceReport {
    init(_ balance: Balance) {
        self.init(
            received: balance.received, stored: balance.stored,
            undecodable: balance.undecodable, refused: balance.refused,
            doubled: balance.doubled, delivered: balance.delivered, pending: balance.pending,
            held: balance.held,
            dead: balance.dead, dropped: balance.dropped, buffered: balance.buffered,
            balanced: balance.isBalanced)
    }
}
