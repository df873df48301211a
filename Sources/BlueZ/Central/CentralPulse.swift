import Basics

/// A bluetoothd that hangs, and sensors that are heard and cannot be connected to.
extension Central {
    /// How long a sensor that cannot be connected to counts as heard.
    static let unreachableFor = Duration.seconds(120)

    /// Silence says nothing while bluetoothd may hang, and a call made now would wait in its queue.
    func isHeld(_ link: WatchedLink) -> Bool {
        pulse.hungSince != nil || (pulse.isInDoubt && link.machine.isStreaming)
    }

    func askDaemon() {
        guard let client else { return }
        let askedAt = clock.now()
        Task {
            var isAnswered = true
            do throws(DBusFault) {
                try await client.ping(deadline: DaemonPulse.answerPatience)
            } catch {
                // A refusal is an answer, and a signal says that the daemon has left.
                isAnswered = error.name != DBusFault.noReply
                self.count(error)
            }
            self.takeAnswer(isAnswered, askedAt: askedAt)
        }
    }

    private func takeAnswer(_ isAnswered: Bool, askedAt: Uptime) {
        let begins = pulse.noteAnswer(isAnswered, askedAt: askedAt)
        if isAnswered {
            caughtUp.expire()
            hearDaemon(at: clock.now())
        } else if begins, isDaemonPresent, let since = pulse.hungSince {
            mailbox.post([.daemonHung(since: since)])
            for path in radios.keys { handle(.hold(true), radioAt: path) }
        }
        settle()
    }

    /// Something came from bluetoothd.
    func hearDaemon(at time: Uptime) {
        guard pulse.hear(at: time) else { return }
        endHang(at: clock.now())
    }

    func endHang(at now: Uptime) {
        mailbox.post([.daemonHung(since: nil)])
        for link in links.values { handle(.awake, link) }
        for path in watches.keys { watches[path]?.rest(at: now) }
        for path in radios.keys { handle(.hold(false), radioAt: path) }
    }

    func noteSilentDaemon() {
        guard !isDaemonSilent else { return }
        isDaemonSilent = true
        mailbox.post([.daemonHung(since: clock.now())])
    }

    // MARK: Unreachable sensors

    /// Whether a sensor is heard and no link to it comes about.
    func isUnreachable(_ link: WatchedLink) -> Bool {
        guard !isBondLost(link) else { return false }
        return link.connectFailures >= Self.bondLostFailures && !link.machine.isStreaming
    }

    /// When a sensor that could not be connected to has not been heard for so long that it is simply
    /// away.
    func forgottenAt(_ link: WatchedLink) -> Uptime? {
        guard isUnreachable(link) else { return nil }
        return (link.failedHeardAt ?? .zero) + Self.unreachableFor
    }

    func forgetFailures(of link: WatchedLink) {
        let heard = devices[link.address]?.keys.compactMap { heardAt[$0] }.max() ?? .zero
        if heard + Self.unreachableFor > clock.now() {
            link.failedHeardAt = heard
            return
        }
        link.connectFailures = 0
        tell(link)
    }
}
