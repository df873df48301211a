import BlueZ
import Testing

@testable import Testbed

private typealias Fixture = SimulatedBlueZFixture

@Suite struct SimulatedBlueZLinkTests {
    @Test func servicesAreResolvedAfterTheConnectIsAnswered() throws {
        let fixture = try Fixture()
        fixture.discover()
        let connect = fixture.begin("Connect", Fixture.device, BlueZName.device)
        fixture.wait(seconds: 0.1)
        #expect(fixture.answer(connect) == nil)
        fixture.wait(seconds: 0.05)
        #expect(isGood(fixture.answer(connect)))
        #expect(fixture.property("Connected")?.flag == true)
        #expect(fixture.property("ServicesResolved")?.flag == false)
        #expect(!fixture.world.tree.has(Fixture.measurement, BlueZName.characteristic))
        fixture.wait(seconds: 0.3)
        #expect(fixture.property("ServicesResolved")?.flag == true)
        #expect(fixture.world.tree.has(Fixture.measurement, BlueZName.characteristic))
        #expect(fixture.world.tree.has(Fixture.device, BlueZName.battery))
    }

    @Test func theServicesMayBeSaidToBeResolvedTooEarly() throws {
        let fixture = try Fixture { $0.resolvesEarly = true }
        fixture.discover()
        _ = fixture.onDevice("Connect", seconds: 0.4)
        #expect(fixture.property("ServicesResolved")?.flag == true)
        #expect(!fixture.world.tree.has(Fixture.measurement, BlueZName.characteristic))
        fixture.wait(seconds: 0.3)
        #expect(fixture.world.tree.has(Fixture.measurement, BlueZName.characteristic))
    }

    @Test func aSecondConnectIsInProgress() throws {
        let fixture = try Fixture()
        fixture.discover()
        let first = fixture.begin("Connect", Fixture.device, BlueZName.device)
        #expect(fixture.onDevice("Connect", seconds: 0)?.fault == BlueZFault.inProgress)
        fixture.wait(seconds: 1)
        #expect(isGood(fixture.answer(first)))
        #expect(isGood(fixture.onDevice("Connect", seconds: 0)), "connected already")
    }

    @Test func connectedMayBecomeTrueWithoutASignal() throws {
        let fixture = try Fixture { $0.connectedUnsignalled = 1 }
        fixture.connect()
        #expect(fixture.property("Connected")?.flag == true)
        let told = fixture.changes(Fixture.device, BlueZName.device)
        #expect(!told.contains { $0["Connected"] != nil })
        #expect(told.contains { $0["ServicesResolved"]?.flag == true })
    }

    @Test func aLostLinkIsOneSignalAndLeavesTheGattObjects() throws {
        let fixture = try Fixture()
        fixture.connect()
        fixture.messages = []
        fixture.world.drop(Fixture.strap)
        fixture.wait(seconds: 0)
        #expect(
            fixture.changes(Fixture.device, BlueZName.device) == [
                ["Connected": .boolean(false), "ServicesResolved": .boolean(false)]
            ])
        #expect(fixture.world.tree.has(Fixture.measurement, BlueZName.characteristic))
        #expect(!fixture.world.tree.has(Fixture.device, BlueZName.battery))
        #expect(fixture.messages.first?.body.last?.texts == [BlueZName.battery])
    }

    @Test func aStrangerMayVanishWithoutAGoodbye() throws {
        let fixture = try Fixture { $0.vanishesOnDrop = 1 }
        fixture.connect()
        fixture.messages = []
        fixture.world.drop(Fixture.strap)
        fixture.wait(seconds: 0)
        #expect(fixture.changes(Fixture.device, BlueZName.device).isEmpty)
        #expect(fixture.removed.last == Fixture.device)
        #expect(fixture.removed.contains(Fixture.measurement))
        #expect(fixture.property("Address") == nil)
    }

    @Test func anUnpairedStrapVanishesAfterItsLinkATrustedOneStays() throws {
        let fixture = try Fixture()
        fixture.connect()
        fixture.world.setOnAir(Fixture.strap, false)
        fixture.wait(seconds: 31)
        #expect(fixture.property("Address") == nil)

        fixture.world.setOnAir(Fixture.strap, true)
        fixture.connect()
        let trust: [DBusValue] = [
            .string(BlueZName.device), .string("Trusted"), .variant(.boolean(true)),
        ]
        #expect(isGood(fixture.call("Set", Fixture.device, BlueZName.properties, trust)))
        fixture.world.setOnAir(Fixture.strap, false)
        fixture.wait(seconds: 3600)
        #expect(fixture.property("Trusted")?.flag == true)
    }

    @Test func connectToAnAbsentStrapFailsAfterFortyTwoSeconds() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.world.setOnAir(Fixture.strap, false)
        let connect = fixture.begin("Connect", Fixture.device, BlueZName.device)
        fixture.wait(seconds: 41.5)
        #expect(fixture.answer(connect) == nil)
        fixture.wait(seconds: 1)
        #expect(fixture.answer(connect)?.fault == BlueZFault.abortByLocal)
    }

    @Test func connectToAnAbsentStrapSucceedsWhenItReturns() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.world.setOnAir(Fixture.strap, false)
        let connect = fixture.begin("Connect", Fixture.device, BlueZName.device)
        fixture.wait(seconds: 20)
        fixture.world.setOnAir(Fixture.strap, true)
        fixture.wait(seconds: 1)
        #expect(isGood(fixture.answer(connect)))
        fixture.wait(seconds: 60)
        #expect(fixture.property("Connected")?.flag == true)
    }

    @Test func disconnectCancelsAPendingConnectAtOnce() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.world.setOnAir(Fixture.strap, false)
        let connect = fixture.begin("Connect", Fixture.device, BlueZName.device)
        #expect(isGood(fixture.onDevice("Disconnect", seconds: 0)))
        #expect(fixture.answer(connect)?.fault == BlueZFault.connectCanceled)
    }

    @Test func disconnectTakesTwoSecondsAndNothingBeginsMeanwhile() throws {
        let fixture = try Fixture()
        fixture.connect()
        let disconnect = fixture.begin("Disconnect", Fixture.device, BlueZName.device)
        fixture.wait(seconds: 1.9)
        #expect(fixture.answer(disconnect) == nil)
        #expect(fixture.onMeasurement("StartNotify")?.fault == BlueZFault.notConnected)
        fixture.wait(seconds: 0.2)
        #expect(isGood(fixture.answer(disconnect)))
        #expect(fixture.property("Connected")?.flag == false)
    }

    @Test func aControllerHasOnlySoManyLinks() throws {
        let straps = try (1...3).map {
            SimulatedStrap(
                address: "C0:00:00:00:00:0\($0)", name: "HR", heart: try .fiveMinutes())
        }
        let fixture = try Fixture(straps: straps, adapters: [SimulatedAdapter(linksMax: 2)])
        fixture.discover()
        let answers = straps.map { strap in
            fixture.call(
                "Connect", SimulatedBlueZ.devicePath(strap.address), BlueZName.device, seconds: 1)
        }
        #expect(isGood(answers[0]) && isGood(answers[1]))
        #expect(answers[2]?.fault == BlueZFault.tooManyLinks)
    }

    @Test func aLinkedStrapIsNotHeardByAnotherAdapter() throws {
        let fixture = try Fixture(adapters: [
            SimulatedAdapter(), SimulatedAdapter(address: "00:1A:7D:DA:71:02", index: 1),
        ])
        fixture.connect()
        _ = fixture.call("StartDiscovery", "/org/bluez/hci1", BlueZName.adapter)
        fixture.wait(seconds: 5)
        let other = SimulatedBlueZ.devicePath(Fixture.strap, adapterIndex: 1)
        #expect(fixture.property("Address", other) == nil)
        fixture.world.drop(Fixture.strap)
        fixture.wait(seconds: 5)
        #expect(fixture.property("Address", other) != nil)
    }

    @Test func aStrapThatLostItsBondIsRefusedUntilItIsRemoved() throws {
        let fixture = try Fixture()
        fixture.discover()
        #expect(isGood(fixture.onDevice("Pair")))
        #expect(fixture.onDevice("Pair")?.fault == BlueZFault.alreadyExists)
        fixture.world.straps[Fixture.strap]?.bonds = []
        fixture.world.drop(Fixture.strap)
        #expect(fixture.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(fixture.property("Paired")?.flag == true)
        #expect(isGood(fixture.onAdapter("RemoveDevice", [.objectPath(Fixture.device)])))
        #expect(fixture.property("Paired") == nil)
        fixture.discover()
        #expect(isGood(fixture.onDevice("Pair")))
    }

    @Test func removingAConnectedStrapEndsItsLinkFirst() throws {
        let fixture = try Fixture()
        fixture.connect()
        let remove = fixture.begin(
            "RemoveDevice", Fixture.adapter, BlueZName.adapter, [.objectPath(Fixture.device)])
        fixture.wait(seconds: 1)
        #expect(fixture.answer(remove) == nil)
        fixture.wait(seconds: 1.1)
        #expect(isGood(fixture.answer(remove)))
        #expect(fixture.property("Address") == nil)
        #expect(
            fixture.onAdapter("RemoveDevice", [.objectPath(Fixture.device)])?.fault
                == BlueZFault.doesNotExist)
    }

    @Test func aRestartKeepsBondsAndForgetsTheRest() throws {
        let second = SimulatedStrap(
            address: "C0:00:00:00:00:02", name: "HR-02", heart: try .fiveMinutes())
        let first = SimulatedStrap(address: Fixture.strap, name: "HR-01", heart: try .fiveMinutes())
        let fixture = try Fixture(straps: [first, second])
        fixture.discover()
        #expect(isGood(fixture.onDevice("Pair")))
        _ = fixture.onAdapter("StartDiscovery")
        fixture.world.end(gracefully: false)
        fixture.messages = []
        fixture.wait(seconds: 100)
        #expect(fixture.messages.isEmpty)
        #expect(fixture.world.straps[Fixture.strap]?.link == nil)
        fixture.world.start()
        fixture.wait(seconds: 1)
        #expect(fixture.property("Paired")?.flag == true)
        #expect(fixture.property("Connected")?.flag == false)
        #expect(fixture.property("Address", SimulatedBlueZ.devicePath(second.address)) == nil)
        #expect(
            fixture.world.tree[Fixture.adapter, BlueZName.adapter, "Discovering"]?.flag == false)
        #expect(isGood(fixture.onDevice("Connect")))
    }

    @Test func aSeedRepeatsARun() throws {
        func run(_ seed: UInt64) throws -> [DBusMessage] {
            let fixture = try Fixture(seed: seed) { $0.connectedUnsignalled = 0.5 }
            for _ in 0..<5 {
                fixture.connect()
                _ = fixture.onMeasurement("StartNotify")
                fixture.wait(seconds: 10)
                fixture.world.drop(Fixture.strap)
            }
            return fixture.messages
        }
        #expect(try run(7) == run(7))
        #expect(try run(7) != run(8))
    }
}
