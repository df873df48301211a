import OfflineQueue

/// What an answer does.
extension Lane {
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
            } else if patients.trial != nil {
                // It tells nothing of the patient, who stays held; nor of the others, who go on.
                patients.breakOffTrial(next: now + settings.probePauseMicroseconds)
                batch.drop { _ in true }
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
        if batch.isDone { isBackingOff = false }
        if hold == nil, !isBackingOff {
            notBefore = now + pause(isDone: batch.isDone)
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
}
