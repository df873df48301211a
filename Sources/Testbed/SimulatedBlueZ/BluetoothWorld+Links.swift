import BlueZ

/// Connecting, disconnecting, pairing.
extension BluetoothWorld {
    mutating func performDevice(_ call: DBusMessage, at path: String) {
        guard let device = devices[path] else { return refuseUnknown(call) }
        switch call.member {
        case "Connect":
            if attempting.contains(path) || device.pairCall != nil {
                return refuse(call, BlueZFault.inProgress)
            }
            if device.isConnected { return answer(call) }
            guard adapters[device.adapter]?.isPowered == true else {
                return refuse(call, BlueZFault.notReady)
            }
            devices[path]?.connectCall = call
            connect(path)
        case "Disconnect":
            cancelAttempt(path)
            guard device.isConnected else { return answer(call) }
            disconnect(path, call)
        case "Pair":
            performPair(call, at: path, device)
        case "CancelPairing":
            guard let pairCall = device.pairCall else {
                return refuse(call, BlueZFault.doesNotExist)
            }
            devices[path]?.pairCall = nil
            devices[path]?.bonding = nil
            refuse(pairCall, BlueZFault.authenticationCanceled)
            answer(call)
        default:
            refuseUnknown(call)
        }
    }

    // MARK: Connecting

    mutating func connect(_ path: String) {
        let attempt = nextNumber()
        devices[path]?.attempt = attempt
        attempting.insert(path)
        devices[path]?.isTemporary = false
        guard let device = devices[path], let adapter = adapters[device.adapter] else { return }
        let links = devices.values.count { $0.adapter == device.adapter && $0.isConnected }
        if links >= adapter.adapter.linksMax {
            schedule(
                .connectEnds(
                    device: path, attempt: attempt,
                    habits.namesFullAdapter ? BlueZFault.tooManyLinks : BlueZFault.abortByLocal),
                afterMilliseconds: habits.connectMilliseconds)
        } else if isReachable(device.strap),
            !straps.values.contains(where: { $0.lostTo == device.adapter })
        {
            reach(path)
        } else {
            schedule(
                .connectEnds(device: path, attempt: attempt, BlueZFault.abortByLocal),
                afterMilliseconds: habits.absentConnectMilliseconds)
        }
    }

    /// Whether a sensor advertises and takes a link.
    func isReachable(_ address: String) -> Bool {
        straps[address]?.isOnAir == true && straps[address]?.link == nil
            && straps[address]?.isElsewhere == false && straps[address]?.lostTo == nil
    }

    /// The sensor is there: the link takes its time.
    private mutating func reach(_ path: String) {
        guard let device = devices[path] else { return }
        schedule(
            .connectEnds(device: path, attempt: device.attempt, nil),
            afterMilliseconds: habits.connectMilliseconds)
    }

    /// A link between two of which one has lost the bond: it is up, and ends when it is to be encrypted.
    mutating func failEncryption(_ path: String, link: UInt64) {
        guard let device = devices[path], device.isConnected, device.link == link else { return }
        devices[path]?.connectCall = nil
        unlink(path)
        if let call = device.connectCall { refuse(call, BlueZFault.abortByLocal) }
    }

    /// A sensor came within reach: a connect that waits for it goes on.
    mutating func tryWaitingConnects(to address: String) {
        for path in devices.keys.sorted() where devices[path]?.strap == address {
            if attempting.contains(path), isReachable(address) { reach(path) }
        }
    }

    mutating func endConnect(_ path: String, attempt: UInt64, _ fault: DBusFault?) {
        guard let device = devices[path], attempting.contains(path), device.attempt == attempt
        else {
            return
        }
        if let fault {
            // A stranger whose link is refused goes at once.
            let isRemoved =
                fault == BlueZFault.abortByLocal && !device.isPaired && !device.isTrusted
                && isReachable(device.strap)
            if isRemoved, random.happens(habits.refusedUnanswered) {
                devices[path]?.connectCall = nil
            }
            endAttempt(path, fault)
            if isRemoved { removeDevice(path) }
            return
        }
        guard isReachable(device.strap) else {
            // It left meanwhile; the controller goes on trying.
            return schedule(
                .connectEnds(device: path, attempt: attempt, BlueZFault.abortByLocal),
                afterMilliseconds: habits.absentConnectMilliseconds)
        }
        let link = nextNumber()
        straps[device.strap]?.link = path
        devices[path]?.link = link
        attempting.remove(path)
        devices[path]?.isConnected = true
        let isUntold = random.happens(habits.connectedUnsignalled)
        send(
            tree.set(
                path, BlueZName.device, ["Connected": .boolean(true)],
                unsignalled: isUntold ? ["Connected"] : []))
        if device.isPaired, straps[device.strap]?.bonds.contains(device.adapter) == false {
            return schedule(
                .encryptionFails(device: path, link: link),
                afterMilliseconds: habits.connectMilliseconds)
        }
        if let call = device.connectCall {
            devices[path]?.connectCall = nil
            answer(call)
        }
        schedule(
            .resolved(device: path, link: link, early: habits.resolvesEarly),
            afterMilliseconds: device.hasGatt
                ? habits.resolveCachedMilliseconds : habits.resolveMilliseconds)
        if let call = devices[path]?.pairCall { beginPairing(path, asking: call.sender) }
    }

    /// Ends a connect at a program's wish. Linux loses a link that comes up meanwhile: the sensor stays connected, and
    /// the adapter connects to no other until it is powered off.
    mutating func cancelAttempt(_ path: String) {
        if habits.losesCancelledLinks, attempting.contains(path), let device = devices[path],
            isReachable(device.strap)
        {
            straps[device.strap]?.lostTo = device.adapter
        }
        endAttempt(path, BlueZFault.connectCanceled)
    }

    /// Ends a connect that has not come to a link.
    mutating func endAttempt(_ path: String, _ fault: DBusFault) {
        guard attempting.remove(path) != nil, let device = devices[path] else { return }
        devices[path]?.connectCall = nil
        devices[path]?.pairCall = nil
        if let call = device.connectCall { refuse(call, fault) }
        if let call = device.pairCall {
            refuse(call, BlueZFault.failed("Software caused connection abort"))
        }
        becomeTemporary(path)
    }

    mutating func resolve(_ path: String, link: UInt64, early: Bool) {
        guard let device = devices[path], device.isConnected, device.link == link,
            let strap = straps[device.strap]
        else { return }
        if early {
            send(tree.set(path, BlueZName.device, ["ServicesResolved": .boolean(true)]))
            return schedule(
                .resolved(device: path, link: link, early: false),
                afterMilliseconds: habits.resolveMilliseconds)
        }
        if !device.hasGatt {
            for (object, interface, properties) in strap.table.objects(device: path) {
                send(tree.add(object, [interface: properties]))
            }
        }
        if let battery = strap.strap.battery, strap.strap.hasHeartRate {
            send(
                tree.add(
                    path,
                    [
                        BlueZName.battery: [
                            "Percentage": .byte(min(battery, 100)),
                            "Source": .string("GATT Battery Service"),
                        ]
                    ]))
        }
        devices[path]?.hasGatt = true
        devices[path]?.isResolved = true
        send(
            tree.set(
                path, BlueZName.device,
                [
                    "UUIDs": .strings(strap.table.services.map(\.uuid)),
                    "ServicesResolved": .boolean(true),
                ]))
        rearm(path)
        replyPaired(path)
    }

    // MARK: Disconnecting

    mutating func disconnect(_ path: String, _ call: DBusMessage) {
        guard let device = devices[path] else { return }
        devices[path]?.disconnectCalls.append(call)
        if device.isDisconnecting { return }
        devices[path]?.isDisconnecting = true
        schedule(
            .unlinked(device: path, link: device.link),
            afterMilliseconds: habits.disconnectMilliseconds)
    }

    /// A link ends: both properties in one signal, the GATT objects stay, the battery goes.
    mutating func unlink(_ path: String) {
        guard let device = devices[path], device.isConnected else { return }
        if straps[device.strap]?.link == path { straps[device.strap]?.link = nil }
        devices[path]?.isConnected = false
        devices[path]?.isResolved = false
        devices[path]?.isDisconnecting = false
        devices[path]?.armed = []
        devices[path]?.disconnectCalls = []
        devices[path]?.pairCall = nil
        devices[path]?.bonding = nil
        // A subscription that still waits for a bond ends unanswered, and nothing of it takes effect on the next link.
        for call in device.waitingForBond { forget(call, device: path) }
        devices[path]?.waitingForBond = []
        if let call = device.pairCall { refuse(call, BlueZFault.authenticationCanceled) }
        send(tree.remove(path, interface: BlueZName.battery))
        send(
            tree.set(
                path, BlueZName.device,
                ["Connected": .boolean(false), "ServicesResolved": .boolean(false)]))
        for call in device.disconnectCalls { answer(call) }
        if device.disconnectCalls.contains(where: { $0.member == "RemoveDevice" }) {
            removeDevice(path)
        } else {
            becomeTemporary(path)
        }
        tryWaitingConnects(to: device.strap)
    }

    /// The radio loses a link.
    mutating func drop(_ address: String) {
        straps[address]?.lostTo = nil
        guard let path = straps[address]?.link, let device = devices[path] else { return }
        let isStranger = !device.isPaired && !device.isTrusted
        if isStranger, random.happens(habits.vanishesOnDrop) {
            removeDevice(path)
        } else {
            unlink(path)
        }
    }
}
