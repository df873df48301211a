import BlueZ
import Testing

@testable import Testbed

private typealias Bench = SimulatedBlueZBench

@Suite struct SimulatedBlueZLinkTests {
    @Test func servicesAreResolvedAfterTheConnectIsAnswered() throws {
        let bench = try Bench()
        bench.discover()
        let connect = bench.begin("Connect", Bench.device, BlueZName.device)
        bench.wait(seconds: 0.1)
        #expect(bench.answer(connect) == nil)
        bench.wait(seconds: 0.05)
        #expect(isGood(bench.answer(connect)))
        #expect(bench.property("Connected")?.flag == true)
        #expect(bench.property("ServicesResolved")?.flag == false)
        #expect(!bench.world.tree.has(Bench.measurement, BlueZName.characteristic))
        bench.wait(seconds: 0.3)
        #expect(bench.property("ServicesResolved")?.flag == true)
        #expect(bench.world.tree.has(Bench.measurement, BlueZName.characteristic))
        #expect(bench.world.tree.has(Bench.device, BlueZName.battery))
    }

    @Test func theServicesMayBeSaidToBeResolvedTooEarly() throws {
        let bench = try Bench { $0.resolvesEarly = true }
        bench.discover()
        _ = bench.onDevice("Connect", seconds: 0.4)
        #expect(bench.property("ServicesResolved")?.flag == true)
        #expect(!bench.world.tree.has(Bench.measurement, BlueZName.characteristic))
        bench.wait(seconds: 0.3)
        #expect(bench.world.tree.has(Bench.measurement, BlueZName.characteristic))
    }

    @Test func aSecondConnectIsInProgress() throws {
        let bench = try Bench()
        bench.discover()
        let first = bench.begin("Connect", Bench.device, BlueZName.device)
        #expect(bench.onDevice("Connect", seconds: 0)?.fault == BlueZFault.inProgress)
        bench.wait(seconds: 1)
        #expect(isGood(bench.answer(first)))
        #expect(isGood(bench.onDevice("Connect", seconds: 0)), "connected already")
    }

    @Test func connectedMayBecomeTrueWithoutASignal() throws {
        let bench = try Bench { $0.connectedUnsignalled = 1 }
        bench.connect()
        #expect(bench.property("Connected")?.flag == true)
        let told = bench.changes(Bench.device, BlueZName.device)
        #expect(!told.contains { $0["Connected"] != nil })
        #expect(told.contains { $0["ServicesResolved"]?.flag == true })
    }

    @Test func aLostLinkIsOneSignalAndLeavesTheGattObjects() throws {
        let bench = try Bench()
        bench.connect()
        bench.messages = []
        bench.world.drop(Bench.strap)
        bench.wait(seconds: 0)
        #expect(
            bench.changes(Bench.device, BlueZName.device) == [
                ["Connected": .boolean(false), "ServicesResolved": .boolean(false)]
            ])
        #expect(bench.world.tree.has(Bench.measurement, BlueZName.characteristic))
        #expect(!bench.world.tree.has(Bench.device, BlueZName.battery))
        #expect(bench.messages.first?.body.last?.texts == [BlueZName.battery])
    }

    @Test func aStrangerMayVanishWithoutAGoodbye() throws {
        let bench = try Bench { $0.vanishesOnDrop = 1 }
        bench.connect()
        bench.messages = []
        bench.world.drop(Bench.strap)
        bench.wait(seconds: 0)
        #expect(bench.changes(Bench.device, BlueZName.device).isEmpty)
        #expect(bench.removed.last == Bench.device)
        #expect(bench.removed.contains(Bench.measurement))
        #expect(bench.property("Address") == nil)
    }

    @Test func anUnpairedStrapVanishesAfterItsLinkATrustedOneStays() throws {
        let bench = try Bench()
        bench.connect()
        bench.world.setOnAir(Bench.strap, false)
        bench.wait(seconds: 31)
        #expect(bench.property("Address") == nil)

        bench.world.setOnAir(Bench.strap, true)
        bench.connect()
        let trust: [DBusValue] = [
            .string(BlueZName.device), .string("Trusted"), .variant(.boolean(true)),
        ]
        #expect(isGood(bench.call("Set", Bench.device, BlueZName.properties, trust)))
        bench.world.setOnAir(Bench.strap, false)
        bench.wait(seconds: 3600)
        #expect(bench.property("Trusted")?.flag == true)
    }

    @Test func connectToAnAbsentStrapFailsAfterFortyTwoSeconds() throws {
        let bench = try Bench()
        bench.discover()
        bench.world.setOnAir(Bench.strap, false)
        let connect = bench.begin("Connect", Bench.device, BlueZName.device)
        bench.wait(seconds: 41.5)
        #expect(bench.answer(connect) == nil)
        bench.wait(seconds: 1)
        #expect(bench.answer(connect)?.fault == BlueZFault.abortByLocal)
    }

    @Test func connectToAnAbsentStrapSucceedsWhenItReturns() throws {
        let bench = try Bench()
        bench.discover()
        bench.world.setOnAir(Bench.strap, false)
        let connect = bench.begin("Connect", Bench.device, BlueZName.device)
        bench.wait(seconds: 20)
        bench.world.setOnAir(Bench.strap, true)
        bench.wait(seconds: 1)
        #expect(isGood(bench.answer(connect)))
        bench.wait(seconds: 60)
        #expect(bench.property("Connected")?.flag == true)
    }

    @Test func disconnectCancelsAPendingConnectAtOnce() throws {
        let bench = try Bench()
        bench.discover()
        bench.world.setOnAir(Bench.strap, false)
        let connect = bench.begin("Connect", Bench.device, BlueZName.device)
        #expect(isGood(bench.onDevice("Disconnect", seconds: 0)))
        #expect(bench.answer(connect)?.fault == BlueZFault.connectCanceled)
    }

    @Test func disconnectTakesTwoSecondsAndNothingBeginsMeanwhile() throws {
        let bench = try Bench()
        bench.connect()
        let disconnect = bench.begin("Disconnect", Bench.device, BlueZName.device)
        bench.wait(seconds: 1.9)
        #expect(bench.answer(disconnect) == nil)
        #expect(bench.onMeasurement("StartNotify")?.fault == BlueZFault.notConnected)
        bench.wait(seconds: 0.2)
        #expect(isGood(bench.answer(disconnect)))
        #expect(bench.property("Connected")?.flag == false)
    }

    @Test func aControllerHasOnlySoManyLinks() throws {
        let straps = try (1...3).map {
            SimulatedStrap(
                address: "C0:00:00:00:00:0\($0)", name: "HR", heart: try .fiveMinutes())
        }
        let bench = try Bench(straps: straps, adapters: [SimulatedAdapter(linksMax: 2)])
        bench.discover()
        let answers = straps.map { strap in
            bench.call(
                "Connect", SimulatedBlueZ.devicePath(strap.address), BlueZName.device, seconds: 1)
        }
        #expect(isGood(answers[0]) && isGood(answers[1]))
        #expect(answers[2]?.fault == BlueZFault.tooManyLinks)
    }

    @Test func aLinkedStrapIsNotHeardByAnotherAdapter() throws {
        let bench = try Bench(adapters: [
            SimulatedAdapter(), SimulatedAdapter(address: "00:1A:7D:DA:71:02", index: 1),
        ])
        bench.connect()
        _ = bench.call("StartDiscovery", "/org/bluez/hci1", BlueZName.adapter)
        bench.wait(seconds: 5)
        let other = SimulatedBlueZ.devicePath(Bench.strap, adapterIndex: 1)
        #expect(bench.property("Address", other) == nil)
        bench.world.drop(Bench.strap)
        bench.wait(seconds: 5)
        #expect(bench.property("Address", other) != nil)
    }

    @Test func aStrapThatLostItsBondIsRefusedUntilItIsRemoved() throws {
        let bench = try Bench()
        bench.discover()
        #expect(isGood(bench.onDevice("Pair")))
        #expect(bench.onDevice("Pair")?.fault == BlueZFault.alreadyExists)
        bench.world.straps[Bench.strap]?.bonds = []
        bench.world.drop(Bench.strap)
        #expect(bench.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(bench.property("Paired")?.flag == true)
        #expect(isGood(bench.onAdapter("RemoveDevice", [.objectPath(Bench.device)])))
        #expect(bench.property("Paired") == nil)
        bench.discover()
        #expect(isGood(bench.onDevice("Pair")))
    }

    @Test func removingAConnectedStrapEndsItsLinkFirst() throws {
        let bench = try Bench()
        bench.connect()
        let remove = bench.begin(
            "RemoveDevice", Bench.adapter, BlueZName.adapter, [.objectPath(Bench.device)])
        bench.wait(seconds: 1)
        #expect(bench.answer(remove) == nil)
        bench.wait(seconds: 1.1)
        #expect(isGood(bench.answer(remove)))
        #expect(bench.property("Address") == nil)
        #expect(
            bench.onAdapter("RemoveDevice", [.objectPath(Bench.device)])?.fault
                == BlueZFault.doesNotExist)
    }

    @Test func aRestartKeepsBondsAndForgetsTheRest() throws {
        let second = SimulatedStrap(
            address: "C0:00:00:00:00:02", name: "HR-02", heart: try .fiveMinutes())
        let first = SimulatedStrap(address: Bench.strap, name: "HR-01", heart: try .fiveMinutes())
        let bench = try Bench(straps: [first, second])
        bench.discover()
        #expect(isGood(bench.onDevice("Pair")))
        _ = bench.onAdapter("StartDiscovery")
        bench.world.end(gracefully: false)
        bench.messages = []
        bench.wait(seconds: 100)
        #expect(bench.messages.isEmpty)
        #expect(bench.world.straps[Bench.strap]?.link == nil)
        bench.world.start()
        bench.wait(seconds: 1)
        #expect(bench.property("Paired")?.flag == true)
        #expect(bench.property("Connected")?.flag == false)
        #expect(bench.property("Address", SimulatedBlueZ.devicePath(second.address)) == nil)
        #expect(bench.world.tree[Bench.adapter, BlueZName.adapter, "Discovering"]?.flag == false)
        #expect(isGood(bench.onDevice("Connect")))
    }

    @Test func aSeedRepeatsARun() throws {
        func run(_ seed: UInt64) throws -> [DBusMessage] {
            let bench = try Bench(seed: seed) { $0.connectedUnsignalled = 0.5 }
            for _ in 0..<5 {
                bench.connect()
                _ = bench.onMeasurement("StartNotify")
                bench.wait(seconds: 10)
                bench.world.drop(Bench.strap)
            }
            return bench.messages
        }
        #expect(try run(7) == run(7))
        #expect(try run(7) != run(8))
    }
}
