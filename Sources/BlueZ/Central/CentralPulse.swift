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
            var fault: DBusFault?
            do throws(DBusFault) {
                try await client.ping(deadline: DaemonPulse.answerPatience)
            } catch {
                self.count(error)
                fault = error
            }
            self.takePolicy(fault)
            // A refusal is an answer, and a signal says that the daemon has left.
            self.takeAnswer(fault?.name != DBusFault.noReply, askedAt: askedAt)
        }
    }

    /// The bus has refused a call: whether it refuses every one is found out by one that does nothing.
    func doubtPolicy() {
        guard isDaemonPresent, refusedUntil == nil, pulse.ask() else { return }
        askDaemon()
    }

    /// The bus lets us ask nothing: asked again rarely, since dbus-daemon writes each call that it refuses into the
    /// journal.
    func askAgain() {
        refusedUntil = clock.now() + BlueZClient.refusedPause
        if pulse.ask() { askDaemon() }
    }

    private func takePolicy(_ fault: DBusFault?) {
        guard isDaemonPresent else { return }
        if let fault, BlueZErrorClass(fault) == .denied {
            refusedUntil = clock.now() + BlueZClient.refusedPause
            guard refusal == nil else { return }
            refusal = fault
            mailbox.post([.daemonRefused(fault)])
        } else if refusal != nil {
            (refusal, refusedUntil) = (nil, nil)
            mailbox.post([.daemon(isPresent: true)])
        }
    }

    private func takeAnswer(_ isAnswered: Bool, askedAt: Uptime) {
        let begins = pulse.noteAnswer(isAnswered, askedAt: askedAt)
        if isAnswered {
            caughtUp.expire()
            let now = clock.now()
            mailbox.post([.daemonAnswered(askedAt: askedAt, at: now)])
            hearDaemon(at: now)
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

    // MARK: Sensors in trouble

    /// The reason that keeps a sensor from streaming, where that is known.
    func trouble(of link: WatchedLink) -> LinkTrouble? {
        guard !link.machine.isStreaming else { return nil }
        if link.machine.state == .suspended(.adapterFull) { return .noPlace }
        if isBondRefused(link) { return .bondRefused }
        if isUnreachable(link), let since = link.failingSince { return .unreachable(since: since) }
        return link.trouble ?? namesake(of: link).map(LinkTrouble.otherAddress)
    }

    /// The address of a sensor that is heard and has the name of one that is not: the same one, if its address is new
    /// at each start.
    private func namesake(of link: WatchedLink) -> String? {
        guard !link.machine.hasLink, let name = link.name, !name.isEmpty else { return nil }
        let now = clock.now()
        func isHeard(_ device: Device) -> Bool {
            device.isConnected || heardAt[device.path].map { $0 + Self.heardFor > now } ?? false
        }
        guard devices[link.address]?.values.contains(where: isHeard) != true else { return nil }
        return devices.filter { links[$0.key] == nil }.values.joined().map(\.value)
            .filter { $0.name == name && $0.hasRandomAddress && isHeard($0) }
            .map(\.address).min()
    }

    /// Whether a sensor is heard and no link to it comes about.
    func isUnreachable(_ link: WatchedLink) -> Bool {
        guard !isPaired(link) else { return false }
        return link.connectFailures >= Self.connectFailuresMin && !link.machine.isStreaming
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
