import Basics

/// Bonds: made only in a pairing window and only where the sensor asks for one.
extension Central {
    /// Connects in a row that must fail while the sensor is there before its bond is taken to be lost on
    /// its side, or itself to be out of reach: one or two fail on any day.
    static let connectFailuresMin = 3

    func isPaired(_ link: WatchedLink) -> Bool {
        link.device.flatMap { devices[link.address]?[$0]?.isPaired } ?? false
    }

    /// Whether the sensor seems to have forgotten the bond that bluetoothd still keeps.
    func isBondRefused(_ link: WatchedLink) -> Bool {
        guard isPaired(link) else { return false }
        return link.failures.connects >= Self.connectFailuresMin
            || link.machine.reason == .error(.auth)
    }

    func beginBonding(_ number: Int, _ agent: PairingAgent) {
        guard let link = link(of: number) else { return }
        // The person takes their time; the link must not give up meanwhile.
        link.agent = PairingAgent(address: link.address) { [weak self] question in
            await self?.open(question, of: number)
            let answer = await agent.answer(question)
            await self?.close(answer, of: number)
            return answer
        }
        link.bondFault = nil
        link.isDeclined = false
        link.hasTriedBond = false
        link.hasRemovedBond = false
        link.isBondUnwanted = false
    }

    /// Ends what ``beginBonding(_:_:)`` began for a sensor that had this address then.
    func endBonding(_ number: Int, of address: String, within limit: Duration) async {
        let link = link(of: number)
        link?.agent = nil
        // Bonding may have revealed another address, which has a window of its own.
        for one in Set([address, link?.address ?? address]) {
            await client?.closePairingWindow(one, deadline: limit)
        }
    }

    private func open(_ question: PairingQuestion, of number: Int) {
        underWay[number]?.time.open(question, at: clock.now())
        if let link = link(of: number) { extendBonding(link) }
    }

    private func close(_ answer: PairingAnswer, of number: Int) {
        underWay[number]?.time.close(at: clock.now())
        if answer == .no { link(of: number)?.isDeclined = true }
    }

    private func extendBonding(_ link: WatchedLink) {
        handle(.bonding, link)
        settle()
    }

    /// Sees to what waiting alone does not bring about, and does not wait for it: who asks has a deadline.
    func helpBonding(_ link: WatchedLink) {
        guard !link.isHelped else { return }
        link.isHelped = true
        Task {
            await self.seeToBond(of: link)
            link.isHelped = false
        }
    }

    private func seeToBond(of link: WatchedLink) async {
        guard let client, let agent = link.agent else { return }
        if await !client.hasPairingWindow(link.address) {
            guard link.agent != nil else { return }
            // Straps that need no bond are paired all the same.
            try? await client.openPairingWindow(link.address, agent)
        }
        await letComeUp(link)
        guard let path = link.device, let device = devices[link.address]?[path] else { return }
        // A person who pairs a sensor has put it into its pairing mode: one failure is enough, unless the link is up by
        // now. A subscription that waits for a bond ends in one that bluetoothd does not keep, once there is an agent.
        let hasFailed = device.isPaired && link.failures.connects > 0 && !device.isConnected
        let isRefused =
            hasFailed || device.isPaired && link.machine.reason == .error(.auth)
            || link.failures.trouble == .bondMissing
        // Removing the device would cancel the new bond that is being made, or lose it.
        let hasNewBond = link.isPairPending || link.bondMadeBy == link.inspection
        if isRefused, !link.hasRemovedBond, !hasNewBond {
            // Nothing but a new bond helps, and the person at the terminal asks for one.
            // Attempts with the old bond say nothing of the new one.
            link.failures = LinkFailures()
            link.hasRemovedBond = true
            link.hasTriedBond = false
            link.reasons = []
            link.soughtSince = clock.now()
            await removeAtOnce(path, device.adapter, of: link, client)
            link.soughtSince = clock.now()
            handle(.awaited, link)
            settle()
        } else if link.machine.state == .subscribing, link.machine.reason == .subscribeTimeout,
            !device.isPaired
        {
            // The subscription that should have brought the bond about is stuck.
            _ = await bond(link, path, client)
        }
    }

    /// Not after the calls that wait: the link might be up by then, and its pairing under way. The next attempt to connect
    /// waits for it.
    private func removeAtOnce(
        _ path: String, _ adapter: String, of link: WatchedLink, _ client: BlueZClient
    ) async {
        let previous = link.calls
        let removal = Task { try? await client.remove(device: path, adapter: adapter) }
        link.calls = Task {
            await previous?.value
            _ = await removal.value
        }
        _ = await removal.value
    }

    /// Asks for notifications; with an agent at hand, bonds first if the sensor shows that it wants it.
    func startNotify(
        _ characteristic: Characteristic, of link: WatchedLink, _ device: String,
        _ client: BlueZClient
    ) async -> BlueZErrorClass? {
        if link.agent != nil, let known = devices[link.address]?[device], !known.isPaired,
            known.hasPrivateAddress || link.hadBond || link.hasRemovedBond
        {
            // Without a bond it would be a stranger after its next change of address, or sends nothing, as it has shown.
            if known.hasPrivateAddress { link.hadPrivateAddress = true }
            if let failure = await bond(link, device, client) { return failure }
        } else if link.agent != nil, await isReadRefused(besides: characteristic, device, client),
            let failure = await bond(link, device, client)
        {
            return failure
        }
        do throws(DBusFault) {
            try await client.startNotify(characteristic.path)
            return nil
        } catch {
            let failure = BlueZErrorClass(error)
            guard link.agent != nil, failure == .auth || failure == .permission else {
                return failure
            }
        }
        if let failure = await bond(link, device, client) { return failure }
        do throws(DBusFault) {
            try await client.startNotify(characteristic.path)
            return nil
        } catch {
            return BlueZErrorClass(error)
        }
    }

    /// A subscription that should have brought a bond about is not answered if the bond fails; `Pair` says so at once.
    /// Therefore what can be read in the same service is read first.
    private func isReadRefused(
        besides characteristic: Characteristic, _ device: String, _ client: BlueZClient
    ) async -> Bool {
        let readable = await client.characteristics(ofDevice: device).first {
            $0.service == characteristic.service && $0.flags.contains("read")
        }
        guard let readable else { return false }
        do throws(DBusFault) {
            _ = try await client.readValue(readable.path)
            return false
        } catch {
            return [.auth, .permission].contains(BlueZErrorClass(error))
        }
    }

    /// Ends a bonding that nobody waits for any more.
    func cancelBonding(_ link: WatchedLink, within limit: Duration) async {
        guard link.isPairPending, let client, let device = link.device else { return }
        link.isBondUnwanted = true
        try? await client.cancelPairing(device, deadline: limit)
    }

    private func bond(
        _ link: WatchedLink, _ device: String, _ client: BlueZClient
    ) async -> BlueZErrorClass? {
        guard !link.hasTriedBond else { return .auth }
        link.hasTriedBond = true
        extendBonding(link)
        link.isPairPending = true
        defer { link.isPairPending = false }
        // A removal or a disconnect that was asked for before would cancel it.
        let attempt = link.machine.attempt
        await link.calls?.value
        guard link.device == device, link.machine.attempt == attempt, !link.isBondUnwanted else {
            link.hasTriedBond = false
            return .gone
        }
        do throws(DBusFault) {
            let isNew = try await client.pair(device)
            // It came too late for whoever asked for it.
            if isNew, link.isBondUnwanted, let bond = devices[link.address]?[device] {
                await removeBond(bond)
            }
            return nil
        } catch {
            let kind = BlueZErrorClass(error)
            if kind == .gone {
                // The answer to a removal overtakes the signals of it. The sensor has refused nothing.
                link.hasTriedBond = false
                if link.device == device { vanish(link, device) }
            } else {
                link.bondFault = error
            }
            return kind
        }
    }

    /// Undoes what pairing did: ends the watch and the link, and makes bluetoothd forget the sensor
    /// with its bond on every adapter.
    ///
    /// Returns why bluetoothd may still know the sensor; nil if it does not.
    @discardableResult
    public func forget(address: String) async -> DBusFault? {
        let address = address.uppercased()
        unwatch(address: address)
        let until = clock.now() + Self.stopPatience
        while links[address] != nil, clock.now() < until { await clock.sleep(Self.inspectPause) }
        guard let client, daemon.isPresent else {
            return DBusFault(name: DBusFault.disconnected, text: "bluetoothd is not there")
        }
        var fault: DBusFault?
        for device in await client.devices where device.address == address {
            do throws(DBusFault) {
                try await client.remove(device: device.path, adapter: device.adapter)
            } catch {
                if BlueZErrorClass(error) != .gone { fault = error }
            }
        }
        devices[address] = nil
        return fault
    }
}
