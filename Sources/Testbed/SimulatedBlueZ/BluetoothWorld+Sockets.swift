import BlueZ

/// Notifications over a socket, as `src/gatt-client.c` of BlueZ 5.86 gives them.
///
/// The world has no descriptors: its answer to `AcquireNotify` has an empty place for one, and what
/// goes over the socket are messages of the kind `socket`. Who lends it a bus fills the place in.
extension BluetoothWorld {
    mutating func beginAcquiring(
        _ call: DBusMessage, at path: String, _ device: String, canNotify: Bool
    ) {
        guard let state = devices[device], state.isConnected else {
            return refuse(call, BlueZFault.gattNotConnected)
        }
        if state.acquired[path] != nil { return refuse(call, BlueZFault.notifyAcquired) }
        guard state.notifySessions[path]?.isEmpty ?? true else {
            return refuse(call, BlueZFault.inProgress)
        }
        guard canNotify else { return refuse(call, BlueZFault.notSupported) }
        guard call.body.count == 1, call.body[0].entries != nil else {
            return refuse(call, BlueZFault.invalidArguments)
        }
        let number = UInt32(truncatingIfNeeded: nextNumber())
        devices[device]?.acquired[path] = Acquisition(
            client: call.sender ?? "", serial: call.serial, number: number)
        beginAtt(device, call)
    }

    mutating func openSocket(_ call: DBusMessage, at path: String, device: String) {
        // Its client may have left meanwhile.
        guard devices[device]?.acquired[path]?.serial == call.serial else {
            return refuse(call, BlueZFault.gattNotConnected)
        }
        devices[device]?.acquired[path]?.isOpen = true
        send(tree.set(path, BlueZName.characteristic, ["NotifyAcquired": .boolean(true)]))
        answer(call, .unixFD(nil), .uint16(habits.mtu))
    }

    /// The socket of a characteristic is closed here.
    mutating func endAcquisition(at path: String, device: String) {
        guard let acquisition = devices[device]?.acquired.removeValue(forKey: path),
            acquisition.isOpen
        else { return }
        tell(.end, nil, at: path, acquisition)
        send(tree.set(path, BlueZName.characteristic, ["NotifyAcquired": .boolean(false)]))
    }

    /// The socket with this number was closed by its client.
    mutating func socketClosed(_ number: UInt32) {
        for (device, state) in devices {
            for (path, acquisition) in state.acquired where acquisition.number == number {
                endAcquisition(at: path, device: device)
            }
        }
    }

    /// A full socket did not take a frame.
    mutating func noteUnsent(at path: String) {
        let device = devices.keys.first { path.hasPrefix($0 + "/") }
        guard let strap = device.flatMap({ devices[$0]?.strap }) else { return }
        unsent[strap, default: 0] += 1
    }

    mutating func tell(
        _ news: DBusMessage.SocketNews, _ bytes: [UInt8]?, at path: String,
        _ acquisition: Acquisition
    ) {
        var message = DBusMessage.socket(
            news, at: path, number: acquisition.number, bytes: bytes)
        message.destination = acquisition.client
        send(message)
    }

    /// The socket that an answer to `AcquireNotify` has a place for.
    func acquisition(answeredBy answer: DBusMessage) -> Acquisition? {
        guard answer.kind == .reply, answer.body.first == .unixFD(nil) else { return nil }
        return acquisitions.first {
            $0.client == answer.destination && $0.serial == answer.replySerial
        }
    }

    /// All sockets that are out.
    var acquisitions: [Acquisition] { devices.values.flatMap(\.acquired.values) }
}
