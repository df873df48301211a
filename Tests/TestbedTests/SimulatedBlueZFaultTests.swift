import Basics
import BlueZ
import Testing

@testable import Testbed

private typealias Fixture = SimulatedBlueZFixture

@Suite struct SimulatedBlueZFaultTests {
    @Test func anErrorComesInPlaceOfTheWorkAsOftenAsAsked() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.world.faults.add(
            ScriptedFault("Connect", times: 2, .error(BlueZFault.abortByLocal)))
        #expect(fixture.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(fixture.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(fixture.property("Connected")?.flag == false)
        #expect(isGood(fixture.onDevice("Connect")))
    }

    @Test func anErrorMayComeThoughTheWorkWasDone() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.world.faults.add(ScriptedFault("Connect", .errorThough(BlueZFault.abortByLocal)))
        #expect(fixture.onDevice("Connect")?.fault == BlueZFault.abortByLocal)
        #expect(fixture.property("Connected")?.flag == true)
    }

    @Test func anAnswerMayComeLateOrNever() throws {
        let fixture = try Fixture()
        fixture.discover()
        fixture.world.faults.add(ScriptedFault("Connect", .delay(milliseconds: 5000)))
        let late = fixture.begin("Connect", Fixture.device, BlueZName.device)
        fixture.wait(seconds: 4.9)
        #expect(fixture.answer(late) == nil)
        fixture.wait(seconds: 1)
        #expect(isGood(fixture.answer(late)))

        fixture.world.faults.add(ScriptedFault("StartNotify", .hang))
        #expect(fixture.onMeasurement("StartNotify") == nil)
        #expect(fixture.world.subscription(to: Fixture.strap) == nil)
        fixture.world.faults.add(ScriptedFault("StartNotify", .answerLost))
        #expect(fixture.onMeasurement("StartNotify") == nil)
        #expect(fixture.world.subscription(to: Fixture.strap) != nil)
    }

    @Test func aFaultHitsOnlyItsStrap() throws {
        let fixture = try Fixture()
        fixture.discover()
        let fault = ScriptedFault(
            "Connect", of: "C0:00:00:00:00:02", times: nil, .error(BlueZFault.notReady))
        fixture.world.faults.add(fault)
        #expect(isGood(fixture.onDevice("Connect")))
        fixture.world.faults.add(
            ScriptedFault("StartNotify", of: Fixture.strap, .error(BlueZFault.notConnected)))
        #expect(fixture.onMeasurement("StartNotify")?.fault == BlueZFault.notConnected)
    }

    @Test func unknownThingsAreRefusedInTheBusesOwnWords() throws {
        let fixture = try Fixture()
        let nowhere = fixture.call("Connect", "/org/bluez/hci7", BlueZName.device)
        #expect(nowhere?.fault?.name == "org.freedesktop.DBus.Error.UnknownObject")
        let noMethod = fixture.onAdapter("Explode")
        #expect(noMethod?.fault?.name == "org.freedesktop.DBus.Error.UnknownMethod")
        let noProperty = fixture.call(
            "Get", Fixture.adapter, BlueZName.properties,
            [.string(BlueZName.adapter), .string("X")])
        #expect(noProperty?.fault?.text == "No such property 'X'")
        let readOnly = fixture.call(
            "Set", Fixture.adapter, BlueZName.properties,
            [.string(BlueZName.adapter), .string("Address"), .variant(.string("x"))])
        #expect(readOnly?.fault?.name == "org.freedesktop.DBus.Error.PropertyReadOnly")
        let wrongType = fixture.call(
            "Set", Fixture.adapter, BlueZName.properties,
            [.string(BlueZName.adapter), .string("Powered"), .variant(.string("x"))])
        #expect(wrongType?.fault == BlueZFault.invalidArguments)
        #expect(fixture.onAdapter("RemoveDevice", [.byte(1)])?.fault == BlueZFault.invalidArguments)
        #expect(fixture.onAdapter("SetDiscoveryFilter")?.fault == BlueZFault.invalidArguments)
    }

    @Test func anAgentIsRegisteredOncePerClient() throws {
        let fixture = try Fixture()
        func agent(_ member: String, _ body: DBusValue...) -> Result<[DBusValue], DBusFault>? {
            fixture.call(member, "/org/bluez", BlueZName.agentManager, body)
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
            agenda.add(number, due: WorldTime(microseconds: due))
            expected.append((due, number))
        }
        agenda.keep { $0 % 3 != 0 }
        expected.removeAll { $0.number % 3 == 0 }
        expected.sort { ($0.due, $0.number) < ($1.due, $1.number) }
        var taken: [Int] = []
        #expect(agenda.take(until: WorldTime(microseconds: -1)) == nil)
        while let (_, number) = agenda.take(until: WorldTime(microseconds: 99)) {
            taken.append(number)
        }
        #expect(taken == expected.map(\.number))
        #expect(agenda.nextDue == nil)
    }

    @Test func signaturesAreSplitIntoCompleteTypes() {
        #expect(BluetoothWorld.completeTypes("aya{sv}") == ["ay", "a{sv}"])
        #expect(BluetoothWorld.completeTypes("a{oa{sa{sv}}}") == ["a{oa{sa{sv}}}"])
        #expect(BluetoothWorld.completeTypes("ssv") == ["s", "s", "v"])
    }
}
