/// The radio: scanning, and whose turn it is to connect.
extension Central {
    /// How long `inspect` looks for the sensor and its services.
    public static let inspectDeadline = Duration.seconds(45)
    /// How long an inspected sensor stays connected, for `watch` to take the link over.
    public static let inspectLinger = Duration.seconds(10)
    /// Between two looks at a link that is waited for.
    static let inspectPause = Duration.milliseconds(50)

    func handle(_ event: AdapterRadio<String>.Event, radioAt path: String) {
        guard let actions = radios[path]?.handle(event, at: clock.now()) else { return }
        for action in actions {
            switch action {
            case .startScan: startScan(path)
            case .stopScan: stopScan(path)
            case .grant(let address):
                if let link = links[address], link.slotAdapter == path {
                    handle(.slotGranted, link)
                } else {
                    handle(.withdraw(address), radioAt: path)
                }
            }
        }
    }

    func settleScans() {
        let isWanted = scanRequests > 0 || links.values.contains { $0.machine.wantsScan }
        for path in radios.keys { handle(.wantScan(isWanted), radioAt: path) }
    }

    private func startScan(_ path: String) {
        guard let client else { return }
        Task { [service = settings.service] in
            var hasStarted = true
            do throws(DBusFault) {
                try await client.setDiscoveryFilter(path, services: [service])
                try await client.startDiscovery(path)
            } catch {
                self.count(error)
                // "In progress" while it discovers: the session is ours already.
                hasStarted =
                    BlueZErrorClass(error) == .busy && self.adapters[path]?.isDiscovering == true
            }
            self.handle(hasStarted ? .scanStarted : .scanFailed, radioAt: path)
            self.settle()
        }
    }

    private func stopScan(_ path: String) {
        guard let client else { return }
        Task {
            do throws(DBusFault) {
                try await client.stopDiscovery(path)
            } catch {
                self.count(error)
            }
            self.handle(.scanStopped, radioAt: path)
            self.settle()
        }
    }

    /// Listens for sensors of the service and returns those heard or connected, strongest first.
    /// Each is also told as an event.
    public func scan(seconds: Double) async -> [Sighting] {
        let begun = clock.now()
        scanRequests += 1
        settle()
        await clock.sleep(.milliseconds(Int64(max(0, min(seconds, 3600)) * 1000)))
        scanRequests -= 1
        settle()
        let found = devices.values.flatMap(\.values).filter { device in
            device.offers(service: settings.service)
                && (device.isConnected || heardAt[device.path].map { $0 >= begun } ?? false)
        }
        return found.map(sighting).sorted {
            ($0.rssi ?? .min, $1.address) > ($1.rssi ?? .min, $0.address)
        }
    }

    /// Connects to a sensor, makes sure that it notifies, and reads some of its characteristics.
    ///
    /// A sensor that is not watched stays connected for `inspectLinger`, so that a `watch` that
    /// follows finds the link up.
    ///
    /// - Parameter reading: 128-bit UUIDs of the characteristics to read.
    /// - Throws: what stood in the way last, when the deadline is over.
    public func inspect(
        address: String, service: String, characteristic: String, reading: [String],
        deadline: Duration = inspectDeadline
    ) async throws(DBusFault) -> Inspection {
        let address = address.uppercased()
        watch(address, service, characteristic, isTemporary: true)
        defer {
            Task { [clock] in
                await clock.sleep(Self.inspectLinger)
                if self.links[address]?.isTemporary == true { self.unwatch(address: address) }
            }
        }
        let until = clock.now() + deadline.microseconds
        while clock.now() < until, !Task.isCancelled {
            if let link = links[address], link.machine.isStreaming { break }
            await clock.sleep(Self.inspectPause)
        }
        guard let link = links[address], link.machine.isStreaming, let client,
            let path = link.device, let device = devices[address]?[path]
        else {
            let machine = links[address]?.machine
            throw DBusFault(
                name: DBusFault.noReply,
                text: "the sensor was not reached: it is \(machine?.state.name ?? "not watched")"
                    + " (\(machine?.reason.name ?? "released"))")
        }
        let present = await client.characteristics(ofDevice: path)
        var values: [String: Result<[UInt8], DBusFault>] = [:]
        for uuid in reading {
            guard let found = present.first(where: { $0.uuid == uuid.lowercased() }) else {
                values[uuid] = .failure(
                    DBusFault(name: "org.bluez.Error.DoesNotExist", text: "no such characteristic"))
                continue
            }
            do throws(DBusFault) {
                values[uuid] = .success(try await client.readValue(found.path))
            } catch {
                values[uuid] = .failure(error)
            }
        }
        return Inspection(sighting: sighting(of: device), values: values)
    }
}
