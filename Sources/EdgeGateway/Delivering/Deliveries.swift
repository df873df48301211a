import Basics
import Foundation
import Logging
import OfflineQueue
import Uplink

/// The deliveries that run: one task an enrollment, so that a stuck one never delays another.
actor Deliveries {
    private struct Delivery {
        var runner: DeliveryRunner
        var destination: any Destination
        /// Of an exchange.
        var tokens: RenewingTokens?
        var task: Task<Void, Never>

        var exchange: ExchangeDestination? { destination as? ExchangeDestination }
    }

    /// Why a delivery cannot be started.
    private enum StartFault: Error {
        /// Its tokens or secrets cannot be read: a person enrolls or adds it again.
        case noTokens(String)
        /// Its stored settings are not understood.
        case damaged(String)
        /// It publishes under this gateway's name, which another one may have.
        case otherBoard
    }

    private let settings: Settings
    private let queue: SampleQueue
    private let board: BoardWatch
    private let transport: Gateway.Transport
    private let clock: any GatewayClock
    private let logger: Logger
    private let seed: UInt64
    private var deliveries: [Int64: Delivery] = [:]
    /// Where the store tells of its commits; nil before the first delivery.
    private var commits: AsyncStream<Void>.Continuation?
    /// How often each enrollment's delivery was asked to start: the latest one counts.
    private var starts: [Int64: Int] = [:]
    /// Enrollments whose tokens are being opened, which may take a while.
    private var starting: Set<Int64> = []
    /// Whether each that should run since the start of the gateway was asked to.
    private var areAllStarted = false
    private var isEnding = false
    /// Deliveries that ended by themselves, and wait to be started again, with the reason.
    private(set) var ended: [Int64: String] = [:]
    /// Enrollments whose tokens could not be read when their delivery was last to start.
    private(set) var unreadable: Set<Int64> = []
    /// Enrollments whose deliveries wait until a person has confirmed the board.
    private(set) var waitForBoard: Set<Int64> = []

    init(
        settings: Settings, queue: SampleQueue, board: BoardWatch,
        transport: @escaping Gateway.Transport, clock: any GatewayClock, logger: Logger,
        seed: UInt64
    ) {
        self.seed = seed
        self.board = board
        self.transport = transport
        self.settings = settings
        self.queue = queue
        self.clock = clock
        self.logger = logger
    }

    /// Starts the delivery of an enrollment, with the tokens or secrets in its file where it needs some.
    ///
    /// - Returns: false when they cannot be used: then a person has to enroll again.
    @discardableResult
    func start(_ enrollment: Enrollment, tokens path: String) async -> Bool {
        guard !isEnding else { return true }
        let turn = starts[enrollment.id, default: 0] + 1
        starts[enrollment.id] = turn
        starting.insert(enrollment.id)
        defer { if starts[enrollment.id] == turn { starting.remove(enrollment.id) } }
        await stop(enrollment.id)
        var logger = logger
        logger[metadataKey: "enrollment"] = "\(enrollment.terms.name)"
        var settings = settings.delivery
        let destination: any Destination
        var tokens: RenewingTokens?
        do throws(StartFault) {
            switch enrollment.terms.kind {
            case .destination:
                let kind: any DestinationKind
                (kind, destination) = try await other(
                    enrollment, secrets: secrets(at: path), logger)
                if type(of: kind).isUnderName, await board.isOther { throw .otherBoard }
                settings.batchSamplesMax = type(of: kind).pace.batch ?? settings.batchSamplesMax
                let pace = type(of: kind).pace
                settings.interval = pace.interval ?? settings.interval
                settings.resendPause = pace.resendPause ?? settings.resendPause
                if let shortest = pace.shortestInterval, self.settings.deliveryInterval == nil {
                    settings.shortestInterval = shortest
                }
            case .invitation, .practitionerKey:
                let file = TokenFile(path: path, policy: self.settings.sealTokens)
                (destination, tokens) = try await exchange(enrollment, file, logger)
                if self.settings.deliveryInterval == nil {
                    settings.shortestInterval = DeliverySettings.exchangeInterval
                }
            }
            unreadable.remove(enrollment.id)
            waitForBoard.remove(enrollment.id)
        } catch {
            return note(error, of: enrollment.id, logger)
        }
        let runner = await runner(of: enrollment, to: destination, settings, logger)
        await followCommits()
        guard starts[enrollment.id] == turn, !isEnding else { return true }
        ended[enrollment.id] = nil
        deliveries[enrollment.id] = Delivery(
            runner: runner, destination: destination, tokens: tokens,
            task: keepRunning(runner, logger))
        return true
    }

    /// Notes why a delivery could not start. Returns whether another cause than the tokens is at fault.
    private func note(_ fault: StartFault, of enrollment: Int64, _ logger: Logger) -> Bool {
        switch fault {
        case .noTokens(let fault):
            let isNew = unreadable.insert(enrollment).inserted
            logger.log(
                level: isNew ? .error : .debug, "load tokens", metadata: ["fault": "\(fault)"])
            return false
        case .otherBoard:
            waitForBoard.insert(enrollment)
            return true
        case .damaged(let fault):
            if ended[enrollment] != fault { logger.error("start delivery: \(fault)") }
            ended[enrollment] = fault
            return true
        }
    }

    private func exchange(
        _ enrollment: Enrollment, _ file: TokenFile, _ logger: Logger
    ) async throws(StartFault) -> (ExchangeDestination, RenewingTokens) {
        let record = try await load(file, logger)
        try mustBelong(record.origin.description, to: enrollment)
        let transport = transport(settings.curl)
        let tokens = RenewingTokens(
            record: record, file: file, transport: transport, clock: clock, logger: logger)
        let destination = ExchangeDestination(
            terms: enrollment.terms, tokens: tokens, transport: transport, clock: clock,
            logger: logger,
            termsChanged: { [queue, logger] terms in
                do {
                    try await queue.updateEnrollment(enrollment.id, terms: terms)
                } catch {
                    logger.error("store terms", metadata: ["fault": "\(error)"])
                }
            })
        guard let destination else { throw .damaged("the stored exchange address is damaged") }
        return (destination, tokens)
    }

    private func other(
        _ enrollment: Enrollment, secrets file: SecretFile<DestinationSecrets>, _ logger: Logger
    ) async throws(StartFault) -> (any DestinationKind, any Destination) {
        let secrets = try await load(file, logger)
        try mustBelong(secrets.place, to: enrollment)
        let kind: any DestinationKind
        do {
            kind = try enrollment.terms.destination(secrets)
        } catch {
            throw .damaged("\(error)")
        }
        let parts = DestinationParts(
            transport: transport(settings.curl), network: settings.curl, clock: clock,
            logger: logger,
            tokens: secrets.tokens,
            saveTokens: { tokens in
                try file.save(
                    DestinationSecrets(
                        place: secrets.place, values: secrets.values, tokens: tokens))
            })
        return (kind, kind.make(parts))
    }

    /// Tokens and secrets are sent only to the address that they are for. Their file and the store are written one after
    /// the other, and the power may fail in between.
    private func mustBelong(
        _ place: String, to enrollment: Enrollment
    ) throws(StartFault) {
        guard place == enrollment.terms.origin else {
            throw .damaged(
                "its tokens are for another address, because a change was cut off: run that command again "
                    + "(enroll --moved, or destination add --replace)"
            )
        }
    }

    private func secrets(at path: String) -> SecretFile<DestinationSecrets> {
        SecretFile(path: path, policy: settings.sealTokens)
    }

    /// Runs a delivery until it is stopped: one that ends by itself is reported and started again.
    private func keepRunning(_ runner: DeliveryRunner, _ logger: Logger) -> Task<Void, Never> {
        Task { [weak self, clock] in
            await KeepRunning.keepRunning(
                clock: clock.uptime,
                { await runner.run() },
                report: { fault in
                    if let fault {
                        logger.error("the delivery ended", metadata: ["fault": "\(fault)"])
                    }
                    await self?.note(runner.enrollmentID, ended: fault.map { "\($0)" })
                })
        }
    }

    private func note(_ enrollment: Int64, ended fault: String?) { ended[enrollment] = fault }

    /// Tells the deliveries of the store's commits from now on: they fetch after the same ones.
    private func followCommits() async {
        guard commits == nil else { return }
        let (told, commits) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.commits = commits
        // On the store's thread, which was at work just now: no other one wakes up for it.
        Task(executorPreference: queue.tasks) { [weak self] in
            for await _ in told { await self?.samplesCommitted() }
        }
        await queue.onCommit { commits.yield() }
    }

    private func samplesCommitted() async {
        let runners = deliveries.sorted { $0.key < $1.key }.map(\.value.runner)
        for (position, runner) in runners.enumerated() {
            await runner.samplesCommitted(
                turn: SharedFetches.turn(position, of: runners.count))
        }
    }

    /// Whether the delivery of an enrollment was started, and not stopped.
    func isRunning(_ enrollment: Int64) -> Bool { deliveries[enrollment] != nil }

    /// Why the delivery of an enrollment does not run though it should; nil while it does, and where its
    /// tokens cannot be read.
    func stopped(_ enrollment: Int64) -> String? {
        if let fault = ended[enrollment] { return fault }
        if deliveries[enrollment] != nil || unreadable.contains(enrollment)
            || waitForBoard.contains(enrollment) || starting.contains(enrollment)
        {
            return nil
        }
        return areAllStarted ? "it was not started" : nil
    }

    /// Each delivery that should run was asked to start.
    func noteAllStarted() { areAllStarted = true }

    /// Reads a record, and seals its file where that can be done. `systemd-creds` takes a second with a TPM, and ten if it
    /// hangs: meanwhile `status` asks this actor.
    private func load<Record>(
        _ file: SecretFile<Record>, _ logger: Logger
    ) async throws(StartFault) -> Record {
        let read = { @Sendable () -> Result<Record, any Error> in
            Result {
                let record = try file.load()
                Self.seal(file, logger)
                return record
            }
        }
        let isInClear = file.policy == .never && (try? file.isSealed()) != true
        switch isInClear ? read() : await OwnThread.value("tokens", read) {
        case .success(let record): return record
        case .failure(let fault): throw .noTokens("\(fault)")
        }
    }

    /// Tokens stored in clear, as before an update, are sealed where that can be done.
    private static func seal<Record>(_ file: SecretFile<Record>, _ logger: Logger) {
        do {
            if file.policy != .never, try !file.isSealed() { try file.save(try file.load()) }
            let word = try file.isSealed() ? "sealed" : "in clear"
            logger.info("tokens are stored \(word)")
        } catch {
            logger.warning("seal tokens", metadata: ["fault": "\(error)"])
        }
    }

    private func runner(
        of enrollment: Enrollment, to destination: any Destination, _ settings: DeliverySettings,
        _ logger: Logger
    ) async -> DeliveryRunner {
        let unanswered: Uptime?
        do {
            unanswered = try await queue.unansweredRequest(enrollment: enrollment.id)
        } catch {
            // Unknown: the samples rest as if a request had been sent just now.
            unanswered = clock.read().uptime
        }
        return DeliveryRunner(
            enrollment: enrollment, queue: queue, destination: destination, clock: clock,
            logger: logger, settings: settings,
            unansweredSince: unanswered, seed: seed &+ UInt64(bitPattern: enrollment.id))
    }

    /// Ends a delivery; a request under way is given up, and its samples are sent again later. A token
    /// renewal under way is waited for: a new pair that is not stored locks the gateway out. Only the end of the
    /// gateway does not wait for ever (``Daemon``).
    func stop(_ enrollment: Int64) async {
        guard let delivery = deliveries.removeValue(forKey: enrollment) else { return }
        delivery.task.cancel()
        await delivery.task.value
        ended[enrollment] = nil
        await delivery.destination.finish()
    }

    /// Has the destination of an enrollment whose delivery does not run end what it shows to others, but for what
    /// `next`, which takes its place, shows as well. Gives what they still see; nil if that is nothing.
    func withdraw(
        _ enrollment: Enrollment, tokens path: String, for next: (any DestinationKind)? = nil
    ) async throws -> String? {
        // Secrets that cannot be read cannot be used either.
        guard
            let (kind, destination) = try? await other(
                enrollment, secrets: secrets(at: path), logger)
        else { return nil }
        // If another gateway may have this name, what is published under it belongs to that gateway.
        if type(of: kind).isUnderName {
            guard await !board.isOther else { return nil }
        }
        // From the store: straps may have been forgotten while nothing could be shown.
        let sensors = try await queue.sensors(includingForgotten: true).map(\.id)
        let left = await destination.withdraw(sensors: sensors, for: next)
        await destination.finish()
        return left
    }

    /// The enrollment is gone: its number may be another's some day.
    func forget(_ enrollment: Int64) {
        unreadable.remove(enrollment)
        waitForBoard.remove(enrollment)
        ended[enrollment] = nil
    }

    /// Whether the destination of a delivery that runs answers; nil if it does not run.
    func isHealthy(_ enrollment: Int64) async -> Bool? {
        await deliveries[enrollment]?.destination.isHealthy()
    }

    /// The deliveries that run whose destinations show the gateway's state, each with how often it was
    /// started.
    var showing: [Int64: Int] {
        starts.filter { deliveries[$0.key]?.destination.showsState ?? false }
    }

    /// Has them show it at once, and returns when the slowest has: one that does not answer takes a minute.
    func show(_ state: GatewayState) async {
        let destinations = deliveries.values.map(\.destination).filter(\.showsState)
        await withDiscardingTaskGroup { group in
            for destination in destinations { group.addTask { await destination.show(state) } }
        }
    }

    /// Ends every delivery. None waits for another.
    func stopAll() async {
        isEnding = true
        await withDiscardingTaskGroup { group in
            for enrollment in deliveries.keys { group.addTask { await self.stop(enrollment) } }
        }
        commits?.finish()
        commits = nil
    }

    /// Something changed for the better, such as a new assignment: look at once.
    func wake(_ enrollment: Int64) async {
        await deliveries[enrollment]?.runner.wake()
    }

    /// There is something new to deliver, for whichever enrollment it is.
    func wakeAll() async {
        for delivery in deliveries.values { await delivery.runner.wake() }
    }

    /// When the token in use ends; nil if it is refused, and for a delivery that needs none or does not run.
    func tokenExpiry(of enrollment: Int64) async -> UTC? {
        await deliveries[enrollment]?.tokens?.expires
    }

    /// Whether the token in use is refused, and there is no new one yet.
    func isTokenRefused(of enrollment: Int64) async -> Bool {
        await deliveries[enrollment]?.tokens?.isRefused ?? false
    }

    /// The reason why an enrollment's samples are not delivered: its tokens, the end of its delivery, or a fault that
    /// has lasted for a minute or for more than one attempt; nil while all is well.
    func fault(of enrollment: Int64) async -> String? {
        if unreadable.contains(enrollment) {
            return "the tokens or secrets cannot be read (log: \"load tokens\")"
        }
        if let fault = ended[enrollment] { return fault }
        return await facts(of: enrollment)?.lastingFault(at: clock.read().uptime)
    }

    /// How the delivery of an enrollment goes; nil if it does not run.
    func facts(of enrollment: Int64) async -> DeliveryFacts? {
        await deliveries[enrollment]?.runner.facts
    }

    /// Why single patients' samples are kept back, in a delivery that serves many and goes on.
    func heldPatients(of enrollment: Int64) async -> [String?: HoldReason] {
        await deliveries[enrollment]?.runner.heldPatients ?? [:]
    }

    /// The access that the exchange gives a practitioner's enrollment for one patient; nil if it cannot
    /// be asked because the delivery does not run.
    func access(
        of patient: String, enrollment: Int64
    ) async -> Result<PatientAccess?, ExchangeReader.Fault>? {
        await deliveries[enrollment]?.exchange?.access(of: patient)
    }

    /// Has an exchange's delivery take the person whom the exchange names now for the one whom the number meant before;
    /// nil if it does not run.
    func confirmPerson(_ patient: String?, of enrollment: Int64) async -> PersonConfirmation? {
        guard let delivery = deliveries[enrollment], let exchange = delivery.exchange else {
            return nil
        }
        let outcome = await exchange.confirmPerson(patient)
        if outcome == .confirmed { await delivery.runner.wake() }
        return outcome
    }

    /// Gives a practitioner's enrollment the device and code it does not have yet.
    func adopt(_ access: PatientAccess, device: String, enrollment: Int64) async {
        await deliveries[enrollment]?.exchange?.adopt(access, device: device)
    }
}

extension EnrollmentTerms {
    /// The settings of a destination, as they are stored: JSON without secrets.
    var settingValues: [String: String] {
        let stored = Data((settings ?? "").utf8)
        return (try? JSONDecoder().decode([String: String].self, from: stored)) ?? [:]
    }

    /// The destination that these terms and secrets describe.
    func destination(
        _ secrets: DestinationSecrets
    ) throws(DestinationProblem) -> any DestinationKind {
        let values = settingValues.merging(secrets.values.mapValues(\.revealed)) { $1 }
        return try DestinationRegistry.destination(system ?? "", values)
    }
}

extension Settings {
    var plainHTTP: Origin.PlainHTTP { allowPlainHTTP ? .allowed : .loopback }

    /// How exchanges are reached.
    var curl: CurlSettings {
        var curl = CurlSettings()
        curl.plainHTTP = plainHTTP
        curl.authorityFile = caFile
        curl.clientCertificateFile = clientCertificateFile
        curl.clientKeyFile = clientKeyFile
        curl.proxy = proxy
        return curl
    }

    /// How it delivers, to other systems than an exchange.
    var delivery: DeliverySettings {
        var delivery = DeliverySettings()
        delivery.batchSamplesMax = batchSamples
        if let deliveryInterval {
            (delivery.shortestInterval, delivery.interval) = (deliveryInterval, deliveryInterval)
        }
        // The loader has checked the list.
        delivery.policy = (try? DeliveryPolicy(withholding: withheldFlags)) ?? DeliveryPolicy()
        return delivery
    }
}
