import BlueZ
import Testing

@testable import Testbed

private typealias Fixture = SimulatedBlueZFixture

@Suite struct SimulatedBlueZDiscoveryTests {
    private let heartRateFilter: [DBusValue] = [
        .properties([
            "UUIDs": .strings([GattTable.heartRate]), "Transport": .string("le"),
        ])
    ]

    @Test func nothingIsHeardWithoutDiscovery() throws {
        let fixture = try Fixture()
        fixture.wait(seconds: 60)
        #expect(fixture.messages.isEmpty)
        #expect(isGood(fixture.onAdapter("StartDiscovery")))
        fixture.wait(seconds: 2)
        #expect(fixture.property("Name")?.text == "HR-01")
        #expect(fixture.property("RSSI") != nil)
        #expect(
            fixture.messages.contains {
                $0.member == "InterfacesAdded" && $0.body.first?.text == Fixture.device
            })
    }

    @Test func signalStrengthGoesWithTheDiscovery() throws {
        let fixture = try Fixture()
        fixture.discover()
        #expect(fixture.property("RSSI") == nil)
        #expect(
            fixture.changes(Fixture.device, BlueZName.device).last == [
                "RSSI": .string("invalidated")
            ])
        #expect(
            fixture.changes(Fixture.adapter, BlueZName.adapter).last == [
                "Discovering": .boolean(false)
            ])
    }

    @Test func aStrangerVanishesThirtySecondsAfterTheDiscovery() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.wait(seconds: 28)
        #expect(fixture.property("Address") != nil)
        fixture.wait(seconds: 3)
        #expect(fixture.property("Address") == nil)
        #expect(fixture.removed == [Fixture.device])
        let answer = fixture.onDevice("Connect")
        #expect(answer?.fault?.name == "org.freedesktop.DBus.Error.UnknownObject")
    }

    @Test func aStrangerStaysWhileItIsHeard() throws {
        let fixture = try Fixture()
        _ = fixture.onAdapter("StartDiscovery")
        fixture.wait(seconds: 300)
        #expect(fixture.removed.isEmpty)
        #expect(fixture.property("Address") != nil)
    }

    @Test func eachClientHasItsOwnDiscovery() throws {
        let fixture = try Fixture()
        #expect(fixture.onAdapter("StopDiscovery")?.fault == BlueZFault.noDiscovery)
        #expect(isGood(fixture.onAdapter("StartDiscovery")))
        #expect(fixture.onAdapter("StartDiscovery")?.fault == BlueZFault.busy)
        #expect(isGood(fixture.onAdapter("StartDiscovery", from: ":1.8")))
        #expect(isGood(fixture.onAdapter("StopDiscovery")))
        #expect(fixture.world.tree[Fixture.adapter, BlueZName.adapter, "Discovering"]?.flag == true)
        #expect(isGood(fixture.onAdapter("StopDiscovery", from: ":1.8")))
        #expect(
            fixture.world.tree[Fixture.adapter, BlueZName.adapter, "Discovering"]?.flag == false)
    }

    @Test func aDiscoveryEndsWithItsClient() throws {
        let fixture = try Fixture()
        _ = fixture.onAdapter("StartDiscovery")
        fixture.world.receive(
            .signal(
                path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus",
                member: "NameOwnerChanged",
                body: [.string(":1.7"), .string(":1.7"), .string("")]))
        fixture.wait(seconds: 0)
        #expect(
            fixture.world.tree[Fixture.adapter, BlueZName.adapter, "Discovering"]?.flag == false)
    }

    @Test func filtersOfAllClientsAreMerged() throws {
        let fixture = try Fixture()
        fixture.world.add(.beacon(1, heart: try .steady(milliseconds: 1000)))
        let beacon = Fixture.adapter + "/dev_D0_BE_AC_00_00_01"
        #expect(isGood(fixture.onAdapter("SetDiscoveryFilter", heartRateFilter)))
        _ = fixture.onAdapter("StartDiscovery")
        fixture.wait(seconds: 3)
        #expect(fixture.property("Address") != nil)
        #expect(fixture.property("Address", beacon) == nil)
        _ = fixture.onAdapter("StartDiscovery", from: ":1.8")
        fixture.wait(seconds: 3)
        #expect(fixture.property("Address", beacon) != nil)
    }

    @Test func aWeakStrapIsLeftOutIfTheFilterSaysSo() throws {
        let fixture = try Fixture()
        fixture.world.straps[Fixture.strap]?.strap.rssi = -90
        _ = fixture.onAdapter("SetDiscoveryFilter", [.properties(["RSSI": .int16(-80)])])
        _ = fixture.onAdapter("StartDiscovery")
        fixture.wait(seconds: 5)
        #expect(fixture.property("Address") == nil)
    }

    @Test func scanningRestsWhileAConnectIsPending() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.world.setOnAir(Fixture.strap, false)
        fixture.world.add(
            SimulatedStrap(address: "C0:00:00:00:00:02", name: "B", heart: try .fiveMinutes()))
        _ = fixture.begin("Connect", Fixture.device, BlueZName.device)
        _ = fixture.onAdapter("StartDiscovery")
        fixture.wait(seconds: 30)
        let second = Fixture.adapter + "/dev_C0_00_00_00_00_02"
        #expect(fixture.property("Address", second) == nil)
        fixture.wait(seconds: 15)
        #expect(fixture.property("Address", second) != nil)
    }

    @Test func aDarkAdapterRefusesAndForgets() throws {
        let fixture = try Fixture()
        fixture.discover()
        _ = fixture.onAdapter("StartDiscovery")
        let off: [DBusValue] = [
            .string(BlueZName.adapter), .string("Powered"), .variant(.boolean(false)),
        ]
        let answer = fixture.call("Set", Fixture.adapter, BlueZName.properties, off, seconds: 1)
        #expect(isGood(answer))
        #expect(
            fixture.changes(Fixture.adapter, BlueZName.adapter).last == [
                "Powered": .boolean(false), "Discovering": .boolean(false),
            ])
        #expect(fixture.removed == [Fixture.device])
        #expect(fixture.onAdapter("StartDiscovery")?.fault == BlueZFault.notReady)
    }

    @Test func anAdapterComesBackUnderAnotherNumber() throws {
        let fixture = try Fixture(adapters: [
            SimulatedAdapter(index: 1),
            SimulatedAdapter(address: "00:1A:7D:DA:71:0A", index: 10),
        ])
        fixture.world.setPlugged("00:1A:7D:DA:71:01", false, index: nil)
        fixture.wait(seconds: 1)
        #expect(fixture.removed == ["/org/bluez/hci1"])
        #expect(fixture.world.tree.has("/org/bluez/hci10", BlueZName.adapter))
        fixture.world.setPlugged("00:1A:7D:DA:71:01", true, index: 2)
        fixture.wait(seconds: 1)
        let address = fixture.world.tree["/org/bluez/hci2", BlueZName.adapter, "Address"]
        #expect(address?.text == "00:1A:7D:DA:71:01")
    }
}
