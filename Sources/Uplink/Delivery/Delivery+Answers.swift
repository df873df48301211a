import Basics
import OfflineQueue

/// How an answer changes the delivery's state.
extension Delivery {
    /// A request was answered, or not; returns what is settled by it.
    public mutating func answered(
        _ answer: DeliveryAnswer, took: Duration, _ now: Uptime
    ) -> [Resolved] {
        guard case .sending(let indices, let alone) = activity, var batch else { return [] }
        activity = .none
        isBackingOff = false
        self.took = took
        pace.forgetOldLimit(now)
        if case .notSent = answer {} else { notSentInRow = 0 }
        var resolved: [Resolved] = []
        switch answer {
        case .entries(let entries) where entries.count == indices.count:
            pace.took(took, count: indices.count)
            if !hasMore { interval.answered(after: took, points: indices.count) }
            resolved = judge(entries, indices, alone: alone, &batch, now)
        case .entries:
            fail(indices, alone: alone, DeliveryBatch.Complaint("miscounted"), &batch, now)
        case .unclear(let word):
            pace.failed(after: took, count: indices.count)
            fail(indices, alone: alone, DeliveryBatch.Complaint(word), &batch, now)
        case .unanswered(let word):
            pace.failed(after: took, count: indices.count)
            isSilent = mayRace
            fail(
                indices, alone: alone, DeliveryBatch.Complaint(word), isSilence: true, &batch, now)
        case .malformed:
            // Nothing of it was taken, so nothing needs to rest.
            batch.fail(indices, alone: alone, DeliveryBatch.Complaint("malformed"), settings)
            batch.startHalving()
        case .tooLarge:
            if indices.count > 1 {
                pace.wasTooLarge(indices.count, now)
                batch.putBack(indices)
            } else if patients.trial != nil {
                // It tells nothing of the patient, who stays held; nor of the others, who go on.
                patients.breakOffTrial(next: now + settings.probePause)
                batch.drop { _ in true }
            } else {
                holdBack(.requestRefused, until: nil, now)
            }
        case .throttled(let retryAfter):
            batch.putBack(indices)
            batch.throttled += 1
            let asked = min(max(retryAfter ?? .zero, .zero), settings.retryAfterMax)
            let pause = settings.resendPause(attempt: batch.throttled, isAnswered: isQuick)
            backOff(max(asked, spread(pause)), now)
        case .notSent(let retryAt):
            batch.putBack(indices)
            notSentInRow += 1
            let pause = spread(settings.notSentPause(attempt: notSentInRow))
            backOff(max((retryAt ?? now) - now, pause), now)
        case .held(let reason, let retryAt): holdBack(reason, until: retryAt, now)
        }
        if answer.tellsOfOverload { interval.failed() }
        note(answer, resolved, now)
        return goOn(batch, resolved, now)
    }

    /// Notes whether anything is delivered, for ``trouble``.
    private mutating func note(_ answer: DeliveryAnswer, _ resolved: [Resolved], _ now: Uptime) {
        switch answer {
        case .malformed, .tooLarge: break
        case .held: trouble = nil
        case .entries(let entries)
        where !resolved.isEmpty || entries.contains(where: { $0.verdict.isHeld }): trouble = nil
        case .entries, .unclear, .unanswered, .throttled, .notSent:
            fail(since: now - took)
        }
    }

    /// Counts an attempt that delivers nothing.
    private mutating func fail(since began: Uptime) {
        trouble = Trouble(
            since: trouble?.since ?? began, attempts: (trouble?.attempts ?? 0) + 1)
    }

    /// Whether the last answer came quickly, whatever it said.
    private var isQuick: Bool { took <= settings.slow }

    /// Keeps what is left of the batch, if it is to be gone on with.
    private mutating func goOn(
        _ batch: DeliveryBatch, _ resolved: [Resolved], _ now: Uptime
    ) -> [Resolved] {
        guard !isKeptBack else {
            self.batch = nil
            return resolved
        }
        var batch = batch
        let concluded = conclude(&batch, now)
        if batch.isDone { isBackingOff = false }
        if !isKeptBack, !isBackingOff {
            notBefore = now + pause(isDone: batch.isDone)
        }
        self.batch = !isKeptBack && !batch.isDone ? batch : nil
        return resolved + concluded
    }

    /// The destination was checked: after a batch had failed as a whole, or a sample alone, or in a long
    /// pause; returns what is settled by it.
    public mutating func checked(isHealthy: Bool, _ now: Uptime) -> [Resolved] {
        if case .looking(let since) = activity {
            looked(isHealthy: isHealthy, since: since, now)
            return []
        }
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

    /// An exchange that answers slowly is one that many wait for: the pause goes on.
    private mutating func looked(isHealthy: Bool, since: Uptime, _ now: Uptime) {
        activity = .none
        if isHealthy { isSilent = false }
        if isHealthy, now - since <= settings.quick {
            notBefore = min(notBefore, now)
        } else {
            nextLook = now + lookPause
        }
    }

    /// The destination was asked, after a request without an answer, for something that it cannot tell while such a
    /// request is under way.
    public mutating func checkedSilence(isOver: Bool, _ now: Uptime) {
        guard case .checkingSilence(let since) = activity else { return }
        activity = .none
        isSilent = !isOver
        guard isSilent else { return }
        fail(since: since)
        backOff(lookPause, now)
    }

    private mutating func judge(
        _ entries: [EntryAnswer], _ indices: [Int], alone: Bool, _ batch: inout DeliveryBatch,
        _ now: Uptime
    ) -> [Resolved] {
        var resolved: [Resolved] = []
        var unclear: [Int] = []
        var reason: HoldReason?
        var heldNow: Set<String?> = []
        for (index, entry) in zip(indices, entries) {
            switch entry.verdict {
            case .stored, .storedBefore:
                resolved.append(Resolved(index: index, outcome: .delivered))
                if entry.verdict == .stored {
                    batch.stored()
                    batch.witness(unclear)
                    unprovenRounds = 0
                }
                endHold()
            case .refused:
                resolved.append(
                    Resolved(
                        index: index,
                        outcome: .dead(
                            reason: "refused-\(entry.status)", diagnostics: entry.diagnostics)))
                endHold()
            case .notWanted(let why):
                // Never the whole of a sample.
                resolved.append(
                    Resolved(index: index, outcome: .dropped(reason: why.rawValue)))
            case .held(let why):
                if patientOf.indices.contains(index), PatientHolds.ofOnePatient.contains(why) {
                    heldNow.insert(patientOf[index])
                    patients.hold(patientOf[index], why, probe: now + settings.probePause)
                } else {
                    reason = reason ?? why
                }
            case .unclear: unclear.append(index)
            }
        }
        if patients.trial != nil {
            patients.endTrial(taken: entries.contains { $0.isTaken } ? now : nil)
            notBefore = now
        }
        if !heldNow.isEmpty {
            // The rest of theirs would be refused as well.
            batch.drop { heldNow.contains(patientOf[$0]) }
            unclear.removeAll { heldNow.contains(patientOf[$0]) }
        }
        if let reason {
            holdBack(reason, until: nil, now)
        } else if unclear.isEmpty {
            batch.succeeded(indices, isBad: alone && entries.first?.verdict == .refused)
        } else if let said = entries.first(where: { $0.verdict == .unclear }) {
            let isEverything = unclear.count == entries.count && entries.count > 1
            if isEverything, !batch.isHalving {
                failTogether(unclear, &batch, now)
            } else {
                fail(unclear, alone: alone, DeliveryBatch.Complaint(said), &batch, now)
            }
        }
        return resolved
    }

    /// The destination takes none of several samples, one by one and for no reason of their own. After a
    /// few times the batch is fetched anew, with what has come since.
    private mutating func failTogether(
        _ indices: [Int], _ batch: inout DeliveryBatch, _ now: Uptime
    ) {
        patients.endTrial()
        batch.failTogether(indices)
        let pause = settings.resendPause(attempt: batch.failures, isAnswered: isQuick)
        batch.isStale = batch.failures >= settings.failuresMax
        backOff(spread(pause), now, looks: !isQuick)
    }

    private mutating func fail(
        _ indices: [Int], alone: Bool, _ complaint: DeliveryBatch.Complaint,
        isSilence: Bool = false,
        _ batch: inout DeliveryBatch, _ now: Uptime
    ) {
        // An answer that tells nothing is nothing against the patient either.
        patients.endTrial()
        let wasLastAttempt = batch.isLastAttempt
        batch.fail(indices, alone: alone, complaint, isSilence: isSilence, settings)
        restsUntil = now + settings.resendPause
        // The request behind a suspect's last attempt has another sample, which need not rest; and the
        // sooner it is stored, the surer it is that the exchange works.
        guard !wasLastAttempt || isSilence else { return }
        let attempt = batch.isHalving ? 1 : batch.failures
        let pause = settings.resendPause(attempt: attempt, isAnswered: isQuick)
        backOff(spread(pause), now, looks: !isQuick)
    }

    /// When a halving is over, decides about the samples that fail even alone.
    private mutating func conclude(_ batch: inout DeliveryBatch, _ now: Uptime) -> [Resolved] {
        guard batch.isHalving else { return [] }
        guard batch.isDone else {
            // Nothing is stored at all: then it is not one sample's fault.
            if batch.failuresHalving >= settings.halvingFailuresMax { holdUnproven(now) }
            return []
        }
        let convicted = batch.convicted
        if convicted.count < batch.suspects.count { holdUnproven(now) }
        return convicted.map {
            Resolved(
                index: $0.index,
                outcome: .dead(reason: $0.complaint.reason, diagnostics: $0.complaint.text))
        }
    }

    /// Nothing shows whether a sample or the exchange is at fault. The next batch reaches further, to
    /// samples that were never sent.
    private mutating func holdUnproven(_ now: Uptime) {
        unprovenRounds += 1
        holdBack(.exchangeFault, until: nil, now)
    }
}
