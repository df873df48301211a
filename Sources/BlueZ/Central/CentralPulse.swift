import Basics

/// A bluetoothd that hangs, and sensors that are heard and cannot be connected to.
extension Central {
    /// How long a sensor that cannot be connected to counts as heard, and what failures said of one is kept.
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
                fault = error
            }
            self.mailbox.post(self.daemon.noteAnswer(fault, at: self.clock.now()))
            // A refusal is an answer, and a signal says that the daemon has left.
            self.takeAnswer(fault?.name != DBusFault.noReply, askedAt: askedAt)
        }
    }

    /// The bus has refused a call: whether it refuses every one is found out by one that does nothing.
    func doubtPolicy() {
        guard daemon.isPresent, daemon.asksAgainAt == nil, pulse.ask() else { return }
        askDaemon()
    }

    /// Asks whether the bus still refuses.
    func askAgain() {
        daemon.postpone(at: clock.now())
        if pulse.ask() { askDaemon() }
    }

    private func takeAnswer(_ isAnswered: Bool, askedAt: Uptime) {
        let begins = pulse.noteAnswer(isAnswered, askedAt: askedAt)
        if isAnswered {
            caughtUp.expire()
            let now = clock.now()
            mailbox.post([.daemonAnswered(askedAt: askedAt, at: now)])
            hearDaemon(at: now)
        } else if begins, daemon.isPresent, let since = pulse.hungSince {
            mailbox.post([.daemonHung(since: since)])
            for path in adapters.keys { handle(.hold(true), radioAt: path) }
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
        for path in adapters.keys {
            adapters[path]?.watch.rest(at: now)
            handle(.hold(false), radioAt: path)
        }
    }

    // MARK: Sensors in trouble

    /// The reason that keeps a sensor from streaming, where that is known. `strangers` are ``heardStrangers()``.
    func trouble(of link: WatchedLink, among strangers: [String: String]) -> LinkTrouble? {
        guard !link.machine.isStreaming else { return nil }
        if link.machine.state == .suspended(.adapterFull) { return .noPlace }
        if isBondRefused(link) { return .bondRefused }
        if isUnreachable(link), let since = link.failures.failingSince {
            return .unreachable(since: since)
        }
        return link.failures.trouble
            ?? namesake(of: link, among: strangers).map(LinkTrouble.otherAddress)
    }

    /// The address of a sensor that is heard and has the name of one that is not: the same one, if its address is new
    /// at each start.
    private func namesake(of link: WatchedLink, among strangers: [String: String]) -> String? {
        guard !link.machine.hasLink, let name = link.name, let address = strangers[name],
            devices[link.address]?.values.contains(where: isHeard) != true
        else { return nil }
        return address
    }

    /// The addresses of sensors that are heard, are not watched and have a random address, by name.
    func heardStrangers() -> [String: String] {
        var strangers: [String: String] = [:]
        for (address, known) in devices where links[address] == nil {
            for device in known.values where device.hasRandomAddress && isHeard(device) {
                guard let name = device.name, !name.isEmpty else { continue }
                strangers[name] = min(strangers[name] ?? address, address)
            }
        }
        return strangers
    }

    private func isHeard(_ device: Device) -> Bool {
        device.isConnected
            || heardAt[device.path].map { $0 + Self.heardFor > clock.now() } ?? false
    }

    /// Whether a sensor is heard and no link to it comes about.
    func isUnreachable(_ link: WatchedLink) -> Bool {
        !isPaired(link) && isFailing(link)
    }

    private func isFailing(_ link: WatchedLink) -> Bool {
        link.failures.connects >= Self.connectFailuresMin && !link.machine.isStreaming
    }

    /// When a sensor was heard last, by whichever adapter.
    func latestHeard(of link: WatchedLink) -> Uptime? {
        devices[link.address]?.keys.compactMap { heardAt[$0] }.max()
    }

    /// A sensor that has not been heard for long is simply away, whatever failed before.
    func forgetFailures(of link: WatchedLink, at now: Uptime) {
        if let heard = latestHeard(of: link) {
            link.failures.heardAt = max(link.failures.heardAt, heard)
        }
        guard let due = link.failures.forgottenAt, due <= now else { return }
        link.failures = LinkFailures()
        tell(link)
    }
}
