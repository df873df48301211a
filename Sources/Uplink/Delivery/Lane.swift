import OfflineQueue

/// Decides what the delivery of one enrollment does next. A value: no clock, no store, no network.
///
/// Ask ``step(_:)`` what to do, do it, and report what came of it; until then the answer is to wait,
/// so that never two requests of a lane are under way. All times are uptimes in microseconds.
public struct Lane: Sendable {
    /// What a person sees of it.
    public enum State: Hashable, Sendable {
        /// Nothing is under way.
        case idle
        /// A request is.
        case inFlight
        /// The last attempt failed; the next is not before this uptime.
        case backoff(untilMicroseconds: Int64)
        /// A batch fails as a whole and is being taken apart to find the sample that spoils it.
        case halving
        /// Kept back until a person mends something; looked at again at this uptime.
        case held(HoldReason, nextProbeMicroseconds: Int64)
    }

    /// What to do now.
    public enum Step: Hashable, Sendable {
        /// Take the oldest samples, but of ``Lane/heldPatients``, and report
        /// ``Lane/fetched(_:patients:_:)``.
        case fetch(limit: Int)
        /// Deliver these of the fetched data points and report ``Lane/answered(_:tookMicroseconds:_:)``.
        case send([Int])
        /// Deliver one of them by itself and report the same.
        case sendAlone(Int)
        /// See whether the destination works and report ``Lane/checked(isHealthy:_:)``.
        case checkHealth
        /// See whether the reason of the hold is gone and report ``Lane/probed(isMended:_:)``.
        case probe(HoldReason)
        /// Take this patient's oldest sample and report ``Lane/fetched(_:patients:_:)``.
        case fetchTrial(patient: String)
        /// See whether the reason of one patient's hold is gone and report
        /// ``Lane/probedPatient(isMended:_:)``.
        case probePatient(String, HoldReason)
        /// Nothing before this uptime; nil while something is under way.
        case wait(untilMicroseconds: Int64?)
    }

    /// What became of one of the fetched data points.
    public struct Resolved: Hashable, Sendable {
        /// Its position among what was fetched.
        public var index: Int
        /// What to settle it as.
        public var outcome: SettledSample.Outcome
    }

    /// What became of a data point that the patient did not consent to. It is never the whole of a
    /// sample.
    static let notConsented = "not-consented"

    private enum Activity: Hashable {
        case none, fetching, checking
        case sending([Int], alone: Bool)
        case probing(HoldReason)
        case probingPatient(String)
    }

    /// The numbers it goes by.
    public let settings: LaneSettings
    private var activity = Activity.none
    private var batch: LaneBatch?
    /// Whose the fetched data points are, in a lane that serves many.
    private var patientOf: [String?] = []
    private var patients = PatientHolds()
    private var pace: LanePace
    private var hold: (reason: HoldReason, nextProbe: Int64)?
    private var notBefore = Int64.min
    private var isBackingOff = false
    private var notSentInRow = 0
    private var storeFailures = 0
    private var isTrial = false
    private let choose: @Sendable (ClosedRange<Int64>) -> Int64

    /// A lane with nothing under way; held, if it was held when the gateway stopped.
    ///
    /// - Parameters:
    ///   - unansweredSince: when a request was sent of which an earlier run never learned what became:
    ///     its samples rest as after any other unclear outcome.
    ///   - choose: picks a pause out of a range of microseconds: at random, gateways that lost the same
    ///     exchange at the same moment do not all come back at the same moment; by default the longest.
    public init(
        settings: LaneSettings = LaneSettings(), heldSince reason: HoldReason? = nil,
        unansweredSince: Int64? = nil,
        choosing choose: @escaping @Sendable (ClosedRange<Int64>) -> Int64 = { $0.upperBound }
    ) {
        self.settings = settings
        self.choose = choose
        pace = LanePace(settings)
        if let reason { hold = (reason, .min) }
        if let unansweredSince {
            backOff(settings.resendPauseMicroseconds, unansweredSince)
        }
    }

    /// What a person sees of it.
    public var state: State {
        if let hold { return .held(hold.reason, nextProbeMicroseconds: hold.nextProbe) }
        if case .sending = activity { return .inFlight }
        if batch?.isHalving == true { return .halving }
        return isBackingOff ? .backoff(untilMicroseconds: notBefore) : .idle
    }

    /// Why it is held, if it is.
    public var holdReason: HoldReason? { hold?.reason }

    /// Patients whose samples are kept back while the others' go on.
    public var heldPatients: [String: HoldReason] { patients.reasons }

    /// Largest number of samples in the next request.
    public var batchSize: Int { pace.size }

    /// What to do at `now`.
    public mutating func step(_ now: Int64) -> Step {
        guard activity == .none else { return .wait(untilMicroseconds: nil) }
        if let hold {
            guard now >= hold.nextProbe else {
                return .wait(untilMicroseconds: hold.nextProbe)
            }
            activity = .probing(hold.reason)
            return .probe(hold.reason)
        }
        if batch?.wantsHealthCheck == true {
            activity = .checking
            return .checkHealth
        }
        if batch == nil, !isBackingOff, let step = stepOfPatients(now) { return step }
        guard now >= notBefore else {
            let probe = batch == nil && !isBackingOff ? patients.nextProbe : nil
            return .wait(untilMicroseconds: min(notBefore, probe ?? notBefore))
        }
        guard let (indices, alone) = batch?.take(atMost: pace.size) else {
            batch = nil
            activity = .fetching
            return .fetch(limit: isTrial ? 1 : pace.size)
        }
        activity = .sending(indices, alone: alone)
        return alone ? .sendAlone(indices[0]) : .send(indices)
    }

    private mutating func stepOfPatients(_ now: Int64) -> Step? {
        if let patient = patients.trial {
            activity = .fetching
            return .fetchTrial(patient: patient)
        }
        guard let (patient, reason) = patients.due(now) else { return nil }
        activity = .probingPatient(patient)
        return .probePatient(patient, reason)
    }

    /// The oldest data points are at hand; `outcomes` has nil for those to be delivered. Others stand
    /// for what is settled without a request.
    ///
    /// - Parameter patients: whose each is, in a lane that serves many; nil for a lane's own patient.
    public mutating func fetched(
        _ outcomes: [SettledSample.Outcome?], patients: [String?] = [], _ now: Int64
    ) {
        guard activity == .fetching else { return }
        activity = .none
        isBackingOff = false
        patientOf = patients
        let unresolved = outcomes.indices.filter { outcomes[$0] == nil }
        if unresolved.isEmpty, self.patients.trial != nil {
            // There is nothing to try it with.
            self.patients.endTrial()
            batch = nil
            notBefore = now
            return
        }
        batch = unresolved.isEmpty ? nil : LaneBatch(unresolved)
        if outcomes.isEmpty { notBefore = now + settings.idlePollMicroseconds }
    }

    /// A request was answered, or not; returns what is settled by it.
    public mutating func answered(
        _ answer: DeliveryAnswer, tookMicroseconds: Int64, _ now: Int64
    ) -> [Resolved] {
        guard case .sending(let indices, let alone) = activity, var batch else { return [] }
        activity = .none
        isBackingOff = false
        if case .notSent = answer {} else { notSentInRow = 0 }
        var resolved: [Resolved] = []
        switch answer {
        case .entries(let entries) where entries.count == indices.count:
            pace.took(tookMicroseconds, count: indices.count)
            resolved = judge(entries, indices, alone: alone, &batch, now)
        case .entries: fail(indices, alone: alone, "miscounted", &batch, now)
        case .unclear(let word):
            pace.failed(afterMicroseconds: tookMicroseconds, count: indices.count)
            fail(indices, alone: alone, word, &batch, now)
        case .unanswered(let word):
            pace.failed(afterMicroseconds: tookMicroseconds, count: indices.count)
            fail(indices, alone: alone, word, isSilence: true, &batch, now)
        case .malformed:
            // Nothing of it was taken, so nothing needs to rest.
            batch.fail(indices, alone: alone, "malformed", settings)
            batch.startHalving()
        case .tooLarge:
            if indices.count > 1 {
                pace.limit(to: indices.count / 2)
                batch.putBack(indices)
            } else {
                holdBack(.requestRefused, until: nil, now)
            }
        case .throttled(let seconds):
            batch.putBack(indices)
            batch.throttled += 1
            let asked = min(max(seconds ?? 0, 0), settings.retryAfterSecondsMax) * 1_000_000
            backOff(max(asked, spread(settings.resendPause(attempt: batch.throttled))), now)
        case .notSent(let retryAt):
            batch.putBack(indices)
            notSentInRow += 1
            let pause = spread(settings.notSentPause(attempt: notSentInRow))
            backOff(max((retryAt ?? 0) - now, pause), now)
        case .held(let reason, let retryAt): holdBack(reason, until: retryAt, now)
        }
        return goOn(batch, resolved, now)
    }

    /// Keeps what is left of the batch, if it is to be gone on with.
    private mutating func goOn(
        _ batch: LaneBatch, _ resolved: [Resolved], _ now: Int64
    ) -> [Resolved] {
        guard hold == nil else {
            self.batch = nil
            return resolved
        }
        var batch = batch
        let concluded = conclude(&batch, now)
        if batch.isDone, hold == nil {
            isBackingOff = false
            notBefore = now
        }
        self.batch = hold == nil && !batch.isDone ? batch : nil
        return resolved + concluded
    }

    /// The destination was looked at after a batch had failed as a whole, or a sample alone; returns
    /// what is settled by it.
    public mutating func checked(isHealthy: Bool, _ now: Int64) -> [Resolved] {
        guard activity == .checking else { return [] }
        activity = .none
        guard var batch else { return [] }
        batch.wantsHealthCheck = false
        guard isHealthy else {
            self.batch = batch
            return []
        }
        if batch.isHalving { batch.singleOut() } else { batch.startHalving() }
        return goOn(batch, [], now)
    }

    /// The reason of a hold was looked at.
    public mutating func probed(isMended: Bool, _ now: Int64) {
        guard case .probing(let reason) = activity else { return }
        activity = .none
        if isMended {
            hold = nil
            notBefore = now
            // One sample is enough to see whether it is true. A fault of the exchange, though, can
            // be told from a bad sample only by others that are taken.
            isTrial = reason != .exchangeFault
        } else {
            hold = (reason, now + settings.probePauseMicroseconds)
        }
    }

    /// The reason of one patient's hold was looked at.
    public mutating func probedPatient(isMended: Bool, _ now: Int64) {
        guard case .probingPatient(let patient) = activity else { return }
        activity = .none
        patients.probed(
            patient, isMended: isMended, next: now + settings.probePauseMicroseconds)
    }

    /// Something changed for the better (the network is back, a technician asks): looks at a hold
    /// now, and does not wait out a pause in which nothing was sent.
    public mutating func nudge(_ now: Int64) {
        if let hold { self.hold = (hold.reason, min(hold.nextProbe, now)) }
        patients.nudge(now)
        if notSentInRow > 0 { isBackingOff = false }
        nudgeIfIdle(now)
    }

    /// What became of samples was written to the store.
    public mutating func storeWorked() {
        storeFailures = 0
    }

    /// There may be samples where there were none.
    public mutating func nudgeIfIdle(_ now: Int64) {
        if hold == nil, !isBackingOff { notBefore = min(notBefore, now) }
    }

    /// The store could not be read or written: leaves everything as it was and waits.
    public mutating func storeFailed(_ now: Int64) {
        activity = .none
        batch = nil
        storeFailures += 1
        backOff(settings.resendPause(attempt: storeFailures), now)
    }

    // MARK: - What an answer does

    private mutating func judge(
        _ entries: [EntryAnswer], _ indices: [Int], alone: Bool, _ batch: inout LaneBatch,
        _ now: Int64
    ) -> [Resolved] {
        var resolved: [Resolved] = []
        var unclear: [Int] = []
        var reason: HoldReason?
        var heldNow: Set<String> = []
        for (index, entry) in zip(indices, entries) {
            switch entry.verdict {
            case .stored, .storedBefore:
                resolved.append(Resolved(index: index, outcome: .delivered))
                batch.hasProof = true
                isTrial = false
            case .refused:
                resolved.append(
                    Resolved(
                        index: index,
                        outcome: .dead(
                            reason: "refused-\(entry.status)", diagnostics: entry.diagnostics)))
                isTrial = false
            case .notWanted:
                resolved.append(
                    Resolved(index: index, outcome: .dropped(reason: Self.notConsented)))
            case .held(let why):
                if let patient = patient(of: index), PatientHolds.ofOnePatient.contains(why) {
                    heldNow.insert(patient)
                    patients.hold(patient, why, probe: now + settings.probePauseMicroseconds)
                } else {
                    reason = reason ?? why
                }
            case .unclear: unclear.append(index)
            }
        }
        if patients.trial != nil {
            patients.endTrial()
            notBefore = now
        }
        if !heldNow.isEmpty {
            // The rest of theirs would be refused as well.
            batch.drop { patient(of: $0).map(heldNow.contains) ?? false }
            unclear.removeAll { patient(of: $0).map(heldNow.contains) ?? false }
        }
        if let reason {
            holdBack(reason, until: nil, now)
        } else if unclear.isEmpty {
            batch.succeeded(isBad: alone && entries.first?.verdict == .refused)
        } else {
            fail(unclear, alone: alone, "unclear entry", &batch, now)
        }
        return resolved
    }

    private func patient(of index: Int) -> String? {
        patientOf.indices.contains(index) ? patientOf[index] : nil
    }

    private mutating func fail(
        _ indices: [Int], alone: Bool, _ word: String, isSilence: Bool = false,
        _ batch: inout LaneBatch, _ now: Int64
    ) {
        // An answer that tells nothing is nothing against the patient either.
        patients.endTrial()
        batch.fail(indices, alone: alone, word, isSilence: isSilence, settings)
        backOff(spread(settings.resendPause(attempt: batch.isHalving ? 1 : batch.failures)), now)
    }

    /// When a halving is over, decides about the samples that fail even alone.
    private mutating func conclude(_ batch: inout LaneBatch, _ now: Int64) -> [Resolved] {
        guard batch.isHalving else { return [] }
        if batch.hasProof {
            guard batch.isDone else { return [] }
            return batch.suspects.sorted { $0.key < $1.key }.map {
                Resolved(
                    index: $0.key,
                    outcome: .dead(reason: "refused-without-reason", diagnostics: $0.value))
            }
        }
        // Nothing at all was taken: then it is not one sample's fault.
        if (batch.isDone && !batch.suspects.isEmpty)
            || batch.failuresHalving >= settings.halvingFailuresMax
        {
            holdBack(.exchangeFault, until: nil, now)
        }
        return []
    }

    /// A pause anywhere between the shortest resend pause, which no chance may shorten, and `pause`.
    private func spread(_ pause: Int64) -> Int64 {
        let floor = settings.resendPauseMicroseconds
        guard pause > floor else { return pause }
        return min(max(choose(floor...pause), floor), pause)
    }

    private mutating func backOff(_ pause: Int64, _ now: Int64) {
        notBefore = now + pause
        isBackingOff = true
    }

    private mutating func holdBack(_ reason: HoldReason, until: Int64?, _ now: Int64) {
        hold = (reason, max(until ?? 0, now + settings.probePauseMicroseconds))
    }
}
