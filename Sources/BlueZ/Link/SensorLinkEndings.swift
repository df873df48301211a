import Basics

/// The way down: failures, losses, and the end that was asked for.
extension SensorLink {
    mutating func takeDisconnection(at now: Uptime) -> [Action] {
        let wasTornDown = teardownUntil != nil
        teardownUntil = nil
        switch state {
        case .resolving, .subscribing, .streaming:
            return lose(.linkLost, at: now)
        case .seen where wasTornDown && !isQueued:
            // The end of the old link was waited for; only the back-off counts now.
            return becomeSeen(reason, at: now)
        case .draining:
            return finishRelease()
        default:
            return []
        }
    }

    /// bluetoothd answers the `Connect` of an attempt that we end: with an error there is no link, whose end would
    /// be waited for.
    mutating func takeEnd(
        of attempt: UInt64, _ error: BlueZErrorClass?, at now: Uptime
    ) -> [Action] {
        // The object may go before the answer comes.
        if error == .slots, !hasLink { retryAt = max(retryAt, now + policy.slotsPause) }
        guard attempt == endedAttempt else { return [] }
        endedAttempt = nil
        guard error != nil, teardownUntil != nil else { return [] }
        return takeDisconnection(at: now)
    }

    /// The link is gone without our doing: often back in a moment, so tried at once.
    private mutating func lose(_ reason: LinkReason, at now: Uptime) -> [Action] {
        forgetLink()
        attemptsUnheard = 0
        retryAt = now + nextPause()
        return becomeSeen(reason, at: now)
    }

    mutating func takeRemoval(at now: Uptime) -> [Action] {
        switch state {
        case .suspended(.daemon), .suspended(.adapter):
            return []
        case .draining:
            return finishRelease()
        default:
            // The answer to a pending Connect may never come once the object is gone: give the radio
            // back now. bluetoothd removes a stranger whose link fails, and finds it again in a moment.
            let withdrawal = state == .connecting ? [.withdrawSlot] : dropSlot()
            if hasLink { retryAt = now + nextPause() }
            forgetLink()
            teardownUntil = nil
            enter(.absent, .removed)
            return withdrawal
        }
    }

    /// A step failed; the class of the error decides what next.
    mutating func fail(
        _ reason: LinkReason, _ error: BlueZErrorClass, at now: Uptime
    ) -> [Action] {
        var actions: [Action] = []
        let wasConnecting = state == .connecting
        if wasConnecting, reason == .connectTimeout || error == .busy {
            // Ends the pending attempt, ours or a forgotten one.
            actions.append(.disconnect)
            teardownUntil = now + policy.teardown
            if reason == .connectTimeout { endedAttempt = attempt }
        } else if wasConnecting {
            // A failed attempt may have connected all the same: look, and adopt it.
            actions.append(.refresh)
        } else if isConnected, !isNotifyPending {
            actions.append(.disconnect)
            teardownUntil = now + policy.teardown
        }
        forgetLink()
        busyInRow = error == .busy ? busyInRow + 1 : 0
        retryAt = now + max(nextPause(), leastPause(after: error))
        switch error {
        case .gone:
            enter(.absent, reason)
        case .notPowered where !isAdapterUsable:
            enter(.suspended(.adapter), reason)
        case .daemon where !isDaemonPresent:
            enter(.suspended(.daemon), reason)
        case .slots where attemptsUnheard >= policy.attemptsUnheardMax:
            // A place would not help: it is not there. Once it is heard there may be one.
            retryAt = now
            enter(.suspended(.outOfRange), reason)
        case .slots:
            enter(.suspended(.adapterFull), reason)
            deadline = retryAt
        case .cache:
            // As often as it takes, and more and more rarely: it may be a while before a sensor that was
            // changed is as it should be.
            let rarely = Backoff(first: policy.personPause, longest: policy.personPause * 16)
            // A subscription that bluetoothd lost is asked for again at once.
            let isQuick = forgets == 0 || reason == .noFirstFrame
            let pause = isQuick ? policy.busyPause : rarely.pause(after: forgets)
            retryAt = now + pause
            forgets = min(forgets + 1, 1_000)
            actions.append(.forgetDevice)
            enter(.absent, reason)
        case .transientRadio
        where wasConnecting
            && (reason == .connectTimeout || attemptsUnheard >= policy.attemptsUnheardMax):
            enter(.suspended(.outOfRange), reason)
        // bluetoothd may say so of a sensor that has left: hearing it decides.
        case .classic where attemptsUnheard >= policy.attemptsUnheardMax:
            enter(.suspended(.outOfRange), reason)
        default:
            if busyInRow >= policy.busyMax {
                busyInRow = 0
                actions.append(.resetAdapter)
            }
            actions += becomeSeen(reason, at: now)
        }
        return actions
    }

    private mutating func nextPause() -> Duration { backoff.next(using: &random) }

    private func leastPause(after error: BlueZErrorClass) -> Duration {
        switch error {
        case .transientRadio, .unknown, .gone: .zero
        case .busy, .daemon: policy.busyPause
        case .slots: policy.slotsPause
        case .notPowered: policy.notPoweredPause
        case .auth, .permission, .cache, .taken, .classic, .denied: policy.personPause
        }
    }

    /// Answers of this link are of the past from now on.
    mutating func forgetLink() {
        attempt += 1
        isNotifyPending = false
        hasFrame = false
        isConnected = false
    }

    mutating func dropSlot() -> [Action] {
        guard isQueued else { return [] }
        isQueued = false
        return [.withdrawSlot]
    }

    // MARK: Release

    mutating func beginRelease(at now: Uptime) -> [Action] {
        let withdrawal = dropSlot()
        switch state {
        case .draining:
            return []
        case .subscribing where isNotifyPending, .streaming where isNotifyPending:
            enter(.draining, .released)
            deadline = now + policy.subscribeGrace
            return withdrawal
        case .connecting, .resolving, .subscribing, .streaming:
            let isSubscribed = isStreaming
            enter(.draining, .released)
            return withdrawal + (isSubscribed ? [.stopNotify] : []) + endLink(at: now)
        case .absent, .seen, .suspended:
            return withdrawal + finishRelease()
        }
    }

    mutating func endLink(at now: Uptime) -> [Action] {
        isNotifyPending = false
        deadline = now + policy.teardown
        return [.disconnect]
    }

    mutating func finishRelease() -> [Action] {
        forgetLink()
        enter(.draining, .released)
        return [.finish]
    }
}
