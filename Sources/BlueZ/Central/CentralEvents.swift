import Basics

/// From org.bluez to the links.
extension Central {
    func take(_ batch: [BlueZEvent]) {
        if daemon.isPresent, let heard = heardTime(of: batch) { hearDaemon(at: heard) }
        var frames: [CentralEvent] = []
        var isQuiet = true
        for event in batch {
            if case .notification(let path, let bytes, let uptime) = event {
                guard let link = subscribers[path], !hasWaited(link, uptime) else { continue }
                link.subscribedAt = min(link.subscribedAt, uptime)
                let wasStreaming = link.machine.isStreaming
                if wasStreaming {
                    // Nobody needs to wait for it any more.
                    if !link.machine.hasFrame { isQuiet = false }
                    _ = link.machine.handle(.frame, at: uptime)
                } else {
                    handle(.frame, link, at: uptime)
                    isQuiet = false
                }
                frames.append(
                    .frame(
                        SensorFrame(address: link.address, bytes: bytes, uptime: uptime)))
            } else {
                // Events keep their order.
                mailbox.post(frames)
                frames = []
                isQuiet = take(event) && isQuiet
            }
        }
        mailbox.post(frames)
        if !isQuiet { settle() }
    }

    /// Whether a frame waited in bluetoothd when the gateway subscribed: nobody knows when it was sent. If bluetoothd hung
    /// when the gateway connected to it, more such frames of an adopted link may follow the subscription, in quick
    /// succession.
    private func hasWaited(_ link: WatchedLink, _ uptime: Uptime) -> Bool {
        guard uptime >= link.listensSince else { return true }
        guard daemon.mayHaveHung, link.machine.isAdopted,
            uptime - link.subscribedAt <= Self.handOverMax,
            uptime - link.listensSince <= Self.handOverPause
        else { return false }
        link.listensSince = uptime
        return true
    }

    /// When the last of a batch came from bluetoothd: notifications have waited to be handed over.
    private func heardTime(of batch: [BlueZEvent]) -> Uptime? {
        var latest: Uptime?
        for event in batch {
            switch event {
            case .notification(_, _, let uptime): latest = uptime
            case .caughtUp, .callFailed: continue
            default: return clock.now()
            }
        }
        return latest
    }

    /// Takes anything but a notification; true if nothing came of it.
    private func take(_ event: BlueZEvent) -> Bool {
        switch event {
        case .adapterChanged(let adapter): takeAdapter(adapter)
        case .adapterRemoved(let path, let address): loseAdapter(path, address)
        case .deviceChanged(let device, let isSighting):
            return takeDevice(device, isSighting: isSighting)
        case .deviceRemoved(let path, let address): loseDevice(path, address)
        case .daemonGone: loseDaemon()
        case .daemonSilent: mailbox.post(daemon.noteSilence(at: clock.now()))
        case .daemonRefused(let fault): mailbox.post(daemon.noteRefusal(fault))
        case .daemonBack: gainDaemon()
        case .characteristicRemoved(let path): noteSubscriptionEnd(at: path)
        case .caughtUp(let number):
            mailbox.post([.caughtUp(number: number)])
            return !caughtUp.answer(number)
        case .callFailed(let member, let fault):
            mailbox.post([.callFailed(CallFailure(member: member, fault: fault))])
            if BlueZErrorClass(fault) == .denied { doubtPolicy() }
            return true
        case .notification, .busGone: return true
        }
        return false
    }

    /// The characteristic of a sensor's frames is gone. bluetoothd removes it a moment before it tells that the link is
    /// lost; a sensor whose services change has another one in a moment.
    private func noteSubscriptionEnd(at path: String) {
        guard let client, let link = subscribers[path], let device = link.device else { return }
        let attempt = link.machine.attempt
        Task {
            let known = try? await client.refresh(device: device)
            guard known?.isConnected == true, link.machine.attempt == attempt else { return }
            link.servicesChangedAt = attempt
            self.handle(.notificationsEnded, link)
            self.settle()
        }
    }

    // MARK: bluetoothd

    private func gainDaemon() {
        _ = pulse.hear(at: clock.now())
        mailbox.post(daemon.gain(at: clock.now()))
        for link in links.values { bringUp(link) }
    }

    func loseDaemon() {
        mailbox.post(daemon.endSilence())
        guard daemon.lose() || !adapters.isEmpty else { return }
        if pulse.hungSince != nil { mailbox.post([.daemonHung(since: nil)]) }
        pulse = DaemonPulse(at: clock.now())
        for link in links.values {
            handle(.daemon(isPresent: false), link)
            forgetPlace(of: link)
        }
        adapters = [:]
        powers = [:]
        devices = [:]
        heardAt = [:]
        subscribers = [:]
        mailbox.post([.daemon(isPresent: false)])
    }

    /// A link that is new to this daemon, or to the adapters as they are now.
    func bringUp(_ link: WatchedLink) {
        // The adapter first, or a link that is new would be told as suspended for want of one.
        handle(.adapter(isUsable: hasUsableAdapter(for: link)), link)
        handle(.daemon(isPresent: daemon.isPresent), link)
        guard let known = devices[link.address]?.values else { return }
        // A connected one first: it is adopted, on whichever adapter it is.
        for device in known.sorted(by: { $0.isConnected && !$1.isConnected }) {
            _ = takeDevice(device, isSighting: device.rssi != nil)
        }
    }

    /// The known state of a sensor that has just come to be watched.
    func introduce(_ link: WatchedLink) async {
        let known = await client?.devices ?? []
        guard links[link.address] === link else { return }
        for device in known where device.address == link.address {
            devices[device.address, default: [:]][device.path] = device
        }
        bringUp(link)
        settle()
    }

    // MARK: Adapters

    private func isAllowed(_ adapter: Adapter) -> Bool {
        settings.adapterAddress.map { $0.uppercased() == adapter.address } ?? true
    }

    func isUsable(_ adapter: Adapter) -> Bool { adapter.isPowered && isAllowed(adapter) }

    private func hasUsableAdapter(for link: WatchedLink) -> Bool {
        if let path = link.adapter { return adapters[path].map { isUsable($0.object) } ?? false }
        return adapters.values.contains { isUsable($0.object) }
    }

    private func takeAdapter(_ adapter: Adapter) {
        let before = adapters[adapter.path]?.object
        adapters[adapter.path, default: WatchedAdapter(object: adapter)].object = adapter
        mailbox.post([.adapter(adapter)])
        handle(.usable(isUsable(adapter)), radioAt: adapter.path)
        if before?.isDiscovering == true, !adapter.isDiscovering {
            handle(.scanLost, radioAt: adapter.path)
        }
        settleAdapters()
        if isAllowed(adapter) {
            handle(.seen(isPowered: adapter.isPowered), powerOf: adapter.address)
        }
    }

    private func loseAdapter(_ path: String, _ address: String) {
        adapters[path] = nil
        // The debt is remembered by the address.
        powers[address] = nil
        for (device, known) in devices {
            devices[device] = known.filter { !ObjectPath.isPath($0.key, below: path) }
        }
        mailbox.post([.adapterRemoved(address: address)])
        settleAdapters()
    }

    /// Links whose adapter went look for another; links without one may have one now.
    private func settleAdapters() {
        for link in links.values {
            if link.adapter != nil, !hasUsableAdapter(for: link) {
                handle(.adapter(isUsable: false), link)
                leavePlace(of: link)
            }
            if hasUsableAdapter(for: link), !link.machine.isAdapterUsable {
                bringUp(link)
            } else if !hasUsableAdapter(for: link) {
                handle(.adapter(isUsable: false), link)
            }
        }
    }

    func forgetPlace(of link: WatchedLink) {
        if let path = link.characteristicPath { subscribers[path] = nil }
        link.characteristicPath = nil
        leavePlace(of: link)
    }

    /// The link may go on elsewhere. Its characteristic stays known: where the sensor comes back to the same adapter,
    /// bluetoothd switches notifications on by itself, before the gateway subscribes again.
    private func leavePlace(of link: WatchedLink) {
        link.device = nil
        link.adapter = nil
    }

    // MARK: Devices

    private func takeDevice(_ device: Device, isSighting: Bool) -> Bool {
        if isSighting {
            let action = adapters[device.adapter]?.watch.hear(at: clock.now())
            perform(action, radioAt: device.adapter)
        }
        noteBond(of: device)
        noteIdentity(of: device)
        let link = links[device.address]
        guard link != nil || device.offers(service: settings.service) else { return true }
        let before = devices[device.address, default: [:]].updateValue(device, forKey: device.path)
        if device.batteryPercent != before?.batteryPercent { noteBattery(of: device) }
        if let name = device.name { link?.name = name }
        if device.isPaired { link?.hadBond = true }
        if isSighting {
            let now = clock.now()
            heardAt[device.path] = now
            // Only a scan gets events of foreign sensors.
            if link != nil || scanRequests > 0 {
                mailbox.post([.sighting(sighting(of: device))])
            }
        }
        guard let link, let adapter = adapters[device.adapter]?.object, isUsable(adapter) else {
            return true
        }
        // A link in use stays with its object; an idle one goes where the sensor is.
        if link.device != device.path {
            guard link.device == nil || link.machine.wantsScan else { return true }
            let place = bestPlace(of: device.address) ?? device
            link.device = place.path
            link.adapter = place.adapter
            guard place.path == device.path else { return true }
        }
        let place = link.adapter ?? device.adapter
        let state = link.machine.state
        if isSighting, state == .suspended(.adapterFull), isFull(device.adapter) {
            for path in adapters.keys where !isFull(path) {
                adapters[path]?.watch.hearElsewhere(at: clock.now())
            }
        }
        handle(
            .device(isConnected: device.isConnected, isResolved: device.areServicesResolved), link)
        if isSighting { handle(isFull(place) ? .sightedWithoutPlace : .sighted, link) }
        return link.machine.state == state && state != .suspended(.adapterFull)
    }

    /// bluetoothd takes the battery away a moment before it tells that the link is lost: it is at its last level then.
    /// Where the link stays, the sensor has it no more.
    private func noteBattery(of device: Device) {
        let address = device.address
        if let percent = device.batteryPercent {
            return mailbox.post([.battery(address: address, percent: percent)])
        }
        guard let attempt = links[address]?.machine.attempt else { return }
        Task {
            await clock.sleep(Self.servicesPatience)
            guard let link = links[address], link.machine.isStreaming,
                link.machine.attempt == attempt,
                devices[address]?[device.path]?.batteryPercent == nil
            else { return }
            mailbox.post([.battery(address: address, percent: nil)])
        }
    }

    /// A bond that comes about during an inspection of the link that uses the device is the inspection's own.
    private func noteBond(of device: Device) {
        guard device.isPaired, let link = links.values.first(where: { $0.device == device.path }),
            devices[link.address]?[device.path]?.isPaired == false,
            underWay[link.inspection] != nil
        else { return }
        link.bondMadeBy = link.inspection
    }

    /// bluetoothd gives a device whose address changes its identity address once it is bonded; the object
    /// stays what it was until bluetoothd is started again.
    private func noteIdentity(of device: Device) {
        guard
            let link = links.values.first(where: {
                $0.device == device.path && $0.address != device.address
            })
        else { return }
        let old = link.address
        devices[old]?[device.path] = nil
        if devices[old]?.isEmpty == true { devices[old] = nil }
        links[old] = nil
        let other = links.updateValue(link, forKey: device.address)
        link.address = device.address
        mailbox.post([.renamed(from: old, to: device.address)])
        guard let other else { return }
        // It was watched by its identity address already. The link that is up goes on: a person may wait for it, and its
        // bond and its subscription are under way.
        if other.machine.state != .draining || other.isWantedAgain {
            watch(
                device.address, other.service, other.characteristic,
                isTemporary: other.isTemporary)
            handInspections(of: other, to: link)
        }
        handle(.release, other)
        tell(link)
    }

    private func loseDevice(_ path: String, _ address: String) {
        devices[address]?[path] = nil
        if devices[address]?.isEmpty == true { devices[address] = nil }
        guard let link = links[address], link.device == path else {
            heardAt[path] = nil
            return
        }
        vanish(link, path)
        heardAt[path] = nil
        forgetPlace(of: link)
        // It may be known to another adapter.
        if link.machine.state == .absent { bringUp(link) }
    }

    func sighting(of device: Device) -> Sighting {
        Sighting(
            address: device.address, name: device.name, rssi: device.rssi,
            isConnected: device.isConnected, isPaired: device.isPaired,
            adapter: adapters[device.adapter]?.object.address ?? "")
    }
}
