import BlueZ
import Testing

@testable import Testbed

private typealias Bench = SimulatedBlueZBench

@Suite struct SimulatedBlueZFaultTests {
    @Test func anErrorComesInPlaceOfTheWorkAsOftenAsAsked() throws {
        let bench = try Bench()
        bench.discover()
        bench.world.faults.add(ScriptedFault("Connect", times: 2, .error(BlueZFault.abortByLocal)))
        #expect(bench.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(bench.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(bench.property("Connected")?.flag == false)
        #expect(isGood(bench.onDevice("Connect")))
    }

    @Test func anErrorMayComeThoughTheWorkWasDone() throws {
        let bench = try Bench()
        bench.discover()
        bench.world.faults.add(ScriptedFault("Connect", .errorThough(BlueZFault.abortByLocal)))
        #expect(bench.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(bench.property("Connected")?.flag == true)
    }

    @Test func anAnswerMayComeLateOrNever() throws {
        let bench = try Bench()
        bench.discover()
        bench.world.faults.add(ScriptedFault("Connect", .delay(milliseconds: 5000)))
        let late = bench.begin("Connect", Bench.device, BlueZName.device)
        bench.wait(seconds: 4.9)
        #expect(bench.answer(late) == nil)
        bench.wait(seconds: 1)
        #expect(isGood(bench.answer(late)))

        bench.world.faults.add(ScriptedFault("StartNotify", .hang))
        #expect(bench.onMeasurement("StartNotify") == nil)
        #expect(bench.world.subscription(to: Bench.strap) == nil)
        bench.world.faults.add(ScriptedFault("StartNotify", .answerLost))
        #expect(bench.onMeasurement("StartNotify") == nil)
        #expect(bench.world.subscription(to: Bench.strap) != nil)
    }

    @Test func aFaultHitsOnlyItsStrap() throws {
        let bench = try Bench()
        bench.discover()
        let fault = ScriptedFault(
            "Connect", of: "C0:00:00:00:00:02", times: nil, .error(BlueZFault.notReady))
        bench.world.faults.add(fault)
        #expect(isGood(bench.onDevice("Connect")))
        bench.world.faults.add(
            ScriptedFault("StartNotify", of: Bench.strap, .error(BlueZFault.notConnected)))
        #expect(bench.onMeasurement("StartNotify")?.fault == BlueZFault.notConnected)
    }

    @Test func unknownThingsAreRefusedInTheBusesOwnWords() throws {
        let bench = try Bench()
        let nowhere = bench.call("Connect", "/org/bluez/hci7", BlueZName.device)
        #expect(nowhere?.fault?.name == "org.freedesktop.DBus.Error.UnknownObject")
        let noMethod = bench.onAdapter("Explode")
        #expect(noMethod?.fault?.name == "org.freedesktop.DBus.Error.UnknownMethod")
        let noProperty = bench.call(
            "Get", Bench.adapter, BlueZName.properties, [.string(BlueZName.adapter), .string("X")])
        #expect(noProperty?.fault?.text == "No such property 'X'")
        let readOnly = bench.call(
            "Set", Bench.adapter, BlueZName.properties,
            [.string(BlueZName.adapter), .string("Address"), .variant(.string("x"))])
        #expect(readOnly?.fault?.name == "org.freedesktop.DBus.Error.PropertyReadOnly")
        let wrongType = bench.call(
            "Set", Bench.adapter, BlueZName.properties,
            [.string(BlueZName.adapter), .string("Powered"), .variant(.string("x"))])
        #expect(wrongType?.fault == BlueZFault.invalidArguments)
        #expect(bench.onAdapter("RemoveDevice", [.byte(1)])?.fault == BlueZFault.invalidArguments)
        #expect(bench.onAdapter("SetDiscoveryFilter")?.fault == BlueZFault.invalidArguments)
    }

    @Test func anAgentIsRegisteredOncePerClient() throws {
        let bench = try Bench()
        func agent(_ member: String, _ body: DBusValue...) -> Result<[DBusValue], DBusFault>? {
            bench.call(member, "/org/bluez", BlueZName.agentManager, body)
        }
        let path = DBusValue.objectPath("/agent")
        #expect(agent("UnregisterAgent", path)?.fault == BlueZFault.doesNotExist)
        #expect(
            agent("RegisterAgent", path, .string("Nonsense"))?.fault
                == BlueZFault.invalidArguments)
        #expect(isGood(agent("RegisterAgent", path, .string("NoInputNoOutput"))))
        #expect(
            agent("RegisterAgent", path, .string("NoInputNoOutput"))?.fault
                == BlueZFault.alreadyExists)
        #expect(isGood(agent("RequestDefaultAgent", path)))
        #expect(isGood(agent("UnregisterAgent", path)))
        #expect(agent("UnregisterAgent", path)?.fault == BlueZFault.doesNotExist)
    }

    @Test func theAgendaKeepsOrder() {
        var agenda = Agenda<Int>()
        var random = SeededRandom(seed: 3)
        var expected: [(due: Int64, number: Int)] = []
        for number in 0..<1000 {
            let due = Int64.random(in: 0..<100, using: &random)
            agenda.add(number, due: due)
            expected.append((due, number))
        }
        agenda.keep { $0 % 3 != 0 }
        expected.removeAll { $0.number % 3 == 0 }
        expected.sort { ($0.due, $0.number) < ($1.due, $1.number) }
        var taken: [Int] = []
        #expect(agenda.take(until: -1) == nil)
        while let (_, number) = agenda.take(until: 99) { taken.append(number) }
        #expect(taken == expected.map(\.number))
        #expect(agenda.nextDue == nil)
    }

    @Test func signaturesAreSplitIntoCompleteTypes() {
        #expect(BluetoothWorld.completeTypes("aya{sv}") == ["ay", "a{sv}"])
        #expect(BluetoothWorld.completeTypes("a{oa{sa{sv}}}") == ["a{oa{sa{sv}}}"])
        #expect(BluetoothWorld.completeTypes("ssv") == ["s", "s", "v"])
    }
}
