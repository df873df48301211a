import BlueZ
import Testbed
import Testing

/// The simulation over a real bus, seen by a plain D-Bus client.
@Suite struct SimulatedBlueZBusTests {
    private static let strap = "C0:00:00:00:00:01"
    private static let device = SimulatedBlueZ.devicePath(strap)
    private static let measurement = device + "/service0006/char0007"
    private static let deadline = Duration.seconds(10)

    /// A bus, bluetoothd and a client on it.
    private struct Scene {
        let bus: PrivateBus
        let bluez: SimulatedBlueZ
        let client: DBusConnection

        static func set(
            straps: [SimulatedStrap]? = nil, pace: SimulatedBlueZ.Pace = .stepped,
            habits: BlueZHabits = .immediate, sendsFrames: Bool = false
        ) async throws -> Scene {
            let bus = try await PrivateBus.start()
            let usual = SimulatedStrap(
                address: strap, name: "HR-01", heart: try .fiveMinutes())
            let bluez = try await SimulatedBlueZ.start(
                on: bus, straps: straps ?? [usual], habits: habits, pace: pace,
                sendsFrames: sendsFrames)
            let client = try await DBusConnection.open(address: bus.address)
            for rule in ["type='signal',sender='org.bluez'", "type='signal',arg0='org.bluez'"] {
                try await client.addMatch(rule)
            }
            return Scene(bus: bus, bluez: bluez, client: client)
        }

        @discardableResult
        func call(
            _ member: String, _ path: String, _ interface: String, _ arguments: [DBusValue] = []
        ) async throws -> [DBusValue] {
            try await client.call(
                destination: "org.bluez", path: path, interface: interface, member: member,
                arguments: arguments, deadline: deadline)
        }

        func onAdapter(_ member: String) async throws {
            try await call(member, "/org/bluez/hci0", "org.bluez.Adapter1")
        }

        func onDevice(_ member: String, _ path: String = device) async throws {
            try await call(member, path, "org.bluez.Device1")
        }

        func onMeasurement(_ member: String, _ path: String = measurement) async throws {
            try await call(member, path, "org.bluez.GattCharacteristic1")
        }

        /// At the pace `stepped`: discovers, connects and subscribes.
        func subscribe() async throws {
            try await onAdapter("StartDiscovery")
            await bluez.advance(by: .seconds(2))
            try await onAdapter("StopDiscovery")
            try await onDevice("Connect")
            try await onMeasurement("StartNotify")
        }

        func strike() async {
            client.close()
            await bluez.stop()
            await bus.stop()
        }
    }

    /// Frames in the order of arrival, until so many came or the bus went away.
    private static func frames(
        _ count: Int, from client: DBusConnection, at path: String = measurement
    ) async -> [[UInt8]] {
        var frames: [[UInt8]] = []
        for await batch in client.incoming() {
            for message in batch
            where message.member == "PropertiesChanged" && message.path == path {
                for entry in message.body[1].entries ?? [] where entry.key.text == "Value" {
                    frames.append(entry.value.byteArray ?? [0xde, 0xad])
                }
            }
            if frames.count >= count { break }
        }
        return frames
    }

    @Test(.timeLimit(.minutes(10)))
    func frameBytesArriveAsTheyWereSent() async throws {
        let scene = try await Scene.set(sendsFrames: true)
        try await scene.subscribe()
        await scene.bluez.advance(by: .seconds(600))
        await scene.bluez.emit([], from: Self.strap)
        await scene.bluez.emit([0x10, 0x3e, 0xb1, 0x03, 0xde], from: Self.strap)
        let sent = await scene.bluez.framesSent(Self.strap).map(\.bytes)
        #expect(sent.count == 602)
        #expect(await Self.frames(602, from: scene.client) == sent)
        await scene.strike()
    }

    @Test(.timeLimit(.minutes(10)))
    func managedObjectsShowTheWholeTree() async throws {
        let scene = try await Scene.set()
        try await scene.subscribe()
        let objects = try await scene.call(
            "GetManagedObjects", "/", "org.freedesktop.DBus.ObjectManager")
        let paths = objects.first?.entries?.compactMap(\.key.text) ?? []
        #expect(paths.contains("/org/bluez/hci0"))
        #expect(paths.contains(Self.measurement))
        let value = try await scene.call(
            "Get", Self.device, "org.freedesktop.DBus.Properties",
            [.string("org.bluez.Device1"), .string("Connected")])
        #expect(value == [.variant(.boolean(true))])
        await scene.strike()
    }

    @Test(.timeLimit(.minutes(10)))
    func aKilledDaemonLosesItsNameAndComesBackWithout() async throws {
        let scene = try await Scene.set()
        try await scene.subscribe()
        await scene.bluez.inject(ScriptedFault("ReadValue", .hang))
        let pending = Task {
            try await scene.call(
                "ReadValue", Self.measurement, "org.bluez.GattCharacteristic1",
                [.properties([:])])
        }
        await scene.bluez.wait { $0.callCount("ReadValue") == 1 }
        try await scene.bluez.setDaemon(running: false)
        await #expect(throws: DBusFault.self) { try await pending.value }
        await #expect(throws: DBusFault.self) { try await scene.onDevice("Connect") }

        try await scene.bluez.setDaemon(running: true)
        #expect(await !scene.bluez.isConnected(Self.strap))
        do {
            try await scene.onDevice("Connect")
            Issue.record("a stranger was remembered")
        } catch let fault as DBusFault {
            #expect(fault.name == "org.freedesktop.DBus.Error.UnknownObject")
        }
        try await scene.subscribe()
        #expect(await scene.bluez.isSubscribed(Self.strap))

        var owners: [Bool] = []
        for await batch in scene.client.incoming() {
            for message in batch where message.member == "NameOwnerChanged" {
                owners.append(message.body[2].text != "")
            }
            if owners.count >= 2 { break }
        }
        #expect(owners == [false, true])
        await scene.strike()
    }

    @Test(.timeLimit(.minutes(10)))
    func aStoppedDaemonTakesItsObjectsAwayFirst() async throws {
        let scene = try await Scene.set()
        try await scene.subscribe()
        try await scene.bluez.setDaemon(running: false, by: .stopped)
        var removed: [String] = []
        loop: for await batch in scene.client.incoming() {
            for message in batch {
                if message.member == "InterfacesRemoved" {
                    removed.append(message.body.first?.text ?? "")
                }
                if message.member == "NameOwnerChanged" { break loop }
            }
        }
        #expect(removed.contains(Self.measurement))
        #expect(removed.last == "/org/bluez/hci0")
        await scene.strike()
    }

    @Test(.timeLimit(.minutes(10)))
    func bluetoothdComesBackAfterTheBusDoes() async throws {
        let scene = try await Scene.set()
        try await scene.subscribe()
        try await scene.bus.restart()
        let client = try await DBusConnection.open(address: scene.bus.address)
        let isBack = await scene.bluez.wait { $0.isRunning }
        #expect(isBack)
        // The name comes a moment after the connection.
        var answer: [DBusValue]?
        while answer == nil {
            answer = try? await client.call(
                destination: "org.bluez", path: "/",
                interface: "org.freedesktop.DBus.ObjectManager", member: "GetManagedObjects",
                deadline: Self.deadline)
        }
        #expect(answer?.first?.entries?.isEmpty == false)
        #expect(await !scene.bluez.isSubscribed(Self.strap))
        client.close()
        await scene.strike()
    }

    @Test(.timeLimit(.minutes(10)))
    func aClientThatDiesEndsItsSessionsAndNotItsLink() async throws {
        let scene = try await Scene.set()
        try await scene.subscribe()
        try await scene.onAdapter("StartDiscovery")
        scene.client.close()
        let isOver = await scene.bluez.wait {
            !$0.isDiscovering && !$0.isSubscribed(Self.strap)
        }
        #expect(isOver)
        #expect(await scene.bluez.isConnected(Self.strap))
        await scene.strike()
    }

    @Test(.timeLimit(.minutes(10)))
    func aQuarterOfAnHourPassesInSecondsAndNothingIsLost() async throws {
        let heart = try RecordedHeart.oneHour()
        let straps = (1...8).map {
            SimulatedStrap(
                address: "C0:00:00:00:00:0\($0)", name: "HR-0\($0)", heart: heart,
                firstBeat: $0 * 500)
        }
        var habits = BlueZHabits.immediate
        habits.advertMilliseconds = 500
        let scene = try await Scene.set(
            straps: straps, pace: .realTime(speed: 1000), habits: habits)
        try await scene.onAdapter("StartDiscovery")
        for strap in straps {
            let device = SimulatedBlueZ.devicePath(strap.address)
            while (try? await scene.onDevice("Connect", device)) == nil {
                try await Task.sleep(for: .milliseconds(1))
            }
            try await scene.onMeasurement("StartNotify", device + "/service0006/char0007")
        }
        let first = straps[0].address
        await scene.bluez.setSendsFrames(true)
        let isDone = await scene.bluez.wait(atMost: .seconds(50)) {
            $0.framesSentCount(first) >= 900
        }
        #expect(isDone)
        await scene.bluez.setSendsFrames(false)
        var expected: [String: [[UInt8]]] = [:]
        for strap in straps {
            let path = SimulatedBlueZ.devicePath(strap.address) + "/service0006/char0007"
            expected[path] = await scene.bluez.framesSent(strap.address).map(\.bytes)
        }
        var arrived: [String: [[UInt8]]] = [:]
        var missing = expected.values.reduce(0) { $0 + $1.count }
        for await batch in scene.client.incoming() {
            for message in batch where message.member == "PropertiesChanged" {
                for entry in message.body[1].entries ?? [] where entry.key.text == "Value" {
                    arrived[message.path ?? "", default: []].append(entry.value.byteArray ?? [])
                    missing -= 1
                }
            }
            if missing <= 0 { break }
        }
        #expect(arrived == expected)
        await scene.strike()
    }

    @Test(.timeLimit(.minutes(10)))
    func aFloodOfStrangersIsShownOnlyToAScanForAll() async throws {
        let scene = try await Scene.set()
        try await scene.bluez.flood(count: 100)
        try await scene.call(
            "SetDiscoveryFilter", "/org/bluez/hci0", "org.bluez.Adapter1",
            [
                .properties([
                    "UUIDs": .strings(["0000180d-0000-1000-8000-00805f9b34fb"]),
                    "Transport": .string("le"),
                ])
            ])
        try await scene.onAdapter("StartDiscovery")
        await scene.bluez.advance(by: .seconds(5))
        func deviceCount() async throws -> Int {
            let objects = try await scene.call(
                "GetManagedObjects", "/", "org.freedesktop.DBus.ObjectManager")
            return objects.first?.entries?.count { $0.key.text?.contains("/dev_") == true } ?? 0
        }
        #expect(try await deviceCount() == 1)
        await scene.bluez.setForeignDiscovery(true)
        await scene.bluez.advance(by: .seconds(5))
        #expect(try await deviceCount() == 101)
        await scene.bluez.setForeignDiscovery(false)
        await scene.bluez.advance(by: .seconds(60))
        #expect(try await deviceCount() == 1)
        await scene.strike()
    }
}
