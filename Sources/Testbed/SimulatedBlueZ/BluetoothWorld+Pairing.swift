import BlueZ

/// Bonds: by `Pair`, or brought about by a read or subscription that wants one.
extension BluetoothWorld {
    /// How long the security manager waits for a person, in ms (Core Specification Vol 3 Part H
    /// §3.4).
    private static let patienceMilliseconds = 30_000

    mutating func performPair(_ call: DBusMessage, at path: String, _ device: DeviceState) {
        if attempting.contains(path) || device.pairCall != nil || device.bonding != nil {
            return refuse(call, BlueZFault.inProgress)
        }
        if device.isPaired { return refuse(call, BlueZFault.alreadyExists) }
        devices[path]?.pairCall = call
        if device.isConnected { beginPairing(path, asking: call.sender) } else { connect(path) }
    }

    /// Begins to bond over a link that is up.
    ///
    /// - Parameter client: the bus name whose agent is asked.
    mutating func beginPairing(_ path: String, asking client: String?) {
        guard let device = devices[path], let strap = straps[device.strap]?.strap else { return }
        let number = nextNumber()
        devices[path]?.bonding = number
        let agent = client.flatMap { name in agents[name].map { (name: name, path: $0) } }
        let fault = BlueZFault.of("AuthenticationFailed", "Authentication Failed")
        switch strap.security {
        case .open, .encrypted:
            let action = Action.paired(device: path, link: device.link)
            return schedule(action, afterMilliseconds: habits.pairMilliseconds)
        case .passkeyShown:
            guard let agent else { break }
            ask(agent, number, "RequestPasskey", [.objectPath(path)])
        case .passkeyTyped(let code):
            guard let agent else { break }
            let body: [DBusValue] = [.objectPath(path), .uint32(code), .uint16(0)]
            ask(agent, number, "DisplayPasskey", body)
        case .comparison(let code):
            guard let agent else { break }
            ask(agent, number, "RequestConfirmation", [.objectPath(path), .uint32(code)])
        }
        let wait = agent == nil ? 1 : Self.patienceMilliseconds
        schedule(.bondingFails(device: path, number: number, fault), afterMilliseconds: wait)
    }

    private mutating func ask(
        _ agent: (name: String, path: String), _ number: UInt64, _ member: String,
        _ body: [DBusValue]
    ) {
        var call = DBusMessage(
            kind: .call, path: agent.path, interface: "org.bluez.Agent1", member: member,
            destination: agent.name, body: body)
        call.serial = UInt32(truncatingIfNeeded: number)
        // A code that is only to be shown is not waited for.
        call.isReplyUnwanted = member == "DisplayPasskey"
        send(call)
    }

    /// The agent's answer to the call with this number; nil for an error.
    mutating func agentAnswered(_ number: UInt32, _ body: [DBusValue]?) {
        guard
            let (path, device) = devices.first(where: {
                $0.value.bonding.map { UInt32(truncatingIfNeeded: $0) } == number
            }), let strap = straps[device.strap]?.strap
        else { return }
        let isRight =
            switch (strap.security, body) {
            case (.passkeyShown(let code), let body?): body.first?.integer == Int(code)
            case (.comparison, .some): true
            default: false
            }
        if isRight {
            let action = Action.paired(device: path, link: device.link)
            schedule(action, afterMilliseconds: habits.pairMilliseconds)
        } else {
            failBonding(path, BlueZFault.of("AuthenticationFailed", "Authentication Failed"))
        }
    }

    /// The patient types a code into the sensor.
    mutating func typePasskey(_ code: UInt32, into address: String) {
        guard let path = straps[address]?.link, devices[path]?.bonding != nil,
            case .passkeyTyped(let expected) = straps[address]?.strap.security
        else { return }
        if code == expected {
            let link = devices[path]?.link ?? 0
            schedule(
                .paired(device: path, link: link), afterMilliseconds: habits.pairMilliseconds)
        } else {
            failBonding(path, BlueZFault.of("AuthenticationFailed", "Authentication Failed"))
        }
    }

    mutating func failBonding(_ path: String, number: UInt64, _ fault: DBusFault) {
        guard devices[path]?.bonding == number else { return }
        failBonding(path, fault)
    }

    private mutating func failBonding(_ path: String, _ fault: DBusFault) {
        guard let device = devices[path] else { return }
        devices[path]?.bonding = nil
        devices[path]?.pairCall = nil
        devices[path]?.waitingForBond.removeAll { $0.member != "StartNotify" }
        if let call = device.pairCall { refuse(call, fault) }
        for call in device.waitingForBond where call.member != "StartNotify" {
            forget(call, device: path)
            refuse(call, BlueZFault.notPaired)
        }
    }

    mutating func endPairing(_ path: String, link: UInt64) {
        guard let device = devices[path], device.isConnected, device.link == link,
            device.bonding != nil
        else { return }
        devices[path]?.bonding = nil
        devices[path]?.waitingForBond = []
        straps[device.strap]?.bonds.insert(device.adapter)
        devices[path]?.isPaired = true
        store(path)
        send(
            tree.set(
                path, BlueZName.device, ["Paired": .boolean(true), "Bonded": .boolean(true)]))
        if let identity = straps[device.strap]?.strap.identity {
            // The object's path stays what it was.
            send(
                tree.set(
                    path, BlueZName.device,
                    ["Address": .string(identity), "AddressType": .string("public")]))
        }
        replyPaired(path)
        for call in device.waitingForBond { endAtt(path, link: link, call) }
    }

    /// `Pair` is answered once the bond is there and the services are known.
    mutating func replyPaired(_ path: String) {
        guard let device = devices[path], device.isPaired, device.isResolved,
            let call = device.pairCall
        else { return }
        devices[path]?.pairCall = nil
        answer(call)
    }
}
