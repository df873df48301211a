/// What a delivery waits for: a reason that is to go away, a time, samples, the store.
extension Delivery {
    /// The reason of a hold was checked.
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

    /// The reason of one patient's hold was checked.
    public mutating func probedPatient(isMended: Bool, _ now: Int64) {
        guard case .probingPatient(let patient) = activity else { return }
        activity = .none
        patients.probed(
            patient, isMended: isMended, next: now + settings.probePauseMicroseconds)
    }

    /// Forgets what was under way, since its task is gone. Its samples rest as after any other
    /// request whose outcome is unknown.
    public mutating func resume(_ now: Int64) {
        guard activity != .none else { return }
        activity = .none
        batch = nil
        backOff(settings.resendPauseMicroseconds, now)
    }

    /// Something changed for the better (the network is back, a technician asks): looks at a hold
    /// now, and does not wait out a pause in which nothing was sent.
    public mutating func wake(_ now: Int64) {
        if let hold { self.hold = (hold.reason, min(hold.nextProbe, now)) }
        patients.wake(now)
        if notSentInRow > 0 { isBackingOff = false }
        if hold == nil, !isBackingOff { notBefore = min(notBefore, now) }
    }

    /// What became of samples was written to the store.
    public mutating func storeWorked() {
        storeFailures = 0
    }

    /// The store could not be read or written: leaves everything as it was and waits.
    public mutating func storeFailed(_ now: Int64) {
        activity = .none
        batch = nil
        storeFailures += 1
        backOff(settings.resendPause(attempt: storeFailures, isAnswered: true), now)
    }

    /// A pause anywhere between the shortest resend pause, which no chance may shorten, and `pause`.
    func spread(_ pause: Int64) -> Int64 {
        let floor = settings.resendPauseMicroseconds
        guard pause > floor else { return pause }
        return min(max(choose(floor...pause), floor), pause)
    }

    /// How long to rest after an answer that leaves nothing to wait for: the interval if that was all,
    /// longer than an instant if others are waiting for the exchange as well.
    func pause(isDone: Bool) -> Int64 {
        if isDone, !hasMore { return settings.intervalMicroseconds }
        let rest = pace.rest(after: tookMicroseconds, arrivals: arrivalsPerSecond)
        return rest > 0 ? choose(rest / 2...rest) : 0
    }

    /// Waits; `looks`: if it is a long wait, looks meanwhile whether the exchange works again.
    mutating func backOff(_ pause: Int64, _ now: Int64, looks: Bool = false) {
        notBefore = now + pause
        isBackingOff = true
        let isLong = pause > settings.pauseWithoutLookMicrosecondsMax
        nextLook = looks && isLong ? now + lookPause : nil
    }

    /// Not sooner than the samples themselves may be sent again, and not all gateways at once.
    var lookPause: Int64 { spread(settings.lookPauseMicrosecondsMax) }

    mutating func holdBack(_ reason: HoldReason, until: Int64?, _ now: Int64) {
        hold = (reason, max(until ?? 0, now + settings.probePauseMicroseconds))
    }
}
