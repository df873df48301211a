import Basics
import BlueZ

/// Controllers, discovery and adverts.
extension BluetoothWorld {
    // MARK: Controllers

    /// An adapter's object appears, and with it the sensors that bluetoothd remembers.
    mutating func show(adapter address: String) {
        guard isRunning, let state = adapters[address], state.isPlugged, !state.isShown else {
            return
        }
        adapters[address]?.isShown = true
        let adapter = state.adapter
        let signal = tree.add(
            adapter.path,
            [
                BlueZName.adapter: [
                    "Address": .string(adapter.address), "AddressType": .string("public"),
                    "Name": .string(adapter.name), "Alias": .string(adapter.name),
                    "Class": .uint32(0), "Powered": .boolean(state.isPowered),
                    "Discoverable": .boolean(false), "DiscoverableTimeout": .uint32(180),
                    "Pairable": .boolean(false), "PairableTimeout": .uint32(0),
                    "Discovering": .boolean(false), "UUIDs": .strings([]),
                    "Modalias": .string("usb:v1D6Bp0246d0542"),
                    "Roles": .strings(["central", "peripheral"]),
                ]
            ])
        send(signal)
        for (strap, stored) in (stored[address] ?? [:]).sorted(by: { $0.key < $1.key })
        where straps[strap] != nil {
            let path = addDevice(strap, on: address, rssi: nil)
            devices[path]?.isTemporary = false
            devices[path]?.isPaired = stored.isPaired
            devices[path]?.isTrusted = stored.isTrusted
            send(
                tree.set(
                    path, BlueZName.device,
                    [
                        "Paired": .boolean(stored.isPaired), "Bonded": .boolean(stored.isPaired),
                        "Trusted": .boolean(stored.isTrusted),
                    ]))
        }
    }

    /// An adapter's object goes, and everything below it.
    mutating func hide(adapter address: String) {
        guard let state = adapters[address], state.isShown else { return }
        for device in devices.keys.sorted() where devices[device]?.adapter == address {
            removeDevice(device)
        }
        send(tree.remove(state.adapter.path))
        adapters[address]?.isShown = false
        adapters[address]?.sessions = [:]
        adapters[address]?.presets = [:]
    }

    /// Pulls a controller out, or puts it in, perhaps as another index.
    mutating func setPlugged(_ address: String, _ isPlugged: Bool, index: Int?) {
        guard adapters[address] != nil else { return }
        if !isPlugged {
            hide(adapter: address)
            adapters[address]?.isPlugged = false
            return
        }
        if let index { adapters[address]?.adapter.index = index }
        adapters[address]?.isPlugged = true
        adapters[address]?.isPowered = true
        if isRunning {
            schedule(
                .adapterAppears(address: address), afterMilliseconds: habits.adapterMilliseconds)
        }
    }

    /// Blocks a controller as rfkill does, which switches it off, or unblocks it and switches it on.
    mutating func setBlocked(_ address: String, _ isBlocked: Bool) {
        adapters[address]?.isBlocked = isBlocked
        setPowered(address, !isBlocked)
    }

    /// Powers a controller on or off; off ends links and sessions and forgets strangers.
    mutating func setPowered(_ address: String, _ isPowered: Bool) {
        guard let state = adapters[address], state.isPowered != isPowered else { return }
        adapters[address]?.isPowered = isPowered
        let path = state.adapter.path
        guard isPowered else {
            adapters[address]?.isDeaf = false
            for strap in straps.keys where straps[strap]?.lostTo == address {
                straps[strap]?.lostTo = nil
            }
            for device in devices.keys.sorted() where devices[device]?.adapter == address {
                endAttempt(device, BlueZFault.connectCanceled)
                if devices[device]?.isConnected == true { unlink(device) }
                if devices[device]?.isTemporary == true { removeDevice(device) }
            }
            adapters[address]?.sessions = [:]
            invalidateSignalStrength(on: address)
            send(
                tree.set(
                    path, BlueZName.adapter,
                    ["Powered": .boolean(false), "Discovering": .boolean(false)]))
            return
        }
        send(tree.set(path, BlueZName.adapter, ["Powered": .boolean(true)]))
    }

    // MARK: Methods

    mutating func performAdapter(_ call: DBusMessage, at path: String) {
        guard let address = tree[path, BlueZName.adapter, "Address"]?.text,
            let state = adapters[address]
        else { return refuseUnknown(call) }
        let client = call.sender ?? ""
        switch call.member {
        case "StartDiscovery", "StopDiscovery", "SetDiscoveryFilter":
            guard state.isPowered else { return refuse(call, BlueZFault.notReady) }
        default: break
        }
        switch call.member {
        case "StartDiscovery":
            if state.sessions[client] != nil { return refuse(call, BlueZFault.busy) }
            beginDiscovery(of: client, on: address)
            answer(call)
        case "StopDiscovery":
            guard state.sessions[client] != nil else {
                return refuse(call, BlueZFault.noDiscovery)
            }
            endDiscovery(of: client, on: address)
            answer(call)
        case "SetDiscoveryFilter":
            guard let entries = call.body.first?.entries else {
                return refuse(call, BlueZFault.invalidArguments)
            }
            let filter = entries.isEmpty ? nil : Self.filter(entries)
            adapters[address]?.presets[client] = filter
            if state.sessions[client] != nil {
                adapters[address]?.sessions[client] = .some(filter)
            }
            answer(call)
        case "GetDiscoveryFilters":
            answer(
                call, .strings(["UUIDs", "RSSI", "Transport", "DuplicateData", "Pattern"]))
        case "RemoveDevice":
            guard case .objectPath(let device)? = call.body.first else {
                return refuse(call, BlueZFault.invalidArguments)
            }
            guard devices[device]?.adapter == address else {
                return refuse(call, BlueZFault.doesNotExist)
            }
            devices[device]?.isPaired = false
            devices[device]?.isTrusted = false
            store(device)
            cancelAttempt(device)
            if devices[device]?.isConnected == true {
                disconnect(device, call)
            } else {
                removeDevice(device)
                answer(call)
            }
        default:
            refuseUnknown(call)
        }
    }

    private static func filter(_ entries: [DBusValue.DictEntry]) -> DiscoveryFilter {
        var filter = DiscoveryFilter()
        for entry in entries {
            switch entry.key.text {
            case "UUIDs": filter.uuids = Set(entry.value.texts?.map { $0.lowercased() } ?? [])
            case "RSSI": filter.rssiMin = entry.value.integer
            case "Transport": filter.isLowEnergy = entry.value.text != "bredr"
            case "Pattern": filter.pattern = entry.value.text
            case "DuplicateData": filter.tellsEach = entry.value.flag ?? false
            default: continue
            }
        }
        return filter
    }

    /// Begins one client's discovery, with the filter it has set before.
    mutating func beginDiscovery(of client: String, on address: String) {
        guard let state = adapters[address], state.isPowered, state.isShown else { return }
        adapters[address]?.sessions[client] = .some(state.presets[client])
        send(
            tree.set(state.adapter.path, BlueZName.adapter, ["Discovering": .boolean(true)]))
    }

    /// Ends one client's discovery; with the last one the adapter's ends.
    mutating func endDiscovery(of client: String, on address: String) {
        guard adapters[address]?.sessions.removeValue(forKey: client) != nil,
            let state = adapters[address], state.sessions.isEmpty
        else { return }
        invalidateSignalStrength(on: address)
        send(
            tree.set(state.adapter.path, BlueZName.adapter, ["Discovering": .boolean(false)]))
    }

    private mutating func invalidateSignalStrength(on address: String) {
        for device in devices.keys.sorted() where devices[device]?.adapter == address {
            send(tree.set(device, BlueZName.device, ["RSSI": DBusValue?.none]))
        }
    }

    // MARK: Adverts

    /// A sensor advertises once and plans the next time.
    mutating func advertise(_ address: String) {
        guard straps[address] != nil else { return }
        // Strays a little, as the specification wants, so that sensors do not collide for ever.
        let period = max(habits.advertMilliseconds, 1) * 1000
        let stray = Int.random(in: 0...period / 10, using: &random)
        agenda.add(.advert(strap: address), due: now + .microseconds(period + stray))
        guard isReachable(address), let strap = straps[address]?.strap else { return }
        for (adapter, adapterState) in adapters.sorted(by: { $0.key < $1.key })
        where adapterState.isPowered && adapterState.isShown && !adapterState.isDeaf
            && !adapterState.sessions.isEmpty
        {
            // An active scan rests while a connect is pending.
            if attempting.contains(where: { devices[$0]?.adapter == adapter }) {
                continue
            }
            hear(strap, on: adapter, adapterState)
        }
    }

    private mutating func hear(
        _ strap: SimulatedStrap, on adapter: String, _ state: AdapterState
    ) {
        let rssi =
            strap.rssi + Int16.random(in: -habits.rssiWaver...habits.rssiWaver, using: &random)
        guard state.sessions.values.contains(where: { Self.matches($0, strap, rssi: rssi) }) else {
            return
        }
        let path = Self.devicePath(strap.address, on: state.adapter)
        guard devices[path] != nil else {
            _ = addDevice(strap.address, on: adapter, rssi: rssi)
            return
        }
        devices[path]?.lastHeard = now
        let old = tree[path, BlueZName.device, "RSSI"]?.integer
        let tellsEach = state.sessions.values.contains { $0?.tellsEach == true }
        if tellsEach || old.map({ abs($0 - Int(rssi)) >= Int(habits.rssiThreshold) }) ?? true {
            send(
                tree.set(
                    path, BlueZName.device, ["RSSI": .int16(rssi)], evenIfEqual: tellsEach))
        }
    }

    private static func matches(
        _ filter: DiscoveryFilter?, _ strap: SimulatedStrap, rssi: Int16
    ) -> Bool {
        guard let filter else { return true }
        guard filter.isLowEnergy else { return false }
        if !filter.uuids.isEmpty, filter.uuids.isDisjoint(with: strap.advertisedServices) {
            return false
        }
        if let least = filter.rssiMin, Int(rssi) < least { return false }
        if let pattern = filter.pattern {
            return strap.name.hasPrefix(pattern) || strap.address.hasPrefix(pattern)
        }
        return true
    }
}
