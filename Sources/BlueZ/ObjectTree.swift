/// The objects that org.bluez has told of: adapters, devices, services, characteristics by path.
///
/// A value without I/O: messages go in, events come out. Properties that the gateway does not read (manufacturer
/// data of strangers' adverts, say) are passed over, and the number of objects is bounded.
struct ObjectTree {
    /// Objects of one kind at most: 16 characteristics of each of 2,000 straps, where most have a dozen. bluetoothd itself
    /// forgets strangers 30 s after discovery.
    static let objectsMax = 32_768

    private(set) var adapters: [String: Adapter] = [:]
    private(set) var devices: [String: Device] = [:]
    private(set) var services: [String: Service] = [:]
    private(set) var characteristics: [String: Characteristic] = [:]

    /// The characteristic of a device by service and characteristic UUID, in lower case. Of several, one
    /// that notifies goes before one that indicates, and then the lowest handle: bluetoothd lists them
    /// in no order.
    func characteristic(
        ofDevice path: String, service: String, uuid: String
    ) -> Characteristic? {
        characteristics.values.filter {
            $0.uuid == uuid && services[$0.service]?.uuid == service
                && services[$0.service]?.device == path
        }.min { $0.preference < $1.preference }
    }

    /// All characteristics of a device.
    func characteristics(ofDevice path: String) -> [Characteristic] {
        characteristics.values.filter { services[$0.service]?.device == path }
    }

    /// Starts anew from the answer to `GetManagedObjects`.
    mutating func replace(with objects: DBusValue?, arrival: UInt64) -> [BlueZEvent] {
        let before = self
        self = ObjectTree()
        var events: [BlueZEvent] = []
        for object in objects?.entries ?? [] {
            guard let path = object.key.text else { continue }
            addInterfaces(object.value, at: path, arrival: arrival, &events)
        }
        for device in before.devices.values where devices[device.path] == nil {
            events.append(.deviceRemoved(path: device.path, address: device.address))
        }
        for adapter in before.adapters.values where adapters[adapter.path] == nil {
            events.append(.adapterRemoved(path: adapter.path, address: adapter.address))
        }
        return events
    }

    /// Takes a signal of org.bluez in. `asOf` is the arrival number of the newest snapshot: what is
    /// older is in it already, except notifications, which are in none.
    mutating func apply(_ signal: DBusMessage, asOf: UInt64, into events: inout [BlueZEvent]) {
        let isNew = signal.arrival > asOf
        switch signal.member {
        case "PropertiesChanged":
            guard let path = signal.path, signal.body.count == 3,
                let interface = signal.body[0].text, let changed = signal.body[1].entries
            else { return }
            if interface == Names.characteristic {
                changeCharacteristic(path, changed, signal, isNew, &events)
            } else if isNew {
                let gone = signal.body[2].texts ?? []
                change(interface, at: path, changed, gone, arrival: signal.arrival, &events)
            }
        case "InterfacesAdded":
            guard isNew, signal.body.count == 2, let path = signal.body[0].text else { return }
            addInterfaces(signal.body[1], at: path, arrival: signal.arrival, &events)
        case "InterfacesRemoved":
            guard isNew, signal.body.count == 2, let path = signal.body[0].text else { return }
            for interface in signal.body[1].texts ?? [] { remove(interface, at: path, &events) }
        default:
            break
        }
    }

    /// Takes the answer to a `GetAll` of a device in, unless newer signals have spoken since.
    mutating func applyProperties(
        ofDevice path: String, _ properties: DBusValue?, arrival: UInt64
    ) -> [BlueZEvent] {
        guard let device = devices[path], device.asOf < arrival else { return [] }
        var copy = device
        for entry in properties?.entries ?? [] {
            guard let name = entry.key.text, name != "RSSI" else { continue }
            _ = copy.set(name, to: entry.value)
        }
        guard copy != device else { return [] }
        devices[path] = copy
        return [.deviceChanged(copy, isSighting: false)]
    }

    private mutating func changeCharacteristic(
        _ path: String, _ changed: [DBusValue.DictEntry], _ signal: DBusMessage, _ isNew: Bool,
        _ events: inout [BlueZEvent]
    ) {
        for entry in changed {
            if case .string("Value") = entry.key {
                guard let bytes = entry.value.byteArray else { continue }
                events.append(
                    .notification(
                        characteristicPath: path, bytes: bytes,
                        arrivedAt: signal.arrivedAt))
            } else if isNew, let name = entry.key.text {
                _ = characteristics[path]?.set(name, to: entry.value)
            }
        }
    }

    private mutating func change(
        _ interface: String, at path: String, _ changed: [DBusValue.DictEntry], _ gone: [String],
        arrival: UInt64, _ events: inout [BlueZEvent]
    ) {
        switch interface {
        case Names.adapter:
            guard let adapter = Self.change(&adapters[path], changed, gone) else { return }
            events.append(.adapterChanged(adapter))
        case Names.device:
            devices[path]?.asOf = arrival
            guard let device = Self.change(&devices[path], changed, gone) else { return }
            let isSighting = changed.contains { $0.key == .string("RSSI") }
            events.append(.deviceChanged(device, isSighting: isSighting))
        case Names.battery:
            guard let device = Self.change(&devices[path], changed, gone) else { return }
            events.append(.deviceChanged(device, isSighting: false))
        default:
            break
        }
    }

    /// The changed object; nil if there is none or nothing about it changed.
    private static func change<Object: Described>(
        _ object: inout Object?, _ changed: [DBusValue.DictEntry], _ gone: [String]
    ) -> Object? {
        var isChanged = false
        for entry in changed {
            guard let name = entry.key.text else { continue }
            isChanged = (object?.set(name, to: entry.value) ?? false) || isChanged
        }
        for name in gone {
            isChanged = (object?.set(name, to: nil) ?? false) || isChanged
        }
        return isChanged ? object : nil
    }

    private mutating func addInterfaces(
        _ interfaces: DBusValue, at path: String, arrival: UInt64, _ events: inout [BlueZEvent]
    ) {
        // Whatever their order, events about a device come after the device itself.
        let entries = interfaces.entries ?? []
        let battery = entries.filter { $0.key.text == Names.battery }
        for entry in entries.filter({ $0.key.text != Names.battery }) + battery {
            let properties = entry.value.entries ?? []
            switch entry.key.text {
            case Names.adapter:
                let adapter = Self.make(Adapter(path: path), properties)
                if Self.keep(adapter, at: path, in: &adapters) {
                    events.append(.adapterChanged(adapter))
                }
            case Names.device:
                var device = Self.make(Device(path: path), properties)
                device.asOf = arrival
                if Self.keep(device, at: path, in: &devices) {
                    events.append(.deviceChanged(device, isSighting: device.rssi != nil))
                }
            case Names.battery:
                if let device = Self.change(&devices[path], properties, []) {
                    events.append(.deviceChanged(device, isSighting: false))
                }
            case Names.gattService:
                _ = Self.keep(Self.make(Service(), properties), at: path, in: &services)
            case Names.characteristic:
                let made = Self.make(Characteristic(path: path), properties)
                _ = Self.keep(made, at: path, in: &characteristics)
            default:
                break
            }
        }
    }

    private static func make<Object: Described>(
        _ object: Object, _ properties: [DBusValue.DictEntry]
    ) -> Object {
        var object = object
        for entry in properties {
            if let name = entry.key.text { _ = object.set(name, to: entry.value) }
        }
        return object
    }

    private static func keep<Object>(
        _ object: Object, at path: String, in objects: inout [String: Object]
    ) -> Bool {
        guard objects.count < objectsMax || objects[path] != nil else { return false }
        objects[path] = object
        return true
    }

    private mutating func remove(
        _ interface: String, at path: String, _ events: inout [BlueZEvent]
    ) {
        switch interface {
        case Names.adapter:
            if let adapter = adapters.removeValue(forKey: path) {
                events.append(.adapterRemoved(path: path, address: adapter.address))
            }
        case Names.device:
            if let device = devices.removeValue(forKey: path) {
                events.append(.deviceRemoved(path: path, address: device.address))
            }
        case Names.battery:
            guard devices[path]?.batteryPercent != nil else { return }
            devices[path]?.batteryPercent = nil
            if let device = devices[path] {
                events.append(.deviceChanged(device, isSighting: false))
            }
        case Names.gattService: services[path] = nil
        case Names.characteristic:
            if characteristics.removeValue(forKey: path) != nil {
                events.append(.characteristicRemoved(path: path))
            }
        default: break
        }
    }
}
