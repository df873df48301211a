import Basics

/// The way up: from heard to streaming.
extension SensorLink {
    mutating func noteDaemon(_ isPresent: Bool) -> [Action] {
        isDaemonPresent = isPresent
        if isPresent { return resume() }
        if state == .draining { return finishRelease() }
        return suspend(.daemon, .daemonGone)
    }

    mutating func noteAdapter(_ isUsable: Bool) -> [Action] {
        guard isUsable != isAdapterUsable else { return [] }
        isAdapterUsable = isUsable
        if isUsable { return resume() }
        if state == .draining { return finishRelease() }
        return state == .suspended(.daemon) ? [] : suspend(.adapter, .adapterOff)
    }

    /// Nothing of the link is left: no calls are made, answers still to come are of the past.
    private mutating func suspend(
        _ suspension: LinkState.Suspension, _ reason: LinkReason
    ) -> [Action] {
        let actions = dropSlot()
        forgetLink()
        enter(.suspended(suspension), reason)
        return actions
    }

    private mutating func resume() -> [Action] {
        guard state == .suspended(.daemon) || state == .suspended(.adapter) else { return [] }
        if !isDaemonPresent { return [] }
        guard isAdapterUsable else {
            enter(.suspended(.adapter), .adapterOff)
            return []
        }
        backoff.reset()
        busyInRow = 0
        retryAt = .zero
        enter(.absent, .progress)
        return []
    }

    mutating func takeSighting(at now: Uptime) -> [Action] {
        attemptsUnheard = 0
        guard wantsScan else { return [] }
        // Who waits for a place does not wait out the pause once there is one.
        if state == .suspended(.adapterFull) { retryAt = now }
        return becomeSeen(.heard, at: now)
    }

    /// Waits for the end of the back-off, if one is left, then for the radio.
    mutating func becomeSeen(_ reason: LinkReason, at now: Uptime) -> [Action] {
        enter(.seen, reason)
        let earliest = max(retryAt, teardownUntil ?? retryAt)
        if earliest > now {
            deadline = earliest
            return []
        }
        isQueued = true
        return [.requestSlot]
    }

    mutating func endBackoff(at now: Uptime) -> [Action] {
        backoff.reset()
        busyInRow = 0
        retryAt = now
        guard state == .seen, !isQueued else { return [] }
        return becomeSeen(reason, at: now)
    }

    mutating func takeSlot(isShared: Bool, at now: Uptime) -> [Action] {
        guard state == .seen, isQueued else { return [.withdrawSlot] }
        isQueued = false
        attempt += 1
        attemptsUnheard += 1
        teardownUntil = nil
        endedAttempt = nil
        enter(.connecting, .progress)
        deadline = now + (isShared ? policy.connectBesideDiscovery : policy.connect)
        return [.connect(attempt: attempt)]
    }

    mutating func finishConnect(_ error: BlueZErrorClass?, at now: Uptime) -> [Action] {
        guard state == .connecting else { return [] }
        if let error { return fail(.error(error), error, at: now) }
        return beginResolving(.progress, at: now)
    }

    /// Connected: the services come next. `Connected` may never be signalled, so the properties are
    /// got now and again until they are resolved.
    mutating func beginResolving(_ reason: LinkReason, at now: Uptime) -> [Action] {
        isConnected = true
        enter(.resolving, reason)
        deadline = now + policy.resolve
        refreshAt = now + policy.refresh
        return [.refresh]
    }

    mutating func takeDevice(
        _ isConnected: Bool, _ isResolved: Bool, at now: Uptime
    ) -> [Action] {
        self.isConnected = isConnected
        guard isConnected else { return takeDisconnection(at: now) }
        switch state {
        case .connecting:
            let actions = beginResolving(.progress, at: now)
            return isResolved ? beginSubscribing(at: now) : actions
        case .resolving:
            return isResolved ? beginSubscribing(at: now) : []
        case .absent, .seen, .suspended(.outOfRange), .suspended(.adapterFull):
            // Up already: adopted, unless it is the end of the link that we have just given up.
            guard teardownUntil ?? now <= now else { return [] }
            let withdrawal = dropSlot()
            attempt += 1
            adoptedAttempt = attempt
            teardownUntil = nil
            let actions = beginResolving(.adopted, at: now)
            return withdrawal + (isResolved ? beginSubscribing(.adopted, at: now) : actions)
        case .subscribing, .streaming, .suspended, .draining:
            return []
        }
    }

    private mutating func beginSubscribing(
        _ reason: LinkReason = .progress, at now: Uptime
    ) -> [Action] {
        enter(.subscribing, reason)
        deadline = now + policy.subscribe
        isNotifyPending = true
        hasFrame = false
        return [.subscribe(attempt: attempt)]
    }

    /// The link stays, its notifications have ended.
    mutating func subscribeAgain(at now: Uptime) -> [Action] {
        guard isStreaming, !isNotifyPending else { return [] }
        return beginSubscribing(at: now)
    }

    mutating func finishSubscribe(_ error: BlueZErrorClass?, at now: Uptime) -> [Action] {
        isNotifyPending = false
        if state == .draining { return endLink(at: now) }
        guard state == .subscribing else { return [] }
        if let error { return fail(.error(error), error, at: now) }
        enter(.streaming(lastFrameAt: now), .progress)
        subscribedAt = now
        return []
    }

    mutating func takeFrame(at now: Uptime) -> [Action] {
        switch state {
        case .streaming(let lastFrameAt):
            if hasFrame { rhythm.note(gap: now - lastFrameAt, isWorn: isWorn) }
            if now >= subscribedAt + policy.soundAfter { staleLinks = 0 }
            state = .streaming(lastFrameAt: max(lastFrameAt, now))
        case .subscribing:
            // The answer to StartNotify may lag behind the first frame, or never come.
            let grace = deadline
            enter(.streaming(lastFrameAt: now), .progress)
            subscribedAt = now
            if isNotifyPending {
                deadline = (grace ?? now) + policy.subscribeGrace
            }
        default:
            return []
        }
        // Half of what it took before: it may have been put on late.
        if !hasFrame { startUp = max(min(now - subscribedAt, Self.silenceMax), startUp / 2) }
        hasFrame = true
        silentLinks = 0
        forgets = 0
        if backoff.failures > 0 || busyInRow > 0 {
            backoff.reset()
            busyInRow = 0
        }
        return []
    }

    func isOver(_ time: Uptime?, at now: Uptime) -> Bool {
        time.map { $0 <= now } ?? false
    }

    mutating func tick(at now: Uptime) -> [Action] {
        switch state {
        case .seen where isOver(deadline, at: now),
            .suspended(.adapterFull) where isOver(deadline, at: now):
            return becomeSeen(reason, at: now)
        case .connecting where isOver(deadline, at: now):
            return fail(.connectTimeout, .transientRadio, at: now)
        case .resolving where isOver(deadline, at: now):
            return fail(.resolveTimeout, .transientRadio, at: now)
        case .resolving where isOver(refreshAt, at: now):
            refreshAt = now + policy.refresh
            return [.refresh]
        case .subscribing where isOver(deadline, at: now):
            if reason != .subscribeTimeout {
                enter(.subscribing, .subscribeTimeout)
                deadline = now + policy.subscribeGrace
                return []
            }
            isNotifyPending = false
            return fail(.subscribeTimeout, .transientRadio, at: now)
        case .streaming(let lastFrameAt):
            return tickStreaming(lastFrameAt, at: now)
        case .draining where isOver(deadline, at: now):
            return isNotifyPending ? endLink(at: now) : finishRelease()
        default:
            return []
        }
    }

    private mutating func tickStreaming(_ lastFrameAt: Uptime, at now: Uptime) -> [Action] {
        if isNotifyPending {
            guard isOver(deadline, at: now) else { return [] }
            isNotifyPending = false
            deadline = nil
        }
        guard lastFrameAt + silenceLimit <= now else { return [] }
        if hasFrame {
            staleLinks = min(staleLinks + 1, Self.silencesMax)
            return fail(.stale, .transientRadio, at: now)
        }
        silentLinks = min(silentLinks + 1, Self.silencesMax)
        // bluetoothd may remember characteristics that it does not have. Where finding them anew does not
        // help, only time does.
        let isCache = silentLinks <= policy.silentLinksMax
        return fail(.noFirstFrame, isCache ? .cache : .transientRadio, at: now)
    }
}
