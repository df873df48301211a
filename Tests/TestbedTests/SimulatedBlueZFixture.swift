import Basics
import BlueZ
import Testing

@testable import Testbed

/// A world on the fixture: calls go in, answers and signals come out, time moves by hand.
final class SimulatedBlueZFixture {
    static let strap = "C0:00:00:00:00:01"
    static let adapter = "/org/bluez/hci0"
    static let device = "/org/bluez/hci0/dev_C0_00_00_00_00_01"
    static let measurement = device + "/service0006/char0007"

    var world: BluetoothWorld
    var messages: [DBusMessage] = []
    private var serial: UInt32 = 0

    init(
        straps: [SimulatedStrap]? = nil, adapters: [SimulatedAdapter] = [SimulatedAdapter()],
        sendsFrames: Bool = true, seed: UInt64 = 1,
        habits change: (inout BlueZHabits) -> Void = { _ in }
    ) throws {
        var habits = BlueZHabits()
        habits.connectedUnsignalled = 0
        change(&habits)
        let usual = SimulatedStrap(
            address: Self.strap, name: "HR-01", heart: try .fiveMinutes())
        world = BluetoothWorld(
            adapters: adapters, straps: straps ?? [usual], habits: habits,
            sendsFrames: sendsFrames, seed: seed)
        world.start()
        wait(seconds: 1)
        messages = []
    }

    func wait(seconds: Double) {
        world.advance(to: world.now + .seconds(seconds))
        messages += world.takeOutbox()
    }

    /// Sends one frame of the strap's; false if no client is subscribed.
    func emit(_ frame: [UInt8]) -> Bool {
        let isSent = world.emit(frame, from: Self.strap)
        messages += world.takeOutbox()
        return isSent
    }

    /// Calls a method and returns the serial that its answer will name.
    func begin(
        _ member: String, _ path: String, _ interface: String, _ body: [DBusValue] = [],
        from client: String = ":1.7"
    ) -> UInt32 {
        serial += 1
        var call = DBusMessage(
            kind: .call, path: path, interface: interface, member: member, body: body)
        call.sender = client
        call.serial = serial
        world.receive(call)
        messages += world.takeOutbox()
        return serial
    }

    /// The answer to a call, if there is one yet.
    func answer(_ serial: UInt32) -> Result<[DBusValue], DBusFault>? {
        for message in messages where message.replySerial == serial {
            switch message.kind {
            case .reply: return .success(message.body)
            case .error:
                return .failure(
                    DBusFault(
                        name: message.errorName ?? "", text: message.body.first?.text ?? ""))
            default: continue
            }
        }
        return nil
    }

    /// Calls a method, waits and returns the answer.
    func call(
        _ member: String, _ path: String, _ interface: String, _ body: [DBusValue] = [],
        from client: String = ":1.7", seconds: Double = 0.01
    ) -> Result<[DBusValue], DBusFault>? {
        let serial = begin(member, path, interface, body, from: client)
        wait(seconds: seconds)
        return answer(serial)
    }

    func onAdapter(
        _ member: String, _ body: [DBusValue] = [], from client: String = ":1.7"
    ) -> Result<[DBusValue], DBusFault>? {
        call(member, Self.adapter, BlueZName.adapter, body, from: client)
    }

    func onDevice(
        _ member: String, seconds: Double = 1
    ) -> Result<[DBusValue], DBusFault>? {
        call(member, Self.device, BlueZName.device, seconds: seconds)
    }

    func onMeasurement(
        _ member: String, from client: String = ":1.7"
    ) -> Result<[DBusValue], DBusFault>? {
        call(member, Self.measurement, BlueZName.characteristic, from: client)
    }

    /// Discovers until the strap is known, and stops.
    func discover() {
        _ = onAdapter("StartDiscovery")
        wait(seconds: 2)
        _ = onAdapter("StopDiscovery")
    }

    /// Discovers, connects and waits for the services.
    func connect() {
        discover()
        _ = onDevice("Connect")
    }

    /// The value of a device's property.
    func property(_ name: String, _ path: String = device) -> DBusValue? {
        world.tree[path, BlueZName.device, name]
    }

    /// The changes told of an interface of an object, in order.
    func changes(_ path: String, _ interface: String) -> [[String: DBusValue]] {
        messages.compactMap { message in
            guard message.member == "PropertiesChanged", message.path == path,
                message.body.first?.text == interface, message.body.count == 3
            else { return nil }
            var changes: [String: DBusValue] = [:]
            for entry in message.body[1].entries ?? [] {
                changes[entry.key.text ?? ""] = entry.value.unwrapped
            }
            for name in message.body[2].texts ?? [] { changes[name] = .string("invalidated") }
            return changes
        }
    }

    /// The values told of the measurement.
    var frames: [[UInt8]] {
        changes(Self.measurement, BlueZName.characteristic).compactMap { $0["Value"]?.byteArray }
    }

    /// Paths of the objects that were taken away, in order.
    var removed: [String] {
        messages.filter { $0.member == "InterfacesRemoved" }.compactMap { $0.body.first?.text }
    }
}

extension Result where Success == [DBusValue], Failure == DBusFault {
    /// The fault, if it is one.
    var fault: DBusFault? {
        if case .failure(let fault) = self { fault } else { nil }
    }
}

/// A call that was answered without error.
func isGood(_ answer: Result<[DBusValue], DBusFault>?) -> Bool {
    if case .success? = answer { true } else { false }
}
