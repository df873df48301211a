import Basics

/// The power of adapters, and mending one that hangs.
extension Central {
    private static let hour = Duration.seconds(3_600)
    /// How long `stop` waits for an answer of bluetoothd: all of it must fit into the service's time to end.
    static let stopCallPatience = Duration.seconds(2)

    /// Power-cycles an adapter, at most so many times an hour as the settings allow.
    ///
    /// - Parameter isThorough: resets the controller itself, where the helper for it is installed.
    func resetAdapter(_ path: String, isThorough: Bool) {
        let now = clock.now()
        resets.removeAll { $0 + Self.hour < now }
        // A bluetoothd that hangs would carry it out later, when nothing is wrong any more.
        guard client != nil, let adapter = adapters[path]?.object, settings.power != .never,
            !pulse.isInDoubt, resets.count < settings.adapterResetsPerHourMax
        else { return }
        resets.append(now)
        mailbox.post([.adapterReset(address: adapter.address)])
        Task { [settings] in
            if isThorough, await settings.resetsController?(adapter.address) == true { return }
            self.handle(.cycle, powerOf: adapter.address)
            self.settle()
        }
    }

    func handle(_ event: AdapterPower.Event, powerOf address: String) {
        var power =
            powers[address]
            ?? AdapterPower(policy: settings.power, isOwed: adaptersOwed.contains(address))
        let action = power.handle(event, at: clock.now())
        powers[address] = power
        // Before the call is made: what follows may find us gone.
        noteOwed(power.isOwed, of: address)
        guard let action else { return }
        perform(action, onAdapter: address)
    }

    private func noteOwed(_ isOwed: Bool, of address: String) {
        guard adaptersOwed.contains(address) != isOwed else { return }
        if isOwed { adaptersOwed.insert(address) } else { adaptersOwed.remove(address) }
        settings.notesAdaptersOwed?(adaptersOwed)
    }

    private func perform(_ action: AdapterPower.Action, onAdapter address: String) {
        let path = knownAdapters().first { $0.address == address }?.path
        Task { [client] in
            var isDone = false
            if let client, let path {
                isDone = (try? await client.setPowered(path, action == .powerOn)) != nil
            }
            self.handle(
                action == .powerOff ? .offEnded : .onEnded(isDone: isDone), powerOf: address)
            self.settle()
        }
    }

    /// Leaves no adapter switched off that this run has switched off.
    func settlePowerDebts(_ client: BlueZClient) async {
        for adapter in knownAdapters() where powers[adapter.address]?.isOwed == true {
            try? await client.setPowered(adapter.path, true, deadline: Self.stopCallPatience)
        }
    }
}
