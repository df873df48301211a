import BlueZ

/// Method calls: which object, which interface, which method.
extension BluetoothWorld {
    /// Takes a call or a signal from the bus.
    mutating func receive(_ message: DBusMessage) {
        switch message.kind {
        case .call:
            guard isRunning, !keep(message) else { return }
            calls[message.member ?? "", default: 0] += 1
            meet(message)
        case .signal where message.member == "NameOwnerChanged":
            guard message.body.count == 3, let name = message.body[0].text,
                name.hasPrefix(":"), message.body[2].text == ""
            else { return }
            clientLeft(name)
        default: return
        }
    }

    /// Does a call, or what the fault script makes of it.
    private mutating func meet(_ call: DBusMessage) {
        switch faults.effect(on: call) {
        case nil: perform(call)
        case .error(let fault): refuse(call, fault)
        case .hang: return
        case .delay(let milliseconds):
            schedule(.perform(call), afterMilliseconds: milliseconds)
        case .errorThough(let fault):
            spoiled[CallKey(sender: call.sender, serial: call.serial)] = .errorThough(fault)
            perform(call)
        case .answerLost:
            spoiled[CallKey(sender: call.sender, serial: call.serial)] = .answerLost
            perform(call)
        }
    }

    /// Does a call.
    mutating func perform(_ call: DBusMessage) {
        let path = call.path ?? ""
        switch call.interface {
        case BlueZName.introspectable? where call.member == "Introspect":
            introspect(call)
        case BlueZName.peer? where call.member == "Ping":
            answer(call)
        case BlueZName.objectManager? where path == "/" && call.member == "GetManagedObjects":
            answer(call, tree.managedObjects())
        case BlueZName.properties?:
            guard tree.objects[path] != nil else { return refuseUnknown(call) }
            performProperties(call)
        case let interface:
            // D-Bus lets a caller leave the interface out; our members are all different enough.
            let found = [
                BlueZName.adapter, BlueZName.device, BlueZName.characteristic,
                BlueZName.descriptor, BlueZName.agentManager,
            ].first { tree.has(path, $0) && (interface == nil || interface == $0) }
            switch found {
            case BlueZName.adapter?: performAdapter(call, at: path)
            case BlueZName.device?: performDevice(call, at: path)
            case BlueZName.characteristic?: performCharacteristic(call, at: path)
            case BlueZName.descriptor?: performDescriptor(call)
            case BlueZName.agentManager?: performAgentManager(call)
            default: refuseUnknown(call)
            }
        }
    }

    /// The bus's own words for what is not there.
    mutating func refuseUnknown(_ call: DBusMessage) {
        let isKnown = tree.objects[call.path ?? ""] != nil || call.path == "/"
        refuse(
            call,
            isKnown ? BlueZFault.unknownMethod(call) : BlueZFault.unknownObject(call))
    }

    // MARK: Properties

    private mutating func performProperties(_ call: DBusMessage) {
        guard let path = call.path, let interface = call.body.first?.text else {
            return refuse(call, BlueZFault.invalidArguments)
        }
        guard let properties = tree.objects[path]?[interface] else {
            return refuse(call, BlueZFault.noInterface(interface))
        }
        switch (call.member, call.body.count) {
        case ("GetAll", 1):
            answer(call, .properties(properties))
        case ("Get", 2):
            let name = call.body[1].text ?? ""
            guard let value = properties[name] else {
                return refuse(call, BlueZFault.noProperty(name))
            }
            answer(call, .variant(value))
        case ("Set", 3):
            set(call.body[1].text ?? "", to: call.body[2].unwrapped, at: path, interface, call)
        default:
            refuseUnknown(call)
        }
    }

    private mutating func set(
        _ name: String, to value: DBusValue, at path: String, _ interface: String,
        _ call: DBusMessage
    ) {
        guard let old = tree[path, interface, name] else {
            return refuse(call, BlueZFault.noProperty(name))
        }
        let writable: Set<String> =
            switch interface {
            case BlueZName.adapter:
                [
                    "Powered", "Alias", "Discoverable", "DiscoverableTimeout", "Pairable",
                    "PairableTimeout",
                ]
            case BlueZName.device: ["Alias", "Trusted", "Blocked"]
            default: []
            }
        guard writable.contains(name) else { return refuse(call, BlueZFault.readOnly(name)) }
        guard value.signature == old.signature else {
            return refuse(call, BlueZFault.invalidArguments)
        }
        if interface == BlueZName.adapter, name == "Powered", let isOn = value.flag {
            guard let address = tree[path, interface, "Address"]?.text else { return }
            if old == value { return answer(call) }
            if isOn, adapters[address]?.isBlocked == true {
                return refuse(call, BlueZFault.of("Blocked", "Blocked through rfkill"))
            }
            return schedule(
                .powered(address: address, isOn, call), afterMilliseconds: habits.powerMilliseconds)
        }
        if interface == BlueZName.device, name == "Trusted", let isTrusted = value.flag {
            devices[path]?.isTrusted = isTrusted
            if isTrusted { devices[path]?.isTemporary = false }
            store(path)
        }
        send(tree.set(path, interface, [name: value]))
        answer(call)
    }

    // MARK: Agents

    private mutating func performAgentManager(_ call: DBusMessage) {
        let client = call.sender ?? ""
        switch (call.member, call.body.count) {
        case ("RegisterAgent", 2):
            let capabilities = [
                "", "DisplayOnly", "DisplayYesNo", "KeyboardOnly", "NoInputNoOutput",
                "KeyboardDisplay",
            ]
            if agents[client] != nil { return refuse(call, BlueZFault.alreadyExists) }
            guard case .objectPath(let path) = call.body[0],
                capabilities.contains(call.body[1].text ?? "?")
            else { return refuse(call, BlueZFault.invalidArguments) }
            agents[client] = path
            answer(call)
        case ("UnregisterAgent", 1), ("RequestDefaultAgent", 1):
            guard agents[client] != nil, agents[client] == call.body[0].text else {
                return refuse(call, BlueZFault.doesNotExist)
            }
            defaultAgents.removeAll { $0 == client }
            if call.member == "UnregisterAgent" {
                agents[client] = nil
            } else {
                defaultAgents.insert(client, at: 0)
            }
            answer(call)
        case ("RegisterAgent", _), ("UnregisterAgent", _), ("RequestDefaultAgent", _):
            refuse(call, BlueZFault.invalidArguments)
        default:
            refuseUnknown(call)
        }
    }

    /// A client's connection to the bus ended: its sessions end with it. Links stay.
    private mutating func clientLeft(_ name: String) {
        agents[name] = nil
        defaultAgents.removeAll { $0 == name }
        for address in adapters.keys.sorted() {
            adapters[address]?.presets[name] = nil
            endDiscovery(of: name, on: address)
        }
        for path in devices.keys.sorted() {
            for characteristic in devices[path]?.notifySessions.keys.sorted() ?? [] {
                endNotify(of: name, at: characteristic, device: path)
            }
        }
    }
}
