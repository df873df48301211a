import BlueZ

/// The GATT services of a strap, laid out as bluetoothd shows them.
struct GattTable {
    /// One characteristic.
    struct Characteristic {
        /// Last part of the object path under its service.
        var name: String
        var uuid: String
        var flags: [String]
        var value: [UInt8]
        /// Whether it wants a bond, if the strap asks for one.
        var isProtected = false
    }

    /// One primary service.
    struct Service {
        var name: String
        var uuid: String
        var characteristics: [Characteristic]
    }

    static let heartRate = uuid(0x180d)
    static let measurement = uuid(0x2a37)
    static let bodyLocation = uuid(0x2a38)
    static let controlPoint = uuid(0x2a39)
    static let batteryLevel = uuid(0x2a19)
    static let clientConfiguration = uuid(0x2902)

    /// The services in the order of their handles.
    let services: [Service]

    /// A Bluetooth SIG number as the text BlueZ shows.
    static func uuid(_ short: UInt16) -> String {
        "0000\(hex(short))-0000-1000-8000-00805f9b34fb"
    }

    /// Lays out what a strap has.
    init(of strap: SimulatedStrap) {
        var handle: UInt16 = 0x0006
        var services: [Service] = []

        func add(_ short: UInt16, _ characteristics: [(UInt16, [String], [UInt8], Bool)]) {
            let service = handle
            handle += 1
            var shown: [Characteristic] = []
            for (uuid, flags, value, isProtected) in characteristics {
                shown.append(
                    Characteristic(
                        name: "char\(Self.hex(handle))", uuid: Self.uuid(uuid), flags: flags,
                        value: value, isProtected: isProtected))
                // Declaration and value, and a configuration descriptor behind what notifies.
                handle += flags.contains("notify") ? 3 : 2
            }
            services.append(
                Service(
                    name: "service\(Self.hex(service))", uuid: Self.uuid(short),
                    characteristics: shown))
        }

        if strap.hasHeartRate {
            var heartRate: [(UInt16, [String], [UInt8], Bool)] = [(0x2a37, ["notify"], [], true)]
            if let location = strap.bodyLocation {
                heartRate.append((0x2a38, ["read"], [location], true))
            }
            if strap.style.framesPerEnergy != nil {
                heartRate.append((0x2a39, ["write"], [], true))
            }
            add(0x180d, heartRate)
        }
        if strap.hasHeartRate, let battery = strap.battery {
            add(0x180f, [(0x2a19, ["read", "notify"], [min(battery, 100)], false)])
        }
        if !strap.deviceInformation.isEmpty {
            add(
                0x180a,
                strap.deviceInformation.sorted { $0.key < $1.key }.map {
                    ($0.key, ["read"], Array($0.value.utf8), false)
                })
        }
        self.services = services
    }

    /// The objects below a device and their properties.
    func objects(device: String) -> [(path: String, interface: String, ObjectTree.Properties)] {
        var objects: [(path: String, interface: String, ObjectTree.Properties)] = []
        for service in services {
            let servicePath = "\(device)/\(service.name)"
            objects.append(
                (
                    servicePath, BlueZName.gattService,
                    [
                        "UUID": .string(service.uuid), "Device": .objectPath(device),
                        "Primary": .boolean(true), "Includes": .array(element: "o", []),
                        "Handle": .uint16(Self.handle(service.name)),
                    ]
                ))
            for characteristic in service.characteristics {
                let path = "\(servicePath)/\(characteristic.name)"
                var properties: ObjectTree.Properties = [
                    "UUID": .string(characteristic.uuid), "Service": .objectPath(servicePath),
                    "Flags": .strings(characteristic.flags), "MTU": .uint16(517),
                    "Value": .bytes([]), "Handle": .uint16(Self.handle(characteristic.name)),
                ]
                guard characteristic.flags.contains("notify") else {
                    objects.append((path, BlueZName.characteristic, properties))
                    continue
                }
                properties["Notifying"] = .boolean(false)
                properties["NotifyAcquired"] = .boolean(false)
                objects.append((path, BlueZName.characteristic, properties))
                // Behind the declaration and the value.
                let descriptor = Self.handle(characteristic.name) &+ 2
                objects.append(
                    (
                        "\(path)/desc\(Self.hex(descriptor))", BlueZName.descriptor,
                        [
                            "Handle": .uint16(descriptor),
                            "UUID": .string(Self.clientConfiguration),
                            "Characteristic": .objectPath(path), "Value": .bytes([]),
                        ]
                    ))
            }
        }
        return objects
    }

    /// The characteristic at a path below a device.
    func characteristic(at path: String, device: String) -> Characteristic? {
        for service in services {
            for characteristic in service.characteristics
            where path == "\(device)/\(service.name)/\(characteristic.name)" {
                return characteristic
            }
        }
        return nil
    }

    /// The path of the characteristic with this UUID below a device.
    func path(of uuid: String, device: String) -> String? {
        for service in services {
            for characteristic in service.characteristics where characteristic.uuid == uuid {
                return "\(device)/\(service.name)/\(characteristic.name)"
            }
        }
        return nil
    }

    /// The handle that ends a name such as `char0007`.
    private static func handle(_ name: String) -> UInt16 {
        UInt16(name.suffix(4), radix: 16) ?? 0
    }

    private static func hex(_ number: UInt16) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 4 - digits.count) + digits
    }
}
