/// The requests of a client to org.bluez. Each call has a deadline, and an answer that belongs to a
/// bluetoothd that is gone is dropped with `DBusFault.stale`. Each failure is also posted as an event, so a caller that
/// cannot act on it may ignore it.
extension BlueZClient {
    /// Longer than bluetoothd itself takes to give up (42 s with an absent device); who wants to
    /// give up earlier calls `disconnect`, which ends the attempt at once.
    public static let connectDeadline = Duration.seconds(45)
    /// Longer than the 31 s that an ATT request without an answer takes to fail.
    public static let attributeDeadline = Duration.seconds(40)
    /// Pairing may wait for a person.
    public static let pairDeadline = Duration.seconds(60)

    /// Asks bluetoothd whether it takes calls at all; does nothing else.
    func ping(deadline: Duration) async throws(DBusFault) {
        _ = try await call(Names.root, Names.peer, "Ping", deadline: deadline)
    }

    /// Powers an adapter on or off.
    public func setPowered(
        _ adapter: String, _ isPowered: Bool, deadline: Duration = BlueZClient.plainDeadline
    ) async throws(DBusFault) {
        try await setProperty(
            adapter, Names.adapter, "Powered", .boolean(isPowered), deadline: deadline)
    }

    /// Asks for adverts of Low Energy devices with one of these services. bluetoothd merges the
    /// filters of all its clients, so others' devices come too.
    ///
    /// - Parameters:
    ///   - adapter: the adapter that discovers.
    ///   - services: UUIDs.
    ///   - tellsEach: whether bluetoothd reports every advert, or only those that change the signal strength.
    public func setDiscoveryFilter(
        _ adapter: String, services: [String], tellsEach: Bool
    ) async throws(DBusFault) {
        let filter = DBusValue.properties([
            "UUIDs": .strings(services), "Transport": .string("le"),
            "DuplicateData": .boolean(tellsEach),
        ])
        _ = try await call(adapter, Names.adapter, "SetDiscoveryFilter", [filter])
    }

    /// Begins this client's discovery session.
    public func startDiscovery(_ adapter: String) async throws(DBusFault) {
        _ = try await call(adapter, Names.adapter, "StartDiscovery")
    }

    /// Ends this client's discovery session: only to be called if there is one. The bus connection
    /// must stay open for another 500 ms, or the session may survive it.
    public func stopDiscovery(
        _ adapter: String, deadline: Duration = BlueZClient.plainDeadline
    ) async throws(DBusFault) {
        _ = try await call(adapter, Names.adapter, "StopDiscovery", deadline: deadline)
    }

    /// Makes bluetoothd forget a device, its bond and its remembered services.
    public func remove(
        device: String, adapter: String, deadline: Duration = BlueZClient.plainDeadline
    ) async throws(DBusFault) {
        _ = try await call(
            adapter, Names.adapter, "RemoveDevice", [.objectPath(device)], deadline: deadline)
    }

    /// Connects. Being connected already is success.
    public func connect(_ device: String) async throws(DBusFault) {
        do throws(DBusFault) {
            _ = try await call(device, Names.device, "Connect", deadline: Self.connectDeadline)
        } catch  where error.name == "org.bluez.Error.AlreadyConnected" {}
    }

    /// Disconnects, or ends an attempt to connect. Not to be called while `startNotify` is
    /// unanswered: that has crashed bluetoothd (5.87).
    public func disconnect(_ device: String) async throws(DBusFault) {
        _ = try await call(device, Names.device, "Disconnect")
    }

    /// Pairs; false if there was a bond already. Wants an agent unless the device asks for nothing at all.
    public func pair(_ device: String) async throws(DBusFault) -> Bool {
        do throws(DBusFault) {
            _ = try await call(device, Names.device, "Pair", deadline: Self.pairDeadline)
            return true
        } catch  where error.name == "org.bluez.Error.AlreadyExists" {
            return false
        }
    }

    /// Ends a `pair` that is under way: it fails then.
    func cancelPairing(_ device: String, deadline: Duration) async throws(DBusFault) {
        _ = try await call(device, Names.device, "CancelPairing", deadline: deadline)
    }

    /// Lets the device connect and use services without being asked about.
    public func setTrusted(_ device: String, _ isTrusted: Bool) async throws(DBusFault) {
        try await setProperty(device, Names.device, "Trusted", .boolean(isTrusted))
    }

    /// Gets the device's properties anew: bluetoothd does not signal every change.
    @discardableResult
    public func refresh(device: String) async throws(DBusFault) -> Device? {
        let answer = try await request(
            device, Names.properties, "GetAll", [.string(Names.device)],
            deadline: Self.plainDeadline)
        post(
            tree.applyProperties(
                ofDevice: device, answer.body.first, arrival: answer.arrival))
        return tree.devices[device]
    }

    /// Reads a characteristic.
    public func readValue(
        _ characteristic: String, deadline: Duration = BlueZClient.attributeDeadline
    ) async throws(DBusFault) -> [UInt8] {
        let answer = try await call(
            characteristic, Names.characteristic, "ReadValue", [.properties([:])],
            deadline: deadline)
        return answer.first?.byteArray ?? []
    }

    /// Writes a characteristic, with response.
    public func writeValue(
        _ characteristic: String, _ bytes: [UInt8]
    ) async throws(DBusFault) {
        _ = try await call(
            characteristic, Names.characteristic, "WriteValue",
            [.bytes(bytes), .properties(["type": .string("request")])],
            deadline: Self.attributeDeadline)
    }

    /// Asks for notifications. May remain unanswered when it brings pairing about.
    public func startNotify(_ characteristic: String) async throws(DBusFault) {
        _ = try await call(
            characteristic, Names.characteristic, "StartNotify", deadline: Self.attributeDeadline)
    }

    /// Ends this client's notifications.
    public func stopNotify(_ characteristic: String) async throws(DBusFault) {
        _ = try await call(characteristic, Names.characteristic, "StopNotify")
    }

    // MARK: Calls

    func setProperty(
        _ path: String, _ interface: String, _ name: String, _ value: DBusValue,
        deadline: Duration = BlueZClient.plainDeadline
    ) async throws(DBusFault) {
        _ = try await call(
            path, Names.properties, "Set", [.string(interface), .string(name), .variant(value)],
            deadline: deadline)
    }

    @discardableResult
    func call(
        _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        deadline: Duration = BlueZClient.plainDeadline
    ) async throws(DBusFault) -> [DBusValue] {
        try await request(path, interface, member, arguments, deadline: deadline).body
    }

    func request(
        _ path: String, _ interface: String, _ member: String, _ arguments: [DBusValue],
        deadline: Duration
    ) async throws(DBusFault) -> DBusMessage {
        let asked = generation
        do throws(DBusFault) {
            let answer = try await connection.request(
                DBusMessage(
                    kind: .call, path: path, interface: interface, member: member,
                    destination: Names.service, body: arguments),
                deadline: deadline)
            guard asked == generation else {
                throw DBusFault(
                    name: DBusFault.stale, text: "\(member) answered by a daemon now gone")
            }
            return answer
        } catch {
            post([.callFailed(member: member, error)])
            throw error
        }
    }
}
