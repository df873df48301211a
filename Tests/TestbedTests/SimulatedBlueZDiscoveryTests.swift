import BlueZ
import Testing

@testable import Testbed

private typealias Bench = SimulatedBlueZBench

@Suite struct SimulatedBlueZDiscoveryTests {
    private let heartRateFilter: [DBusValue] = [
        .properties([
            "UUIDs": .strings([GattTable.heartRate]), "Transport": .string("le"),
        ])
    ]

    @Test func nothingIsHeardUntilSomebodyDiscovers() throws {
        let bench = try Bench()
        bench.wait(seconds: 60)
        #expect(bench.messages.isEmpty)
        #expect(isGood(bench.onAdapter("StartDiscovery")))
        bench.wait(seconds: 2)
        #expect(bench.property("Name")?.text == "HR-01")
        #expect(bench.property("RSSI") != nil)
        #expect(
            bench.messages.contains {
                $0.member == "InterfacesAdded" && $0.body.first?.text == Bench.device
            })
    }

    @Test func signalStrengthGoesWithTheDiscovery() throws {
        let bench = try Bench()
        bench.discover()
        #expect(bench.property("RSSI") == nil)
        #expect(
            bench.changes(Bench.device, BlueZName.device).last == ["RSSI": .string("invalidated")])
        #expect(
            bench.changes(Bench.adapter, BlueZName.adapter).last == [
                "Discovering": .boolean(false)
            ])
    }

    @Test func aStrangerVanishesThirtySecondsAfterTheDiscovery() throws {
        let bench = try Bench()
        bench.discover()
        bench.wait(seconds: 28)
        #expect(bench.property("Address") != nil)
        bench.wait(seconds: 3)
        #expect(bench.property("Address") == nil)
        #expect(bench.removed == [Bench.device])
        let answer = bench.onDevice("Connect")
        #expect(answer?.fault?.name == "org.freedesktop.DBus.Error.UnknownObject")
    }

    @Test func aStrangerStaysWhileItIsHeard() throws {
        let bench = try Bench()
        _ = bench.onAdapter("StartDiscovery")
        bench.wait(seconds: 300)
        #expect(bench.removed.isEmpty)
        #expect(bench.property("Address") != nil)
    }

    @Test func eachClientHasItsOwnDiscovery() throws {
        let bench = try Bench()
        #expect(bench.onAdapter("StopDiscovery")?.fault == BlueZFault.noDiscovery)
        #expect(isGood(bench.onAdapter("StartDiscovery")))
        #expect(bench.onAdapter("StartDiscovery")?.fault == BlueZFault.busy)
        #expect(isGood(bench.onAdapter("StartDiscovery", from: ":1.8")))
        #expect(isGood(bench.onAdapter("StopDiscovery")))
        #expect(bench.world.tree[Bench.adapter, BlueZName.adapter, "Discovering"]?.flag == true)
        #expect(isGood(bench.onAdapter("StopDiscovery", from: ":1.8")))
        #expect(bench.world.tree[Bench.adapter, BlueZName.adapter, "Discovering"]?.flag == false)
    }

    @Test func aDiscoveryEndsWithItsClient() throws {
        let bench = try Bench()
        _ = bench.onAdapter("StartDiscovery")
        bench.world.receive(
            .signal(
                path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus",
                member: "NameOwnerChanged",
                body: [.string(":1.7"), .string(":1.7"), .string("")]))
        bench.wait(seconds: 0)
        #expect(bench.world.tree[Bench.adapter, BlueZName.adapter, "Discovering"]?.flag == false)
    }

    @Test func filtersOfAllClientsAreMerged() throws {
        let bench = try Bench()
        bench.world.add(.beacon(1, heart: try .steady(milliseconds: 1000)))
        let beacon = Bench.adapter + "/dev_D0_BE_AC_00_00_01"
        #expect(isGood(bench.onAdapter("SetDiscoveryFilter", heartRateFilter)))
        _ = bench.onAdapter("StartDiscovery")
        bench.wait(seconds: 3)
        #expect(bench.property("Address") != nil)
        #expect(bench.property("Address", beacon) == nil)
        _ = bench.onAdapter("StartDiscovery", from: ":1.8")
        bench.wait(seconds: 3)
        #expect(bench.property("Address", beacon) != nil)
    }

    @Test func aWeakStrapIsLeftOutIfTheFilterSaysSo() throws {
        let bench = try Bench()
        bench.world.straps[Bench.strap]?.strap.rssi = -90
        _ = bench.onAdapter("SetDiscoveryFilter", [.properties(["RSSI": .int16(-80)])])
        _ = bench.onAdapter("StartDiscovery")
        bench.wait(seconds: 5)
        #expect(bench.property("Address") == nil)
    }

    @Test func scanningRestsWhileAConnectIsPending() throws {
        let bench = try Bench()
        bench.discover()
        bench.world.setOnAir(Bench.strap, false)
        bench.world.add(
            SimulatedStrap(address: "C0:00:00:00:00:02", name: "B", heart: try .fiveMinutes()))
        _ = bench.begin("Connect", Bench.device, BlueZName.device)
        _ = bench.onAdapter("StartDiscovery")
        bench.wait(seconds: 30)
        let second = Bench.adapter + "/dev_C0_00_00_00_00_02"
        #expect(bench.property("Address", second) == nil)
        bench.wait(seconds: 15)
        #expect(bench.property("Address", second) != nil)
    }

    @Test func aDarkAdapterRefusesAndForgets() throws {
        let bench = try Bench()
        bench.discover()
        _ = bench.onAdapter("StartDiscovery")
        let off: [DBusValue] = [
            .string(BlueZName.adapter), .string("Powered"), .variant(.boolean(false)),
        ]
        let answer = bench.call("Set", Bench.adapter, BlueZName.properties, off, seconds: 1)
        #expect(isGood(answer))
        #expect(
            bench.changes(Bench.adapter, BlueZName.adapter).last == [
                "Powered": .boolean(false), "Discovering": .boolean(false),
            ])
        #expect(bench.removed == [Bench.device])
        #expect(bench.onAdapter("StartDiscovery")?.fault == BlueZFault.notReady)
    }

    @Test func anAdapterComesBackUnderAnotherNumber() throws {
        let bench = try Bench(adapters: [
            SimulatedAdapter(index: 1),
            SimulatedAdapter(address: "00:1A:7D:DA:71:0A", index: 10),
        ])
        bench.world.setPlugged("00:1A:7D:DA:71:01", false, index: nil)
        bench.wait(seconds: 1)
        #expect(bench.removed == ["/org/bluez/hci1"])
        #expect(bench.world.tree.has("/org/bluez/hci10", BlueZName.adapter))
        bench.world.setPlugged("00:1A:7D:DA:71:01", true, index: 2)
        bench.wait(seconds: 1)
        let address = bench.world.tree["/org/bluez/hci2", BlueZName.adapter, "Address"]
        #expect(address?.text == "00:1A:7D:DA:71:01")
    }
}
