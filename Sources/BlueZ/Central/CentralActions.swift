import Basics

/// From the links to org.bluez.
extension Central {
    func handle(_ event: SensorLink.Event, _ link: WatchedLink, at time: Uptime? = nil) {
        let before = link.machine.state
        let beforeReason = link.machine.reason
        let actions = link.machine.handle(event, at: time ?? clock.now())
        if link.machine.state.name != before.name || link.machine.reason != beforeReason {
            noteAge(of: link)
            noteTrouble(of: link, after: before)
            noteConnect(of: link, after: before)
            link.reasons.insert(link.machine.reason)
            tell(link)
        }
        for action in actions { perform(action, link) }
    }

    /// Keeps the book of how long links last.
    private func noteAge(of link: WatchedLink) {
        switch link.machine.state {
        case .resolving, .subscribing:
            guard link.upSince == nil else { return }
            link.upSince = clock.now()
            link.hasComeUp = true
            if let adapter = link.adapter { noteLink(on: adapter) }
        case .streaming: break
        default:
            if let upSince = link.upSince, link.machine.reason == .linkLost {
                noteLoss(of: link, upSince: upSince)
            }
            link.upSince = nil
        }
    }

    private func noteLoss(of link: WatchedLink, upSince: Uptime) {
        let now = clock.now()
        let others = links.values.filter { other in
            other !== link && other.lostAt.map { $0 + LinkAges.tolerance >= now } ?? false
        }
        for other in others where other.hasLeft {
            other.ages.takeBack()
            other.hasLeft = false
        }
        link.hasLeft = others.isEmpty
        link.lostAt = now
        if link.hasLeft { link.ages.note(age: now - upSince) }
    }

    /// Keeps what a failure says of the sensor until it streams: the attempts that follow have other reasons.
    private func noteTrouble(of link: WatchedLink, after before: LinkState) {
        if link.machine.isStreaming {
            link.failures = LinkFailures()
            return
        }
        let now = clock.now()
        switch link.machine.reason {
        case .error(.taken): link.failures.note(.taken, heardAt: now)
        // bluetoothd may say so without a word of the sensor.
        case .error(.classic): link.failures.note(.classic, heardAt: latestHeard(of: link) ?? now)
        case .error(.auth), .error(.permission), .subscribeTimeout:
            guard before == .subscribing else { return }
            // A subscription that brings a bond about is not answered where there is no agent. Of a sensor that had none
            // it may be just slow.
            let isSlow = link.machine.state == .subscribing && !link.hadBond
            link.failures.note(isPaired(link) || isSlow ? nil : .bondMissing, heardAt: now)
        default: break
        }
    }

    /// Tells the adapter's watch how an attempt to connect ended.
    private func noteConnect(of link: WatchedLink, after before: LinkState) {
        guard before == .connecting, let adapter = link.adapter, let device = link.device else {
            return
        }
        switch link.machine.reason {
        // `Connect` was not called.
        case .connectTimeout where link.connectBegun == nil: break
        case .progress: adapters[adapter]?.connects.succeed()
        case .connectTimeout, .error(.transientRadio):
            // A sensor that just went away is tried once unheard, which says nothing of the adapter.
            guard let heard = heardAt[device], heard > link.lostAt ?? .zero else { return }
            let hasLinks = linkCount(of: adapter) > 0
            let action = adapters[adapter]?.connects.fail(hasLinks: hasLinks, at: clock.now())
            perform(action, radioAt: adapter)
        default: break
        }
    }

    func tell(_ link: WatchedLink) {
        // Its first frames may have gathered while the subscription was answered.
        let since = link.machine.isStreaming ? link.subscribedAt : clock.now()
        mailbox.post([
            .link(
                LinkChange(
                    address: link.address, state: link.machine.state, reason: link.machine.reason,
                    isUnreachable: isUnreachable(link), uptime: since))
        ])
    }

    private func perform(_ action: SensorLink.Action, _ link: WatchedLink) {
        switch action {
        case .requestSlot:
            guard let adapter = link.adapter else { return }
            if link.slotAdapter != adapter { releaseSlot(of: link) }
            link.slotAdapter = adapter
            let isAwaited = underWay[link.inspection] != nil
            handle(.request(link.address, isAwaited: isAwaited), radioAt: adapter)
        case .withdrawSlot: releaseSlot(of: link)
        case .connect(let attempt): connect(link, attempt)
        case .refresh: refresh(link)
        case .subscribe(let attempt): subscribe(link, attempt)
        case .stopNotify:
            guard let path = link.characteristicPath else { return }
            callInOrder(link) { client throws(DBusFault) in try await client.stopNotify(path) }
        case .disconnect:
            // An attempt that waits for calls, which a hung bluetoothd does not answer, holds the radio for nothing.
            if link.connectBegun == nil { freeRadio(of: link) }
            guard let device = link.device else { return }
            callInOrder(link) { client throws(DBusFault) in try await client.disconnect(device) }
        case .forgetDevice: forgetDevice(link)
        case .resetAdapter:
            if let adapter = link.adapter { resetAdapter(adapter, isThorough: false) }
        case .finish:
            releaseSlot(of: link)
            forgetPlace(of: link)
            // A disconnect that bluetoothd carries out late would end the next link.
            Task {
                await link.calls?.value
                self.finish(link)
            }
        }
    }

    private func finish(_ link: WatchedLink) {
        guard links[link.address] === link else { return }
        links[link.address] = nil
        if link.isWantedAgain { begin(anew: link) }
        settle()
    }

    /// A sensor that was let go and is wanted again; if it is paired now, its bond stays.
    private func begin(anew old: WatchedLink) {
        let link = watch(
            old.address, old.service, old.characteristic, isTemporary: old.isTemporary)
        link.agent = old.agent
        link.bondMadeBy = old.bondMadeBy
        link.isBondUnwanted = old.isBondUnwanted
        link.soughtSince = clock.now()
        handInspections(of: old, to: link)
    }

    private func releaseSlot(of link: WatchedLink) {
        guard let adapter = link.slotAdapter else { return }
        link.slotAdapter = nil
        link.slotAttempt = nil
        handle(.withdraw(link.address), radioAt: adapter)
    }

    /// Ends the attempt that holds the radio, if any. The link may have asked for another one meanwhile.
    private func freeRadio(of link: WatchedLink) {
        guard link.slotAttempt != nil, let adapter = link.slotAdapter else { return }
        link.slotAttempt = nil
        handle(.done(link.address), radioAt: adapter)
    }

    private func connect(_ link: WatchedLink, _ attempt: UInt64) {
        guard let client, let device = link.device, let adapter = link.slotAdapter else {
            return releaseSlot(of: link)
        }
        link.slotAttempt = attempt
        link.hasComeUp = false
        let previous = link.calls
        link.calls = Task {
            // A call that ends the previous attempt must not end this one.
            await previous?.value
            self.call(client, toConnect: link, attempt, device, adapter)
        }
    }

    private func call(
        _ client: BlueZClient, toConnect link: WatchedLink, _ attempt: UInt64, _ device: String,
        _ adapter: String
    ) {
        guard link.slotAttempt == attempt else { return }
        guard link.machine.state == .connecting, link.machine.attempt == attempt else {
            freeRadio(of: link)
            return settle()
        }
        let begun = clock.now()
        link.connectBegun = begun
        Task {
            var failure: BlueZErrorClass?
            do throws(DBusFault) {
                try await client.connect(device)
            } catch {
                failure = self.judge(
                    BlueZErrorClass(error), of: link, attempt, device, on: adapter)
            }
            if link.connectBegun == begun { link.connectBegun = nil }
            self.handle(.connectFinished(attempt: attempt, failure), link)
            if failure == .slots, link.adapter == adapter { self.leaveFullAdapter(link) }
            // The radio is free whether or not the link still cares about the answer.
            if link.slotAttempt == attempt { self.freeRadio(of: link) }
            self.settle()
        }
    }

    /// The conclusions from an attempt to connect that failed, about the sensor and the adapter.
    private func judge(
        _ kind: BlueZErrorClass, of link: WatchedLink, _ attempt: UInt64, _ device: String,
        on adapter: String
    ) -> BlueZErrorClass {
        if kind == .slots {
            noteFull(adapter)
            return kind
        }
        // The answer may come after the removal of the object, which has been judged.
        guard kind == .auth || kind == .transientRadio, link.slotAttempt == attempt,
            let begun = link.connectBegun
        else { return kind }
        let now = clock.now()
        // An absent sensor is tried for until we end that: one that fails sooner has been heard by the controller.
        if now - begun < settings.policy.connect {
            if kind == .transientRadio, isRefusal(of: link, by: adapter) {
                noteFull(adapter)
                link.failures.excuseConnects()
                return .slots
            }
            heardAt[device] = now
        }
        guard kind == .auth || heardAt[device].map({ $0 + Self.heardFor > now }) ?? false else {
            return kind
        }
        link.failures.noteConnect(at: now, heardAt: heardAt[device] ?? now)
        return kind
    }

    /// The object of a sensor is gone: bluetoothd removes a stranger that it could not connect to, and may leave the
    /// call without an answer.
    func vanish(_ link: WatchedLink, _ device: String) {
        let attempt = link.slotAttempt
        if link.machine.state == .connecting, link.connectBegun != nil, let attempt,
            let adapter = link.slotAdapter
        {
            let failure = judge(.transientRadio, of: link, attempt, device, on: adapter)
            handle(.vanished, link)
            handle(.connectFinished(attempt: attempt, failure), link)
        } else {
            handle(.vanished, link)
        }
        // Otherwise the radio would wait for an answer that may never come.
        if link.slotAttempt == attempt { freeRadio(of: link) }
    }

    private func refresh(_ link: WatchedLink) {
        guard let client, let path = link.device else { return }
        Task {
            do throws(DBusFault) {
                // A change is an event too; without one the machine still learns how things stand.
                guard let device = try await client.refresh(device: path), link.device == path
                else { return }
                self.handle(
                    .device(
                        isConnected: device.isConnected, isResolved: device.areServicesResolved),
                    link)
            } catch {
                if BlueZErrorClass(error) == .gone, link.device == path {
                    self.vanish(link, path)
                }
            }
            self.settle()
        }
    }

    private func subscribe(_ link: WatchedLink, _ attempt: UInt64) {
        guard let client, let device = link.device else { return }
        Task {
            var failure: BlueZErrorClass?
            let found = await self.awaitCharacteristic(of: link, device, client)
            guard link.device == device, link.machine.attempt == attempt else { return }
            if let found,
                found.flags.contains("notify") || found.flags.contains("indicate")
            {
                // Before the call: the first notification may overtake its answer.
                self.assign(found.path, to: link)
                failure = await self.startNotify(found, of: link, device, client)
            } else {
                failure = .cache
                link.cacheFailures += 1
            }
            self.handle(.subscribeFinished(attempt: attempt, failure), link)
            if failure == nil, link.machine.attempt == attempt { self.trust(link) }
            self.settle()
        }
    }

    /// The characteristic to subscribe to. bluetoothd signals `ServicesResolved` before the services'
    /// objects, on a busy machine seconds before; it sends them all before it answers the next call.
    /// An answer can overtake the signals before it on their way to us, so a characteristic that is
    /// missing then is waited for a little more.
    private func awaitCharacteristic(
        of link: WatchedLink, _ device: String, _ client: BlueZClient
    ) async -> Characteristic? {
        let found = await client.characteristic(
            ofDevice: device, service: link.service, uuid: link.characteristic)
        if found != nil { return found }
        _ = try? await client.refresh(device: device)
        let haveChanged = link.servicesChangedAt == link.machine.attempt
        let until = clock.now() + (haveChanged ? Self.changePatience : Self.servicesPatience)
        while true {
            let found = await client.characteristic(
                ofDevice: device, service: link.service, uuid: link.characteristic)
            if found != nil || clock.now() >= until || link.device != device { return found }
            await clock.sleep(Self.servicesPause)
        }
    }

    func assign(_ characteristic: String, to link: WatchedLink) {
        link.subscribedAt = clock.now()
        guard subscribers[characteristic] !== link else { return }
        if let old = link.characteristicPath { subscribers[old] = nil }
        link.characteristicPath = characteristic
        link.listensSince = link.subscribedAt
        subscribers[characteristic] = link
    }

    /// bluetoothd forgets a device that is neither paired nor trusted 30 s after its link ended.
    private func trust(_ link: WatchedLink) {
        guard !link.isTemporary, let path = link.device,
            devices[link.address]?[path]?.isTrusted == false
        else { return }
        callInOrder(link) { client throws(DBusFault) in try await client.setTrusted(path, true) }
    }

    /// Makes calls of one link one after the other, so that `StopNotify` is over before `Disconnect`, and none while a
    /// link may be coming up.
    private func callInOrder(
        _ link: WatchedLink,
        _ call: @escaping @Sendable (BlueZClient) async throws(DBusFault) -> Void
    ) {
        guard let client else { return }
        let previous = link.calls
        link.calls = Task {
            await previous?.value
            await self.letComeUp(link)
            try? await call(client)
        }
    }

    /// How long an attempt to connect is not cancelled. A sensor that has just been heard is connected within a second,
    /// unless another program discovers.
    static let connectUncancelled = Duration.seconds(3)

    /// Waits while a `Connect` may be about to succeed. Linux loses a link that comes up in the instant in which it is
    /// cancelled (6.1: `le_conn_complete_evt` drops what `hci_abort_conn` has marked): the sensor stays connected to the
    /// controller, no program knows of that link, and the adapter connects to no other sensor until it is reset.
    func letComeUp(_ link: WatchedLink) async {
        guard let begun = link.connectBegun else { return }
        while link.connectBegun == begun, clock.now() < begun + Self.connectUncancelled {
            await clock.sleep(Self.inspectPause)
        }
    }

    private func forgetDevice(_ link: WatchedLink) {
        guard let path = link.device, let device = devices[link.address]?[path], !device.isPaired,
            // A device that does not offer the service is left alone.
            !link.isTemporary || device.offers(service: settings.service)
        else { return }
        callInOrder(link) { client throws(DBusFault) in
            try await client.remove(device: path, adapter: device.adapter)
        }
    }
}
