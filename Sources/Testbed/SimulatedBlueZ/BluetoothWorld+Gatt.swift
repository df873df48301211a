import Basics
import BlueZ

/// Reading, writing, subscribing; frames.
extension BluetoothWorld {
    mutating func performCharacteristic(_ call: DBusMessage, at path: String) {
        guard let device = deviceAbove(path), let state = devices[device],
            let strap = straps[state.strap],
            let characteristic = strap.table.characteristic(at: path, device: device)
        else { return refuseUnknown(call) }
        let client = call.sender ?? ""
        let notifies = characteristic.flags.contains("notify")
        switch call.member {
        case "AcquireWrite", "AcquireNotify":
            refuse(call, BlueZFault.notSupported)
        case "ReadValue", "WriteValue":
            guard state.isConnected else { return refuse(call, BlueZFault.gattNotConnected) }
            let expected = call.member == "ReadValue" ? 1 : 2
            guard call.body.count == expected, call.body.last?.entries != nil else {
                return refuse(call, BlueZFault.invalidArguments)
            }
            beginAtt(device, call)
        case "StartNotify":
            if state.isDisconnecting { return refuse(call, BlueZFault.notConnected) }
            guard notifies else { return refuse(call, BlueZFault.notSupported) }
            if state.notifySessions[path]?.contains(client) == true {
                // Registered again by itself after a reconnect; not while the link is down, and not while it waits for a
                // bond.
                let isRegistered = state.isConnected && state.armed.contains(path)
                return isRegistered ? answer(call) : refuse(call, BlueZFault.inProgress)
            }
            devices[device]?.notifySessions[path, default: []].insert(client)
            // Without a link it succeeds, and takes effect when there is one.
            if state.isConnected { beginAtt(device, call) } else { answer(call) }
        case "StopNotify":
            guard state.notifySessions[path]?.contains(client) == true else {
                return refuse(call, BlueZFault.noNotifySession)
            }
            endNotify(of: client, at: path, device: device)
            answer(call)
        default:
            refuseUnknown(call)
        }
    }

    mutating func performDescriptor(_ call: DBusMessage) {
        guard call.member == "ReadValue" else { return refuse(call, BlueZFault.notSupported) }
        answer(call, .bytes([0, 0]))
    }

    // MARK: ATT

    mutating func beginAtt(_ device: String, _ call: DBusMessage) {
        guard let link = devices[device]?.link else { return }
        schedule(
            .attEnds(device: device, link: link, call), afterMilliseconds: habits.attMilliseconds)
    }

    mutating func endAtt(_ device: String, link: UInt64, _ call: DBusMessage) {
        guard let path = call.path, let state = devices[device], state.isConnected,
            state.link == link, let strap = straps[state.strap],
            let characteristic = strap.table.characteristic(at: path, device: device)
        else {
            // The link went first; 0x0e is "unlikely error".
            forget(call, device: device)
            return refuse(call, BlueZFault.att(0x0e))
        }
        let isRefused =
            characteristic.isProtected && strap.strap.security != .open
            && !(state.isPaired && strap.bonds.contains(state.adapter))
        if isRefused {
            if habits.bondsOnDemand, let client = defaultAgents.first {
                devices[device]?.waitingForBond.append(call)
                if state.bonding == nil { beginPairing(device, asking: client) }
                return
            }
            if call.member == "StartNotify", habits.encryptedStartNotifyHangs { return }
            forget(call, device: device)
            return refuse(call, BlueZFault.notPaired)
        }
        switch call.member {
        case "ReadValue":
            guard characteristic.flags.contains("read") else {
                return refuse(call, BlueZFault.of("NotPermitted", "Read not permitted"))
            }
            let value =
                characteristic.uuid == GattTable.batteryLevel
                ? [min(strap.strap.battery ?? 0, 100)] : characteristic.value
            // A value that is read is signalled to every client, as if it had been notified.
            tell(value, at: path)
            answer(call, .bytes(value))
        case "WriteValue":
            guard characteristic.flags.contains("write") else {
                return refuse(call, BlueZFault.of("NotPermitted", "Write not permitted"))
            }
            // 0x80 is "control point not supported" (HRS v1.0 §1.5).
            guard call.body[0].byteArray == [1] else { return refuse(call, BlueZFault.att(0x80)) }
            straps[state.strap]?.packer.resetEnergy()
            answer(call)
        default:
            // Whoever asked may have left.
            if state.notifySessions[path]?.isEmpty == false { arm(path, device: device) }
            answer(call)
        }
    }

    private func deviceAbove(_ path: String) -> String? {
        let parts = path.split(separator: "/", maxSplits: 4)
        guard parts.count == 5 else { return nil }
        return "/" + parts[0..<4].joined(separator: "/")
    }

    /// A subscription that came to nothing leaves no session.
    mutating func forget(_ call: DBusMessage, device: String) {
        guard let path = call.path else { return }
        guard call.member == "StartNotify" else { return }
        devices[device]?.notifySessions[path]?.remove(call.sender ?? "")
    }

    private mutating func tell(_ value: [UInt8], at path: String) {
        send(
            tree.set(
                path, BlueZName.characteristic, ["Value": .bytes(value)], evenIfEqual: true))
    }

    // MARK: Subscriptions

    private mutating func arm(_ path: String, device: String) {
        devices[device]?.armed.insert(path)
        send(tree.set(path, BlueZName.characteristic, ["Notifying": .boolean(true)]))
    }

    /// Sessions outlive the link and take effect again when the services are known.
    mutating func rearm(_ device: String) {
        for (path, clients) in devices[device]?.notifySessions ?? [:] where !clients.isEmpty {
            arm(path, device: device)
        }
    }

    mutating func endNotify(of client: String, at path: String, device: String) {
        guard devices[device]?.notifySessions[path]?.remove(client) != nil,
            devices[device]?.notifySessions[path]?.isEmpty == true
        else { return }
        devices[device]?.notifySessions[path] = nil
        devices[device]?.armed.remove(path)
        send(tree.set(path, BlueZName.characteristic, ["Notifying": .boolean(false)]))
    }

    // MARK: Frames

    /// Where the strap's measurement goes, if a client is subscribed.
    func subscription(to address: String) -> String? {
        guard let strap = straps[address], let device = strap.link,
            let path = strap.table.path(of: GattTable.measurement, device: device),
            let state = devices[device], state.armed.contains(path)
        else { return nil }
        return path
    }

    /// Sends one frame, if a client is subscribed, and writes it down.
    ///
    /// - Returns: whether it went out.
    mutating func emit(_ bytes: [UInt8], from address: String) -> Bool {
        guard isRunning, let path = subscription(to: address) else { return false }
        tell(bytes, at: path)
        sent[address, default: []].append(
            SentFrame(bytes: bytes, uptime: uptime, at: now))
        return true
    }

    /// The strap's own frames that became due; without a subscriber they are lost, as on air.
    mutating func sendFrames(of address: String) {
        guard let startedAt = straps[address]?.startedAt,
            let milliseconds = straps[address]?.packer.milliseconds
        else { return }
        let elapsed = Int((now - startedAt).microseconds / 1000) - milliseconds
        let packed = straps[address]?.packer.advance(milliseconds: elapsed) ?? []
        straps[address]?.packer.forgetEmitted()
        let next = Duration.milliseconds(straps[address]?.packer.nextFrameMilliseconds ?? 0)
        agenda.add(.frames(strap: address), due: max(startedAt + next, now + Agenda<Action>.step))
        guard sendsFrames, straps[address]?.isOnAir == true, straps[address]?.isMute == false else {
            return
        }
        for frame in packed {
            guard subscription(to: address) != nil, let state = straps[address] else { return }
            straps[address]?.frames += 1
            for bytes in state.strap.noise.around(frame.bytes, number: state.frames + 1) {
                _ = emit(bytes, from: address)
            }
        }
    }

    // MARK: Straps

    /// Puts a strap into the world.
    mutating func add(_ strap: SimulatedStrap) {
        straps[strap.address] = StrapState(
            strap: strap,
            packer: StrapPacker(
                heart: strap.heart, style: strap.style, startingAt: strap.firstBeat),
            table: GattTable(of: strap), isOnAir: strap.isOnAir, startedAt: now)
        let first = Int.random(in: 0...max(habits.advertMilliseconds, 1) * 1000, using: &random)
        agenda.add(.advert(strap: strap.address), due: now + .microseconds(first))
        if strap.hasHeartRate {
            agenda.add(
                .frames(strap: strap.address),
                due: now + .milliseconds(strap.style.frameIntervalMilliseconds))
        }
    }

    /// Changes what a strap's battery holds, in percent.
    mutating func setBattery(_ address: String, _ percent: UInt8) {
        straps[address]?.strap.battery = min(percent, 100)
        guard let device = straps[address]?.link else { return }
        send(tree.set(device, BlueZName.battery, ["Percentage": .byte(min(percent, 100))]))
    }

    /// Switches a strap on or off.
    mutating func setOnAir(_ address: String, _ isOnAir: Bool) {
        straps[address]?.isOnAir = isOnAir
        if isOnAir { tryWaitingConnects(to: address) } else { drop(address) }
    }

    // MARK: Service Changed

    mutating func changeServices(_ address: String, battery: Bool) {
        guard let path = straps[address]?.link, let device = devices[path], device.isResolved,
            let strap = straps[address]
        else { return }
        if !battery { straps[address]?.strap.battery = nil }
        for object in strap.table.objects(device: path).reversed() {
            send(tree.remove(object.path))
            devices[path]?.notifySessions[object.path] = nil
            devices[path]?.armed.remove(object.path)
        }
        if !battery { send(tree.remove(path, interface: BlueZName.battery)) }
        schedule(
            .servicesFound(device: path, link: device.link),
            afterMilliseconds: habits.resolveMilliseconds)
    }

    mutating func findServices(_ path: String, link: UInt64) {
        guard let device = devices[path], device.isConnected, device.link == link,
            let strap = straps[device.strap]
        else { return }
        for (object, interface, properties) in strap.table.objects(device: path) {
            send(tree.add(object, [interface: properties]))
        }
    }
}

/// One frame that went to subscribers.
public struct SentFrame: Sendable, Hashable {
    /// The bytes.
    public var bytes: [UInt8]
    /// The host's uptime when it was handed to the bus.
    public var uptime: Uptime
    /// The same instant in the simulated world.
    public var at: WorldTime
}
