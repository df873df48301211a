import Basics
import BlueZ

/// Device objects: how they come, what is remembered, how they go.
extension BluetoothWorld {
    /// `dev_AA_BB_CC_DD_EE_FF`.
    static func deviceName(_ address: String) -> String {
        "dev_" + String(address.map { $0 == ":" ? "_" : $0 })
    }

    static func devicePath(_ address: String, on adapter: SimulatedAdapter) -> String {
        "\(adapter.path)/\(deviceName(address))"
    }

    /// A device object appears.
    ///
    /// - Parameter rssi: nil for one that is remembered and not heard.
    mutating func addDevice(_ address: String, on adapter: String, rssi: Int16?) -> String {
        guard let strap = straps[address]?.strap, let adapterState = adapters[adapter] else {
            return ""
        }
        let path = Self.devicePath(address, on: adapterState.adapter)
        var device = DeviceState(strap: address, adapter: adapter)
        device.lastHeard = now
        devices[path] = device
        var properties: ObjectTree.Properties = [
            "Address": .string(address), "AddressType": .string(strap.addressType),
            "Name": .string(strap.name), "Alias": .string(strap.name),
            "Paired": .boolean(false), "Bonded": .boolean(false), "Trusted": .boolean(false),
            "Blocked": .boolean(false), "LegacyPairing": .boolean(false),
            "Connected": .boolean(false), "ServicesResolved": .boolean(false),
            "UUIDs": .strings(strap.advertisedServices),
            "Adapter": .objectPath(adapterState.adapter.path),
        ]
        if let rssi { properties["RSSI"] = .int16(rssi) }
        if strap.hasHeartRate {
            // Appearance 0x0341: generic category 13, heart-rate belt (Assigned Numbers §2.6).
            properties["Appearance"] = .uint16(0x0341)
        }
        send(tree.add(path, [BlueZName.device: properties]))
        planVanishing(path)
        return path
    }

    /// Takes a device object away, and everything below it.
    mutating func removeDevice(_ path: String) {
        endAttempt(path, BlueZFault.connectCanceled)
        guard let device = devices.removeValue(forKey: path) else { return }
        if straps[device.strap]?.link == path { straps[device.strap]?.link = nil }
        for call in device.disconnectCalls { answer(call) }
        if let call = device.pairCall { refuse(call, BlueZFault.authenticationCanceled) }
        for object in tree.paths(under: path).reversed() { send(tree.remove(object)) }
    }

    /// Writes to disk what a restart of bluetoothd must not forget.
    mutating func store(_ path: String) {
        guard let device = devices[path] else { return }
        stored[device.adapter, default: [:]][device.strap] =
            device.isPaired || device.isTrusted
            ? StoredDevice(isPaired: device.isPaired, isTrusted: device.isTrusted) : nil
    }

    private mutating func planVanishing(_ path: String) {
        guard let device = devices[path], !device.isVanishing else { return }
        devices[path]?.isVanishing = true
        agenda.add(
            .vanishes(device: path),
            due: max(
                device.lastHeard + .milliseconds(habits.temporaryMilliseconds),
                now + Agenda<Action>.step))
    }

    /// A temporary device object has had its time, unless its sensor was heard since.
    mutating func vanish(_ path: String) {
        devices[path]?.isVanishing = false
        guard let device = devices[path], device.isTemporary else { return }
        if device.isConnected || attempting.contains(path) { return }
        let age = now - device.lastHeard
        if age < .milliseconds(habits.temporaryMilliseconds) { return planVanishing(path) }
        removeDevice(path)
    }

    /// After its link ended a stranger is temporary again.
    mutating func becomeTemporary(_ path: String) {
        guard let device = devices[path], habits.vanishesAfterDisconnect, !device.isPaired,
            !device.isTrusted
        else { return }
        devices[path]?.isTemporary = true
        devices[path]?.lastHeard = now
        planVanishing(path)
    }
}
