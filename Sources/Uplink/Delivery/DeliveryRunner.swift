import Basics
import Logging
import OfflineQueue
import Synchronization

/// Runs one delivery: takes samples from the queue, delivers them, and settles what became of them.
public actor DeliveryRunner {
    /// The enrollment whose samples it delivers.
    public nonisolated let enrollmentID: Int64

    private let queue: SampleQueue
    private let destination: any Destination
    private let clock: any GatewayClock
    private let logger: Logger
    private var delivery: Delivery
    private let resolution: Resolution
    private var plan = SettlePlan()
    private var books = DataPointBooks()
    private var requestRecord: UploadRecord?
    private var isAnswered = false
    private var recordedHold: HoldReason?
    private var recordedPatients: [String?: HoldReason] = [:]
    private let servesMany: Bool
    private var sleeper: Task<Void, Never>?
    private var hasRung = false
    /// Why the last attempt delivered nothing, or could not be made. Whatever else the destination does meanwhile does not
    /// change it.
    private var fault: String?
    private var faultAdvice: String?
    private var ledgerDue = Uptime.zero
    private var ledgerFault: String?
    /// Entries of it that were given up since the start, and why the last one was.
    private var ledgerRefusals: (count: Int, words: String)?
    /// Most entries of it in a request: no more than samples.
    private var ledgerLimit: Int {
        min(destination.ledgerEntriesMax, ledgerCut ?? max(delivery.settings.batchSamplesMax, 1))
    }
    /// The same after a request that had too many.
    private var ledgerCut: Int?

    /// From one look for gaps and days that are over to the next: they are for whoever analyses the data
    /// later.
    static let ledgerPause = Duration.seconds(300)
    /// The longest sleep: bounds what a wrongly computed deadline can cost.
    static let sleepMax = Duration.seconds(60)

    /// A runner for the delivery of `enrollment`. `unansweredSince` is the queue's
    /// `unansweredRequest(enrollment:)`; `seed` chooses its pauses, which are random.
    public init(
        enrollment: Enrollment, queue: SampleQueue, destination: any Destination,
        clock: any GatewayClock, logger: Logger, settings: DeliverySettings = DeliverySettings(),
        unansweredSince: Uptime? = nil, seed: UInt64 = .random(in: .min ... .max)
    ) {
        enrollmentID = enrollment.id
        self.queue = queue
        self.destination = destination
        self.clock = clock
        self.logger = logger
        resolution = Resolution(stored: enrollment.terms.resolution)
        servesMany = enrollment.terms.kind == .practitionerKey || destination.servesMany
        recordedHold = enrollment.holdReason.flatMap { HoldReason(rawValue: $0) }
        let random = Mutex(SeededRandom(seed: seed))
        delivery = Delivery(
            settings: settings, heldSince: recordedHold, unansweredSince: unansweredSince,
            mayRace: destination.mayRace
        ) { range in
            let microseconds = range.lowerBound.microseconds...range.upperBound.microseconds
            return .microseconds(random.withLock { Int64.random(in: microseconds, using: &$0) })
        }
    }

    /// How the delivery goes, without a request.
    public var facts: DeliveryFacts {
        get async {
            var partialFault = await destination.partialFault
            if let ledgerFault {
                partialFault = "gaps are not taken: \(ledgerFault)"
            } else if partialFault == nil, let refusals = ledgerRefusals {
                let gaps = refusals.count.counted("gap was", "gaps were")
                partialFault = "\(gaps) refused: \(refusals.words)"
            }
            return DeliveryFacts(
                state: delivery.state, trouble: delivery.trouble, fault: fault,
                faultAdvice: faultAdvice,
                partialFault: partialFault, interval: delivery.settings.interval,
                dataPoints: books)
        }
    }

    /// Why single patients' samples are kept back, in a delivery that serves many and goes on; nil: samples that name
    /// none.
    public var heldPatients: [String?: HoldReason] { delivery.heldPatients }

    /// Delivers until the task is cancelled.
    public func run() async {
        delivery.resume(uptime)
        // This delivery has to find out what an earlier one of this enrollment held.
        await queue.setHolds(enrollment: enrollmentID, patients: [:])
        await destination.begin()
        while !Task.isCancelled {
            let next = await advance()
            if !Task.isCancelled { await sleep(until: next) }
        }
    }

    /// Says that something changed for the better: a hold is checked now, and a pause after
    /// missing connections ends.
    public func wake() {
        delivery.wake(uptime)
        interruptSleep()
    }

    /// The store has committed samples. `turn` is how long the others of the gateway take that fetch first
    /// (``SharedFetches/turn(_:of:)``).
    public func samplesCommitted(turn: Duration) {
        if delivery.samplesCommitted(turn: turn, uptime) { interruptSleep() }
    }

    /// Goes as far as it can without waiting; returns the uptime at which to go on.
    ///
    /// One call at a time: `run` makes them, or a test does.
    public func advance() async -> Uptime {
        while !Task.isCancelled {
            switch delivery.step(uptime) {
            case .wait(let until):
                await recordHold()
                await deliverLedgerIfDue(before: until)
                return until ?? uptime + Self.sleepMax
            case .fetch(let limit):
                guard await isCommitted() else { continue }
                await fetch(limit, of: .except(Set(delivery.heldPatients.keys)))
            case .fetchTrial(let patient): await fetch(1, of: .only(patient))
            case .send(let indices): await deliver(indices, alone: false)
            case .sendAlone(let index): await deliver([index], alone: true)
            case .checkHealth:
                let isHealthy = await destination.isHealthy()
                resolve(delivery.checked(isHealthy: isHealthy, uptime))
                await settle()
            case .checkSilence:
                let isOver = await destination.isSilenceOver()
                if !isOver { await noteFault() }
                delivery.checkedSilence(isOver: isOver, uptime)
            case .probe(let reason):
                let isMended = await destination.isMended(reason)
                delivery.probed(isMended: isMended, uptime)
                // A hold of an earlier run: nothing was said of it yet.
                if !isMended, fault == nil { await noteFault() }
            case .probePatient(let patient, let reason):
                let isMended = await destination.isMended(reason, of: patient)
                delivery.probedPatient(isMended: isMended, uptime)
            }
        }
        return uptime
    }

    private var uptime: Uptime { clock.read().uptime }

    // MARK: - Steps

    /// Whether all is committed that the next fetch is to find; else it is put off until that is due.
    private func isCommitted() async -> Bool {
        guard let patience = delivery.commitPatience(uptime) else { return true }
        do {
            guard let due = try await queue.flush(unlessWithin: patience) else { return true }
            delivery.awaitCommit(due)
            return false
        } catch {
            // A disk that takes nothing tells its own way.
            return true
        }
    }

    private func fetch(_ limit: Int, of patients: PatientFilter) async {
        do {
            let oldest = try await queue.oldest(
                enrollment: enrollmentID, resolution, limit: limit, of: patients)
            // Not planned where they are not wanted: they would take the heart rates' place in a request.
            let hasIntervals = oldest.groups.contains {
                $0.samples.contains(where: \.mayHoldIntervals)
            }
            let intervals = hasIntervals ? await destination.mayTakeIntervals() : false
            plan = SettlePlan(
                oldest.groups, resolution, straps: oldest.straps, delivery.settings.policy,
                intervals: intervals)
            delivery.fetched(
                plan.known, patients: servesMany ? plan.points.map(\.patient) : [],
                hasMore: oldest.hasMore, arrivalsPerSecond: plan.arrivalsPerSecond, uptime)
        } catch {
            logger.error("fetch samples", metadata: ["fault": "\(error)"])
            delivery.storeFailed(uptime)
            return
        }
        await settle()
    }

    private func deliver(_ indices: [Int], alone: Bool) async {
        let points = indices.map { plan.points[$0] }
        do {
            // If this program dies now, the next run must not send the same samples at once.
            if destination.mayRace { try await queue.beginRequest(enrollment: enrollmentID) }
        } catch {
            logger.error("begin request", metadata: ["fault": "\(error)"])
            delivery.storeFailed(uptime)
            return
        }
        let began = uptime
        let answer = await destination.deliver(points, alone: alone)
        let now = uptime
        if case .notSent = answer { await queue.cancelRequest(enrollment: enrollmentID) }
        await noteFault()
        let took = await destination.requestTook ?? now - began
        resolve(delivery.answered(answer, took: took, now))
        isAnswered = answer.isCertain
        if let word = answer.recordWord {
            requestRecord = UploadRecord(plan.samples(ofPoints: indices), outcome: word)
        }
        logger.debug(
            "deliver data points",
            metadata: ["count": "\(indices.count)", "outcome": "\(answer.word)"])
        await settle()
        await recordHold()
    }

    private func noteFault() async {
        fault = await destination.fault
        faultAdvice = fault == nil ? nil : await destination.faultAdvice
    }

    private func resolve(_ resolved: [Delivery.Resolved]) {
        plan.resolve(resolved)
        books.note(resolved, of: plan.points)
    }

    /// Settles what is ready. If the store cannot take it, the batch is forgotten and delivered
    /// again later; the destination then says that it has it.
    private func settle() async {
        let ready = plan.ready
        let record = requestRecord
        let isAnswered = isAnswered
        requestRecord = nil
        self.isAnswered = false
        guard !ready.isEmpty || record != nil else { return }
        do {
            try await queue.settleSoon(
                enrollment: enrollmentID, ready, upload: record, isAnswered: isAnswered)
            plan.settled(ready)
            delivery.storeWorked()
        } catch {
            logger.error("settle samples", metadata: ["fault": "\(error)"])
            delivery.storeFailed(uptime)
        }
    }

    /// Writes a change of the patients' holds into the books.
    private func recordPatients() async {
        let held = delivery.heldPatients
        guard held != recordedPatients else { return }
        recordedPatients = held
        await queue.setHolds(enrollment: enrollmentID, patients: held.mapValues(\.rawValue))
        // The log does not name the patients.
        logger.notice("patients held", metadata: ["count": "\(held.count)"])
    }

    /// Writes a change of the hold into the books.
    private func recordHold() async {
        await recordPatients()
        let reason = delivery.holdReason
        guard reason != recordedHold else { return }
        do {
            let state: Enrollment.State? =
                switch (recordedHold, reason) {
                case (_, .enrollAgain): .enrollAgain
                case (.enrollAgain, _): .active
                default: nil
                }
            try await queue.setHold(
                enrollment: enrollmentID, reason: reason?.rawValue, state: state)
            recordedHold = reason
            if let reason {
                logger.warning("delivery held", metadata: ["reason": "\(reason.rawValue)"])
            } else {
                logger.notice("delivery released")
            }
        } catch {
            logger.error("record hold", metadata: ["fault": "\(error)"])
        }
    }

    /// Delivers what is new in the gap ledger, behind the samples: while those are not taken it waits, and it goes on
    /// later when they are due.
    private func deliverLedgerIfDue(before samplesDue: Uptime?) async {
        guard destination.takesLedger, uptime >= ledgerDue, delivery.holdReason == nil,
            delivery.trouble == nil
        else { return }
        ledgerDue = uptime + Self.ledgerPause
        // An assignment with an entry that is not taken goes no further in this round; the others do.
        var stuck: Set<Int64> = []
        do {
            while !Task.isCancelled {
                let entries = try await queue.nextLedgerEntries(
                    enrollment: enrollmentID, limit: ledgerLimit, except: stuck)
                guard !entries.isEmpty else {
                    ledgerCut = nil
                    if stuck.isEmpty { ledgerFault = nil }
                    return
                }
                switch await destination.deliver(ledger: entries) {
                case .stored:
                    try await queue.settleLedger(enrollment: enrollmentID, entries)
                case .partly(let verdicts, let fault):
                    noteLedgerFault(fault)
                    var settled: [LedgerEntry] = []
                    for (index, entry) in entries.enumerated()
                    where !stuck.contains(entry.assignmentID) {
                        switch index < verdicts.count ? verdicts[index] : .waits {
                        case .stored: settled.append(entry)
                        case .refused:
                            settled.append(entry)
                            ledgerRefusals = ((ledgerRefusals?.count ?? 0) + 1, fault)
                        case .waits: stuck.insert(entry.assignmentID)
                        }
                    }
                    try await queue.settleLedger(enrollment: enrollmentID, settled)
                case .tooMany(let fault):
                    ledgerCut = max(entries.count / 2, 1)
                    noteLedgerFault(fault)
                    return
                case .failed(let fault):
                    noteLedgerFault(fault)
                    return
                case .later: return
                }
                guard !hasRung, samplesDue.map({ uptime < $0 }) ?? true else {
                    if stuck.isEmpty { ledgerDue = uptime }
                    return
                }
            }
        } catch {
            logger.error("deliver gap ledger", metadata: ["fault": "\(error)"])
        }
    }

    private func noteLedgerFault(_ fault: String) {
        if ledgerFault != fault {
            logger.warning("deliver gap ledger", metadata: ["fault": "\(fault)"])
        }
        ledgerFault = fault
    }

    // MARK: - Sleeping

    private func sleep(until deadline: Uptime) async {
        if hasRung {
            hasRung = false
            return
        }
        let pause = min(max(deadline - uptime, .zero), Self.sleepMax)
        let task = Task { [clock] in await clock.sleep(pause, tolerance: .zero) }
        sleeper = task
        await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        sleeper = nil
        hasRung = false
    }

    private func interruptSleep() {
        hasRung = true
        sleeper?.cancel()
    }
}
