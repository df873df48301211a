import Basics

/// The thing that a delivery waits for: a reason that is to go away, a time, samples, the store.
extension Delivery {
    /// The reason of a hold was checked.
    public mutating func probed(isMended: Bool, _ now: Uptime) {
        guard case .probing = activity else { return }
        activity = .none
        if isMended {
            hold?.isTried = true
            notBefore = now
            if now < restsUntil { backOff(restsUntil - now, now) }
        } else {
            hold?.nextProbe = now + settings.probePause
        }
    }

    /// The reason of one patient's hold was checked.
    public mutating func probedPatient(isMended: Bool, _ now: Uptime) {
        guard case .probingPatient(let patient) = activity else { return }
        activity = .none
        patients.probed(patient, isMended: isMended, now, pause: settings.probePause)
    }

    /// Forgets what was under way, since its task is gone. Its samples rest as after any other
    /// request whose outcome is unknown.
    public mutating func resume(_ now: Uptime) {
        guard activity != .none else { return }
        activity = .none
        batch = nil
        rest(now)
    }

    /// Something changed for the better (the network is back, a technician asks): looks at a hold
    /// now, and does not wait out a pause in which nothing was sent.
    public mutating func wake(_ now: Uptime) {
        if let hold { self.hold?.nextProbe = min(hold.nextProbe, now) }
        patients.wake(now)
        if notSentInRow > 0, now >= restsUntil { isBackingOff = false }
        if !isKeptBack, !isBackingOff { notBefore = min(notBefore, now) }
    }

    /// The store has committed samples. A delivery that wants them as soon as they come fetches them if its fetch
    /// is near, `turn` from now, when others of the gateway have gone first.
    ///
    /// - Returns: whether it does.
    public mutating func samplesCommitted(turn: Duration, _ now: Uptime) -> Bool {
        guard isBrisk, activity == .none, batch == nil, !isKeptBack, !isBackingOff,
            shared.committed(due: notBefore, interval: fetchInterval, now)
        else { return false }
        notBefore = now + turn
        return true
    }

    /// For a fetch that is due: how far off a commit of the store may be that it waits for; nil if it fetches
    /// without one.
    public func commitPatience(_ now: Uptime) -> Duration? {
        isBrisk ? shared.patience(interval: fetchInterval, now) : nil
    }

    /// Instead of the fetch, waits for a commit that is due at `due`.
    public mutating func awaitCommit(_ due: Uptime) {
        guard activity == .fetching else { return }
        activity = .none
        notBefore = shared.wait(for: due)
    }

    /// The outcomes of samples were written to the store.
    public mutating func storeWorked() {
        storeFailures = 0
    }

    /// The store could not be read or written: leaves everything as it was and waits.
    public mutating func storeFailed(_ now: Uptime) {
        activity = .none
        batch = nil
        storeFailures += 1
        backOff(settings.resendPause(attempt: storeFailures, isAnswered: true), now)
    }

    /// A pause anywhere between the shortest resend pause, which no chance may shorten, and `pause`.
    func spread(_ pause: Duration) -> Duration {
        let floor = settings.resendPause
        guard pause > floor else { return pause }
        return min(max(choose(floor...pause), floor), pause)
    }

    /// How long to rest after an answer that leaves nothing to wait for: the interval if that was all,
    /// longer than an instant if others are waiting for the exchange as well.
    func pause(isDone: Bool) -> Duration {
        if isDone, !hasMore {
            let pause = interval.pause(after: took, arrivals: arrivalsPerSecond)
            return pause.lowerBound < pause.upperBound ? choose(pause) : pause.upperBound
        }
        let rest = pace.rest(after: took, arrivals: arrivalsPerSecond)
        return rest > .zero ? choose(rest / 2...rest) : .zero
    }

    /// Rests after a request whose outcome is unknown: as seen at `now`, the exchange works on it.
    mutating func rest(_ now: Uptime) {
        restsUntil = now + settings.resendPause
        isSilent = mayRace
        backOff(settings.resendPause, now)
    }

    /// Waits; `looks`: if it is a long wait, looks meanwhile whether the exchange works again.
    mutating func backOff(_ pause: Duration, _ now: Uptime, looks: Bool = false) {
        notBefore = now + pause
        isBackingOff = true
        let isLong = pause > settings.pauseWithoutLookMax
        nextLook = looks && isLong ? now + lookPause : nil
    }

    /// Not sooner than the samples themselves may be sent again, and not all gateways at once.
    var lookPause: Duration { spread(settings.lookPauseMax) }

    mutating func endHold() {
        // A proxy may have refused every size.
        if hold?.reason == .requestRefused { pace.forgetLimit() }
        hold = nil
    }

    mutating func holdBack(_ reason: HoldReason, until: Uptime?, _ now: Uptime) {
        hold = Hold(reason: reason, nextProbe: max(until ?? .zero, now + settings.probePause))
    }
}
