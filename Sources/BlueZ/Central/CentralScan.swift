import Basics

/// The radio: scanning, and whose turn it is to connect.
extension Central {
    func handle(_ event: AdapterRadio<String>.Event, radioAt path: String) {
        guard let actions = adapters[path]?.radio.handle(event, at: clock.now()) else { return }
        for action in actions {
            switch action {
            case .startScan: startScan(path)
            case .stopScan: stopScan(path)
            case .grant(let address):
                if let link = links[address], link.slotAdapter == path {
                    let isShared = adapters[path]?.object.isDiscovering == true
                    handle(.slotGranted(isShared: isShared), link)
                } else {
                    handle(.withdraw(address), radioAt: path)
                }
            }
        }
    }

    func settleScans() {
        let isWanted =
            scanRequests > 0 || !sought.isEmpty || links.values.contains { $0.machine.wantsScan }
        for (path, adapter) in adapters {
            handle(.wantScan(isWanted), radioAt: path)
            // An adapter that is off hears nothing, but that does not make it deaf.
            let action = adapters[path]?.watch.wantScan(
                isWanted && isUsable(adapter.object), at: clock.now())
            perform(action, radioAt: path)
        }
    }

    func perform(_ action: RadioWatch.Action?, radioAt path: String) {
        switch action {
        case nil: break
        case .listenToEveryone, .listenToOurs: handle(.renewScan, radioAt: path)
        case .powerCycle: resetAdapter(path, isThorough: false)
        case .resetController: resetAdapter(path, isThorough: true)
        }
    }

    private func startScan(_ path: String) {
        guard let client else { return }
        let services = adapters[path]?.watch.listensToEveryone == true ? [] : [settings.service]
        // Another program discovers. bluetoothd then keeps the signal strength of each device, and does not report a
        // sensor that was away and comes back with the same one. Source: BlueZ `src/device.c`, `device_set_rssi`.
        let isShared = adapters[path]?.object.isDiscovering == true
        Task {
            var hasStarted = true
            do throws(DBusFault) {
                try await client.setDiscoveryFilter(
                    path, services: services, tellsEach: isShared)
                try await client.startDiscovery(path)
            } catch {
                // "In progress" while it discovers: the session is ours already.
                hasStarted =
                    BlueZErrorClass(error) == .busy
                    && self.adapters[path]?.object.isDiscovering == true
            }
            self.handle(hasStarted ? .scanStarted : .scanFailed, radioAt: path)
            self.settle()
        }
    }

    private func stopScan(_ path: String) {
        guard let client else { return }
        Task {
            try? await client.stopDiscovery(path)
            self.handle(.scanStopped, radioAt: path)
            self.settle()
        }
    }

    /// Listens for sensors of the service, for an hour at most, and returns those heard or connected, strongest first.
    /// Each that is heard meanwhile is also told as an event.
    ///
    /// Those count that were heard shortly before: while the gateway scans anyway, bluetoothd tells of each sensor once
    /// in 15 s (it listens for 10.24 s and rests for 5 s).
    public func scan(for time: Duration) async -> [Sighting] {
        let since = clock.now() - Self.heardFor
        scanRequests += 1
        settle()
        await clock.sleep(max(.zero, min(time, .seconds(3600))))
        scanRequests -= 1
        settle()
        let found = devices.values.flatMap(\.values).filter { device in
            device.offers(service: settings.service)
                && (device.isConnected || heardAt[device.path].map { $0 >= since } ?? false)
        }
        return found.map(sighting).sorted {
            ($0.rssi ?? .min, $1.address) > ($1.rssi ?? .min, $0.address)
        }
    }
}
