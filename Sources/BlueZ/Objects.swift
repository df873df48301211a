/// A Bluetooth adapter, as bluetoothd describes it (`org.bluez.Adapter1`).
///
/// Its path changes when it is plugged in again; its address does not.
public struct Adapter: Sendable, Hashable {
    /// Its object path.
    public let path: String
    /// Upper-case hexadecimal with colons.
    public internal(set) var address = ""
    /// The alias, which is the system's name unless someone set another.
    public internal(set) var name = ""
    /// Whether its radio is on.
    public internal(set) var isPowered = false
    /// Whether it listens for advertisements, for whichever program.
    public internal(set) var isDiscovering = false

    init(path: String) { self.path = path }
}

/// A remote device, in range or only remembered (`org.bluez.Device1`).
public struct Device: Sendable, Hashable {
    /// Its object path.
    public let path: String
    /// Upper-case hexadecimal with colons.
    public internal(set) var address = ""
    /// `public` or `random`.
    public internal(set) var addressType = ""
    /// The name it gives itself, if it did.
    public internal(set) var name: String?
    /// The name that somebody gave it here; else `name`, or its address.
    public internal(set) var alias = ""
    /// dBm of the last advertisement; nil when it is not being discovered.
    public internal(set) var rssi: Int?
    /// 128-bit UUIDs of its services, lower case: advertised or found.
    public internal(set) var uuids: [String] = []
    /// Whether there is a bond, if only for this connection.
    public internal(set) var isPaired = false
    /// Nil where bluetoothd (before 5.65) does not tell.
    public internal(set) var isBonded: Bool?
    /// Whether it may connect without being asked about.
    public internal(set) var isTrusted = false
    /// May be true without ever having been signalled: get it after `Connect`.
    public internal(set) var isConnected = false
    /// Whether its services are known; only then are its characteristics there.
    public internal(set) var areServicesResolved = false
    /// Charge in percent, 0…100, while it is connected (`org.bluez.Battery1`): bluetoothd keeps the
    /// Battery Service to itself.
    public internal(set) var batteryPercent: Int?
    /// The path of its adapter.
    public internal(set) var adapter = ""
    /// The arrival number of the newest signal in here; older answers do not overwrite it.
    var asOf: UInt64 = 0

    init(path: String) { self.path = path }

    /// Whether it chose its address itself.
    var hasRandomAddress: Bool { addressType == "random" }

    /// Whether its address is a private one (Core 5.4 Vol 6 Part B §1.3.2.2) that changes every few
    /// minutes: random, and the top two bits say neither static nor reserved. With a bond, a resolvable
    /// one is resolved, and this is the identity address.
    public var hasPrivateAddress: Bool {
        guard hasRandomAddress, let top = UInt8(address.prefix(2), radix: 16) else {
            return false
        }
        return top >> 6 == 0b01 || top >> 6 == 0b00
    }

    /// Whether the device is known by a service, by its 128-bit UUID in lower case.
    public func offers(service: String) -> Bool { uuids.contains(service) }
}

/// A characteristic of a connected (or once connected) device (`org.bluez.GattCharacteristic1`).
public struct Characteristic: Sendable, Hashable {
    /// Its object path.
    public let path: String
    /// The 128-bit UUID, lower case.
    public internal(set) var uuid = ""
    /// The path of its service.
    public internal(set) var service = ""
    /// Such as `read`, `notify`, `indicate`.
    public internal(set) var flags: [String] = []
    /// Whether anybody is subscribed to it.
    public internal(set) var isNotifying = false

    init(path: String) { self.path = path }

    /// The order in which a subscription prefers characteristics: kind, handle, path.
    var preference: (Int, Int, String) {
        let kind = flags.contains("notify") ? 0 : flags.contains("indicate") ? 1 : 2
        return (kind, handle, path)
    }

    /// The handle, as bluetoothd makes it part of the path: `…/service0010/char0011`.
    private var handle: Int {
        let name = path.utf8.suffix(4)
        return Int(String(decoding: name, as: UTF8.self), radix: 16) ?? .max
    }
}

/// A GATT service (`org.bluez.GattService1`).
struct Service: Sendable, Hashable {
    var uuid = ""
    var device = ""
}

/// An object that is described by D-Bus properties.
protocol Described {
    /// Takes one property over; false if nothing here changed by it.
    /// A value of `nil` means that the property is no longer there.
    mutating func set(_ property: String, to value: DBusValue?) -> Bool
}

extension Described {
    /// Sets one field; false if it had that value already.
    static func assign<Value: Equatable>(_ field: inout Value, _ value: Value) -> Bool {
        defer { field = value }
        return field != value
    }
}

extension Adapter: Described {
    mutating func set(_ property: String, to value: DBusValue?) -> Bool {
        switch property {
        case "Address": Self.assign(&address, value?.text ?? "")
        case "Alias": Self.assign(&name, value?.text ?? "")
        case "Powered": Self.assign(&isPowered, value?.flag ?? false)
        case "Discovering": Self.assign(&isDiscovering, value?.flag ?? false)
        default: false
        }
    }
}

extension Device: Described {
    /// The most UUIDs kept of one device.
    static let uuidsMax = 64
    /// The longest name kept, in characters: a Local Name has 248 octets at most.
    static let nameMax = 248

    mutating func set(_ property: String, to value: DBusValue?) -> Bool {
        switch property {
        case "RSSI":
            // An equal value is still a new advertisement.
            rssi = value?.integer
            return true
        case "Address": return Self.assign(&address, value?.text ?? "")
        case "AddressType": return Self.assign(&addressType, value?.text ?? "")
        case "Name": return Self.assign(&name, value?.text.map { String($0.prefix(Self.nameMax)) })
        case "Alias": return Self.assign(&alias, String((value?.text ?? "").prefix(Self.nameMax)))
        case "UUIDs":
            let uuids = (value?.texts ?? []).prefix(Self.uuidsMax).map { $0.lowercased() }
            return Self.assign(&self.uuids, Array(uuids))
        case "Paired": return Self.assign(&isPaired, value?.flag ?? false)
        case "Bonded": return Self.assign(&isBonded, value?.flag)
        case "Trusted": return Self.assign(&isTrusted, value?.flag ?? false)
        case "Connected": return Self.assign(&isConnected, value?.flag ?? false)
        case "ServicesResolved": return Self.assign(&areServicesResolved, value?.flag ?? false)
        case "Adapter": return Self.assign(&adapter, value?.text ?? "")
        case "Percentage":
            let percent = value?.integer
            return Self.assign(&batteryPercent, percent.map { min(max($0, 0), 100) })
        default: return false
        }
    }
}

extension Service: Described {
    mutating func set(_ property: String, to value: DBusValue?) -> Bool {
        switch property {
        case "UUID": Self.assign(&uuid, value?.text?.lowercased() ?? "")
        case "Device": Self.assign(&device, value?.text ?? "")
        default: false
        }
    }
}

extension Characteristic: Described {
    mutating func set(_ property: String, to value: DBusValue?) -> Bool {
        switch property {
        case "UUID": Self.assign(&uuid, value?.text?.lowercased() ?? "")
        case "Service": Self.assign(&service, value?.text ?? "")
        case "Flags": Self.assign(&flags, value?.texts ?? [])
        case "Notifying": Self.assign(&isNotifying, value?.flag ?? false)
        default: false
        }
    }
}
