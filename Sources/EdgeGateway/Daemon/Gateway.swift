import Basics
import BlueZ
import GATTHeartRate
import Health
import Logging
import OfflineQueue
import Recording
import Uplink

/// The services of a gateway, each with what it uses. It has no state: whatever changes belongs to one service,
/// store or actor.
struct Gateway: Sendable {
    /// The transport of requests to servers.
    typealias Transport = @Sendable (CurlSettings) -> any HTTPTransport
    /// Hundreds of destinations must not need hundreds of threads. Destinations that share one wait for each other's
    /// requests, even to be stopped.
    private static let uplinks = TaskThreads(label: "uplink", most: 64)

    let settings: Settings
    let logger: Logger

    let queue: SampleQueue
    let recorder: Recorder
    let deliveries: Deliveries
    let alerts: Alerts
    let health: HealthMonitor
    let shares: Shares
    let importSession: ImportSession
    let enrollmentChanges: EnrollmentChanges
    let startup: Startup
    let board: BoardWatch

    let status: StatusService
    let metrics: CountedMetrics
    let sensors: Sensors
    let scanning: ScanService
    let pairing: PairingService
    let pairingQuestions: PairingQuestions
    let enrollments: Enrollments
    let enrolling: EnrollmentService
    let webEnrolling: WebEnrollmentService
    let erasing: EraseService
    let destinations: Destinations
    let destinationDetails: DestinationDetails
    let destinationService: DestinationService
    let alertService: AlertService
    let gaps: GapService
    let store: QueueService
    let assigning: AssignService
    let redelivery: RedeliveryService
    let deadLetters: DeadLetterService
    let imports: ImportService
    let history: HistoryService
    let sharing: ShareService
    let feed: LiveFeed
    let viewers = Viewers()

    /// - Parameters:
    ///   - services: the parts of the daemon that run or do not, for `status`.
    ///   - transport: what carries requests to exchanges and destinations.
    ///   - failing: called before each step of a change to an enrollment; what it throws makes the step fail.
    ///     For tests.
    ///   - board: what this machine's hardware carries.
    ///   - seed: chooses the pauses of deliveries, which are random.
    init(
        settings: Settings, queue: SampleQueue, central: Central, clock: any GatewayClock,
        logger: Logger, services: ServiceStates = ServiceStates(),
        transport: @escaping Transport = { CurlTransport($0, on: Gateway.uplinks.next()) },
        failing: @escaping @Sendable (EnrollmentStep) throws -> Void = { _ in },
        board: @escaping @Sendable () -> BoardTraits = { BoardTraits() },
        seed: UInt64 = .random(in: .min ... .max)
    ) {
        self.settings = settings
        self.logger = logger
        self.queue = queue
        recorder = Recorder(
            queue: queue, central: central, clock: clock, policy: settings.decodePolicy,
            needsContact: settings.delivery.policy.withheld.contains(.contactLost), logger: logger)
        self.board = BoardWatch(queue: queue, logger: logger, traits: board)
        deliveries = Deliveries(
            settings: settings, queue: queue, board: self.board, transport: transport, clock: clock,
            logger: logger, seed: seed)
        alerts = Alerts(settings: settings, queue: queue, clock: clock, logger: logger)
        health = HealthMonitor(
            recording: RecordingHealth(recorder: recorder, central: central, queue: queue),
            deliveries: DeliveryHealth(queue: queue, deliveries: deliveries), services: services,
            alerts: alerts, board: self.board,
            clock: clock, batteryLowPercent: settings.batteryLowPercent, logger: logger)

        let recording = SensorRecording(
            queue: queue, recorder: recorder, central: central, logger: logger)
        let radio = RadioReadiness(recorder: recorder, clock: clock.uptime)
        let pairingSessions = PairingSessions()
        importSession = ImportSession(directory: settings.stateDirectory)
        let page = PageLink(settings: settings, services: services)
        shares = Shares(stateDirectory: settings.stateDirectory)
        enrollmentChanges = EnrollmentChanges(
            queue: queue, deliveries: deliveries, settings: settings, logger: logger,
            failing: failing)
        startup = Startup(
            queue: queue, recording: recording, changes: enrollmentChanges,
            importSession: importSession, board: self.board, logger: logger)

        sensors = Sensors(
            queue: queue, recorder: recorder,
            coverage: TodaysCoverage(queue: queue, clock: clock), clock: clock)
        enrollments = Enrollments(queue: queue, deliveries: deliveries)
        destinations = Destinations(queue: queue, deliveries: deliveries, clock: clock)
        var identity = settings.identity
        identity.board = board().id
        status = StatusService(
            queue: queue, sensors: sensors, enrollments: enrollments, destinations: destinations,
            health: health, clock: clock,
            started: clock.read().uptime, identity: identity, marks: settings.strapMarks)
        metrics = CountedMetrics(status: status)
        scanning = ScanService(queue: queue, central: central, radio: radio)
        let patients = PatientCheck(deliveries: deliveries)
        pairing = PairingService(
            queue: queue, central: central, recorder: recorder, radio: radio,
            recording: recording, sensors: sensors, enrollments: enrollments,
            patients: patients, deliveries: deliveries,
            sessions: pairingSessions, logger: logger)
        pairingQuestions = PairingQuestions(central: central, sessions: pairingSessions)
        enrolling = EnrollmentService(
            settings: settings, queue: queue, enrollments: enrollments,
            changes: enrollmentChanges, transport: transport, clock: clock, logger: logger)
        webEnrolling = WebEnrollmentService(enrolling: enrolling, page: page)
        erasing = EraseService(
            queue: queue, enrollments: enrollments, changes: enrollmentChanges,
            recorder: recorder, deliveries: deliveries, logger: logger)
        destinationDetails = DestinationDetails(
            queue: queue, destinations: destinations, changes: enrollmentChanges, clock: clock)
        destinationService = DestinationService(
            settings: settings, queue: queue, destinations: destinations,
            changes: enrollmentChanges, erasing: erasing,
            straps: DestinationStraps(
                queue: queue, destinations: destinations, deliveries: deliveries,
                recorder: recorder),
            probing: DestinationProbe(
                settings: settings, destinations: destinations, changes: enrollmentChanges,
                deliveries: deliveries, transport: transport, clock: clock, logger: logger),
            deliveries: deliveries, logger: logger)
        alertService = AlertService(alerts: alerts)
        gaps = GapService(queue: queue, clock: clock)
        deadLetters = DeadLetterService(
            queue: queue, destinations: destinations, deliveries: deliveries)
        store = QueueService(
            queue: queue, deadLetters: deadLetters, deliveries: deliveries, logger: logger)
        assigning = AssignService(
            queue: queue, enrollments: enrollments, patients: patients,
            changes: enrollmentChanges, deliveries: deliveries, logger: logger)
        redelivery = RedeliveryService(
            queue: queue, enrollments: enrollments, deliveries: deliveries, logger: logger)
        imports = ImportService(
            queue: queue, enrollments: enrollments, deliveries: deliveries, session: importSession,
            logger: logger)
        history = HistoryService(queue: queue, recorder: recorder, clock: clock)
        sharing = ShareService(queue: queue, shares: shares, page: page)
        feed = LiveFeed(
            live: LiveService(queue: queue, central: central, recorder: recorder, clock: clock),
            status: status, history: history, order: settings.pageOrder, clock: clock.uptime)
    }
}
