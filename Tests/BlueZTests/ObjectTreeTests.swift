import Basics
import Testbed
import Testing

@testable import BlueZ

@Suite("Object tree")
struct ObjectTreeTests {
    static let adapter = "/org/bluez/hci0"
    static let device = "/org/bluez/hci0/dev_C0_00_00_00_00_01"
    static let service = device + "/service0006"
    static let characteristic = service + "/char0007"

    var tree = ObjectTree()

    static func interfaces(_ interfaces: [String: [String: DBusValue]]) -> DBusValue {
        .dictionary(
            key: "s", value: "a{sv}",
            interfaces.map { .init(key: .string($0.key), value: .properties($0.value)) })
    }

    static let objects = DBusValue.dictionary(
        key: "o", value: "a{sa{sv}}",
        [
            .init(
                key: .objectPath(adapter),
                value: interfaces([
                    Names.adapter: [
                        "Address": .string("00:1A:7D:DA:71:01"), "Powered": .boolean(true),
                    ]
                ])),
            .init(
                key: .objectPath(device),
                value: interfaces([
                    Names.device: [
                        "Address": .string("C0:00:00:00:00:01"), "Adapter": .objectPath(adapter),
                        "UUIDs": .strings(["0000180D-0000-1000-8000-00805F9B34FB"]),
                        "ManufacturerData": .dictionary(
                            key: "q", value: "v",
                            [.init(key: .uint16(1), value: .variant(.bytes([1])))]),
                    ]
                ])),
            .init(
                key: .objectPath(service),
                value: interfaces([
                    Names.gattService: ["UUID": .string("180D"), "Device": .objectPath(device)]
                ])),
            .init(
                key: .objectPath(characteristic),
                value: interfaces([
                    Names.characteristic: [
                        "UUID": .string("2A37"), "Service": .objectPath(service),
                        "Flags": .strings(["notify"]),
                    ]
                ])),
        ])

    @Test(
        "of several measurements one that notifies is taken, then the lowest handle, in any order")
    mutating func choice() {
        let second = Self.device + "/service0020"
        func characteristic(_ path: String, _ service: String, _ flags: [String]) -> DBusMessage {
            .signal(
                path: "/", interface: Names.objectManager, member: "InterfacesAdded",
                body: [
                    .objectPath(path),
                    Self.interfaces([
                        Names.characteristic: [
                            "UUID": .string("2A37"), "Service": .objectPath(service),
                            "Flags": .strings(flags),
                        ]
                    ]),
                ])
        }
        let signals = [
            DBusMessage.signal(
                path: "/", interface: Names.objectManager, member: "InterfacesAdded",
                body: [
                    .objectPath(second),
                    Self.interfaces([
                        Names.gattService: [
                            "UUID": .string("180D"), "Device": .objectPath(Self.device),
                        ]
                    ]),
                ]),
            characteristic(Self.service + "/char0009", Self.service, ["read"]),
            characteristic(Self.service + "/char000b", Self.service, ["indicate"]),
            characteristic(second + "/char0021", second, ["notify"]),
            characteristic(second + "/char0101", second, ["notify"]),
        ]
        for _ in 0..<20 {
            tree = ObjectTree()
            _ = tree.replace(with: Self.objects, arrival: 1)
            _ = apply(
                .signal(
                    path: "/", interface: Names.objectManager, member: "InterfacesRemoved",
                    body: [.objectPath(Self.characteristic), .strings([Names.characteristic])]),
                arrival: 2)
            for (index, signal) in signals.shuffled().enumerated() {
                _ = apply(signal, arrival: UInt64(3 + index))
            }
            let found = tree.characteristic(
                ofDevice: Self.device, service: "180d", uuid: "2a37")
            #expect(found?.path == second + "/char0021")
        }
    }

    mutating func apply(_ signal: DBusMessage, arrival: UInt64, asOf: UInt64 = 0) -> [BlueZEvent] {
        var signal = signal
        signal.arrival = arrival
        signal.arrivedAt = Uptime(microseconds: 77)
        var events: [BlueZEvent] = []
        tree.apply(signal, asOf: asOf, into: &events)
        return events
    }

    static func changed(
        _ path: String, _ interface: String, _ properties: [String: DBusValue],
        gone: [String] = []
    ) -> DBusMessage {
        .signal(
            path: path, interface: Names.properties, member: "PropertiesChanged",
            body: [.string(interface), .properties(properties), .strings(gone)])
    }

    @Test("GetManagedObjects becomes adapters, devices and characteristics; case does not matter")
    mutating func snapshot() throws {
        let events = tree.replace(with: Self.objects, arrival: 10)
        #expect(events.count == 2)
        let device = try #require(tree.devices[Self.device])
        #expect(device.offers(service: "0000180d-0000-1000-8000-00805f9b34fb"))
        #expect(tree.adapters[Self.adapter]?.isPowered == true)
        let found = tree.characteristic(ofDevice: Self.device, service: "180d", uuid: "2a37")
        #expect(found?.path == Self.characteristic)
        #expect(found?.flags == ["notify"])
        #expect(tree.characteristics(ofDevice: Self.device).count == 1)
        // Another snapshot without them tells that they are gone.
        let removed = tree.replace(with: nil, arrival: 11)
        #expect(
            Set(removed) == [
                .deviceRemoved(path: Self.device, address: "C0:00:00:00:00:01"),
                .adapterRemoved(path: Self.adapter, address: "00:1A:7D:DA:71:01"),
            ])
    }

    @Test("a notification is reported with its time, even one older than the snapshot")
    mutating func notification() {
        let signal = Self.changed(
            Self.characteristic, Names.characteristic, ["Value": .bytes([0x06, 0x48])])
        let expected = BlueZEvent.notification(
            characteristicPath: Self.characteristic, bytes: [0x06, 0x48],
            arrivedAt: Uptime(microseconds: 77))
        #expect(apply(signal, arrival: 5, asOf: 9) == [expected])
        let empty = Self.changed(
            Self.characteristic, Names.characteristic, ["Value": .bytes([])])
        #expect(apply(empty, arrival: 6).count == 1)
    }

    @Test("signals older than the snapshot are in it already")
    mutating func ordering() {
        _ = tree.replace(with: Self.objects, arrival: 10)
        let old = Self.changed(Self.device, Names.device, ["Connected": .boolean(true)])
        #expect(apply(old, arrival: 9, asOf: 10) == [])
        #expect(tree.devices[Self.device]?.isConnected == false)
        #expect(apply(old, arrival: 11, asOf: 10).count == 1)
    }

    @Test("an answer to Get does not overwrite a newer signal")
    mutating func lateAnswer() {
        _ = tree.replace(with: Self.objects, arrival: 10)
        let signal = Self.changed(Self.device, Names.device, ["Connected": .boolean(true)])
        _ = apply(signal, arrival: 20)
        let old = DBusValue.properties(["Connected": .boolean(false)])
        #expect(tree.applyProperties(ofDevice: Self.device, old, arrival: 19) == [])
        #expect(tree.devices[Self.device]?.isConnected == true)
        #expect(tree.applyProperties(ofDevice: Self.device, old, arrival: 21).count == 1)
        #expect(tree.devices[Self.device]?.isConnected == false)
    }

    @Test("a signal strength is a sighting each time; one that ends is none")
    mutating func sightings() {
        _ = tree.replace(with: Self.objects, arrival: 1)
        for arrival: UInt64 in 2...3 {
            let events = apply(
                Self.changed(Self.device, Names.device, ["RSSI": .int16(-60)]), arrival: arrival)
            guard case .deviceChanged(let device, isSighting: true) = events.first else {
                Issue.record("no sighting")
                return
            }
            #expect(device.rssi == -60)
        }
        let ended = apply(
            Self.changed(Self.device, Names.device, [:], gone: ["RSSI"]), arrival: 4)
        guard case .deviceChanged(let device, isSighting: false) = ended.first else {
            Issue.record("the end was not told")
            return
        }
        #expect(device.rssi == nil)
    }

    @Test("a property that is not read is no event")
    mutating func uninteresting() {
        _ = tree.replace(with: Self.objects, arrival: 1)
        let signal = Self.changed(Self.device, Names.device, ["TxPower": .int16(4)])
        #expect(apply(signal, arrival: 2) == [])
        let unknown = Self.changed("/org/bluez/hci9/dev_x", Names.device, ["RSSI": .int16(1)])
        #expect(apply(unknown, arrival: 3) == [])
        let repeated = Self.changed(Self.device, Names.device, ["Connected": .boolean(false)])
        #expect(apply(repeated, arrival: 4) == [])
    }

    @Test("GATT objects stay after the link is lost and go with InterfacesRemoved")
    mutating func removal() {
        _ = tree.replace(with: Self.objects, arrival: 1)
        let lost = Self.changed(
            Self.device, Names.device,
            ["Connected": .boolean(false), "ServicesResolved": .boolean(false)])
        _ = apply(lost, arrival: 2)
        #expect(tree.characteristics.count == 1)
        let removed = DBusMessage.signal(
            path: "/", interface: Names.objectManager, member: "InterfacesRemoved",
            body: [.objectPath(Self.device), .strings([Names.device, Names.properties])])
        #expect(
            apply(removed, arrival: 3)
                == [.deviceRemoved(path: Self.device, address: "C0:00:00:00:00:01")])
        #expect(tree.devices.isEmpty)
    }

    @Test("malformed and mistyped signals change nothing and do not trap")
    mutating func hostile() {
        _ = tree.replace(with: Self.objects, arrival: 1)
        let bodies: [[DBusValue]] = [
            [], [.byte(1)], [.string(Names.device)], [.byte(1), .byte(2), .byte(3)],
            [.string(Names.device), .strings([]), .strings([])],
            [.string(Names.device), .properties(["Connected": .string("yes")]), .byte(0)],
            [.string(Names.device), .properties(["UUIDs": .byte(1)]), .strings(["Address"])],
            [.string(Names.characteristic), .properties(["Value": .string("x")]), .strings([])],
        ]
        for body in bodies {
            for member in ["PropertiesChanged", "InterfacesAdded", "InterfacesRemoved", "Other"] {
                _ = apply(
                    .signal(
                        path: Self.device, interface: Names.properties, member: member, body: body),
                    arrival: 9)
            }
        }
        #expect(tree.devices[Self.device]?.isConnected == false)
        _ = tree.replace(with: .byte(1), arrival: 10)
        #expect(tree.devices.isEmpty)
    }

    @Test("the number of objects is bounded")
    mutating func bound() {
        for number in 0..<(ObjectTree.objectsMax + 10) {
            let added = DBusMessage.signal(
                path: "/", interface: Names.objectManager, member: "InterfacesAdded",
                body: [
                    .objectPath("/org/bluez/hci0/dev_\(number)"),
                    Self.interfaces([Names.device: ["Address": .string("\(number)")]]),
                ])
            _ = apply(added, arrival: UInt64(number + 1))
        }
        #expect(tree.devices.count == ObjectTree.objectsMax)
    }

    @Test("paths are compared by component")
    func components() {
        #expect(ObjectPath.isPath("/org/bluez/hci1/dev_A", below: "/org/bluez/hci1"))
        #expect(!ObjectPath.isPath("/org/bluez/hci10/dev_A", below: "/org/bluez/hci1"))
        #expect(!ObjectPath.isPath("/org/bluez/hci1", below: "/org/bluez/hci1"))
    }

    @Test("without Bluetooth in the kernel the list of controllers is empty and says why")
    func controllers() {
        let (controllers, errno) = Controller.list()
        #expect(controllers.isEmpty || errno == nil)
        #expect(controllers.count <= Controller.countMax)
    }
}
