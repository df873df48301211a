import Basics
import Foundation
import Synchronization
import Testbed
import Testing

@testable import BlueZ

@Suite("D-Bus connection, against a real dbus-daemon", .timeLimit(.minutes(10)))
struct DBusConnectionTests {
    let bus: TestBus
    let service: DBusConnection
    let client: DBusConnection

    init() async throws {
        bus = try TestBus()
        service = try await bus.open()
        client = try await bus.open()
    }

    func call(
        _ member: String, _ arguments: [DBusValue] = [], deadline: Duration = .seconds(5)
    ) async throws(DBusFault) -> [DBusValue] {
        try await client.call(
            destination: "test.Echo", path: "/echo", interface: "test.Echo", member: member,
            arguments: arguments, deadline: deadline)
    }

    func fault(_ body: () async throws(DBusFault) -> Void) async -> DBusFault? {
        do throws(DBusFault) {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    @Test("every kind of value comes back as it was sent")
    func roundTrip() async throws {
        let task = try await serve(service, name: "test.Echo") { .reply(to: $0, body: $0.body) }
        let values: [DBusValue] = [
            .byte(255), .boolean(true), .boolean(false), .int16(-2), .uint16(65535), .int32(.min),
            .uint32(.max), .int64(.min), .uint64(.max), .double(-0.5), .string("Gürtel ♥"),
            .string(""), .string("a text of more than fifteen bytes"), .objectPath("/org/bluez"),
            .signature("a{sv}"), .bytes([]), .bytes([0, 1, 255]),
            .strings([]), .strings(["a", "b"]), .array(element: "ay", [.bytes([1]), .bytes([])]),
            .array(element: "(ys)", [.structure([.byte(1), .string("x")])]),
            .dictionary(key: "s", value: "v", []),
            .properties(["RSSI": .int16(-70), "UUIDs": .strings(["180d"])]),
            .dictionary(key: "q", value: "ay", [.init(key: .uint16(7), value: .bytes([1]))]),
            .dictionary(
                key: "o", value: "a{sa{sv}}",
                [
                    .init(
                        key: .objectPath("/a"),
                        value: .dictionary(
                            key: "s", value: "a{sv}",
                            [.init(key: .string("i"), value: .properties(["p": .byte(1)]))]))
                ]),
            .structure([.byte(1), .structure([.string("in")])]), .variant(.variant(.byte(3))),
        ]
        #expect(try await call("Echo", values) == values)
        // A second time, now that the texts are pooled.
        #expect(try await call("Echo", values) == values)
        task.cancel()
    }

    @Test("an error answer keeps its name and text")
    func errorAnswer() async throws {
        let task = try await serve(service, name: "test.Echo") {
            $0.member == "Fail"
                ? .error(to: $0, DBusFault(name: "org.bluez.Error.Failed", text: "le-connection-x"))
                : .unknownMethod($0)
        }
        let failed = await fault { () async throws(DBusFault) in _ = try await call("Fail") }
        #expect(failed == DBusFault(name: "org.bluez.Error.Failed", text: "le-connection-x"))
        let unknown = await fault { () async throws(DBusFault) in _ = try await call("Other") }
        #expect(unknown?.name == DBusFault.unknownMethod)
        task.cancel()
    }

    @Test("a call without an answer ends at its deadline, and the late answer is dropped")
    func deadline() async throws {
        let late = Mutex<DBusMessage?>(nil)
        let task = try await serve(service, name: "test.Echo") { call in
            if call.member == "Never" {
                late.withLock { $0 = call }
                return nil
            }
            return .reply(to: call, body: [.string("prompt")])
        }
        let begun = ContinuousClock.now
        let ended = await fault { () async throws(DBusFault) in
            _ = try await call("Never", deadline: .milliseconds(200))
        }
        #expect(ended?.name == DBusFault.noReply)
        #expect(ContinuousClock.now - begun >= .milliseconds(200))
        let overdue = try #require(late.withLock { $0 })
        service.send(.reply(to: overdue, body: [.string("late")]))
        #expect(try await call("Prompt") == [.string("prompt")])
        task.cancel()
    }

    @Test("cancelling the task ends its call at once, even when cancelled before the call")
    func cancellation() async throws {
        let called = AsyncStream<Void>.makeStream()
        let task = try await serve(service, name: "test.Echo") { _ in
            called.continuation.yield()
            return nil
        }
        let waiting = Task {
            await fault { () async throws(DBusFault) in
                _ = try await call("Never", deadline: .seconds(50))
            }
        }
        for await _ in called.stream { break }
        waiting.cancel()
        #expect(await waiting.value?.name == DBusFault.cancelled)

        let early = Task { () -> DBusFault? in
            // Waits until it is cancelled, then calls.
            while !Task.isCancelled { await Task.yield() }
            return await fault { () async throws(DBusFault) in
                _ = try await call("Never", deadline: .seconds(50))
            }
        }
        early.cancel()
        #expect(await early.value?.name == DBusFault.cancelled)
        task.cancel()
    }

    @Test("signals reach those who asked for them, in order, with the time of arrival")
    func signals() async throws {
        try await client.addMatch("type='signal',interface='test.Signals'")
        let before = Uptime.now()
        for number in 0..<1000 {
            service.send(
                .signal(
                    path: "/s", interface: "test.Signals", member: "Count",
                    body: [.int32(Int32(number))]))
        }
        var seen: [DBusMessage] = []
        for await batch in client.incoming() {
            seen += batch.filter { $0.interface == "test.Signals" }
            if seen.count >= 1000 { break }
        }
        #expect(seen.map { $0.body.first?.integer } == (0..<1000).map { $0 })
        #expect(seen.allSatisfy { $0.arrivedAt >= before && $0.kind == .signal })
        #expect(zip(seen, seen.dropFirst()).allSatisfy { $0.arrival < $1.arrival })
    }

    @Test("patient messages gather and come together; an impatient one takes them along, in order")
    func gathering() async throws {
        try await client.addMatch("type='signal',interface='test.Signals'")
        // Longer than the test: only the impatient one ends it.
        client.gather(for: .seconds(3600)) { $0.member == "Patient" }
        for member in ["Patient", "Patient", "Now"] {
            service.send(.signal(path: "/s", interface: "test.Signals", member: member))
        }
        for await batch in client.incoming() {
            let members = batch.filter { $0.interface == "test.Signals" }.map(\.member)
            if members.isEmpty { continue }
            #expect(members == ["Patient", "Patient", "Now"])
            break
        }
        client.gather(for: .milliseconds(20)) { $0.member == "Patient" }
        service.send(.signal(path: "/s", interface: "test.Signals", member: "Patient"))
        for await batch in client.incoming() {
            #expect(batch.map(\.member) == ["Patient"])
            break
        }
    }

    @Test("what has gathered is handed over when patience ends, and when it is much")
    func endOfGathering() async throws {
        let task = try await serve(service, name: "test.Echo") { .reply(to: $0, body: $0.body) }
        defer { task.cancel() }
        try await client.addMatch("type='signal',interface='test.Signals'")
        func send(_ count: Int) async throws {
            for _ in 0..<count {
                service.send(.signal(path: "/s", interface: "test.Signals", member: "Patient"))
            }
            // The bus keeps the order: they are in the client's socket by now.
            _ = try await call("Echo", [])
        }
        func handedOver() async -> Int {
            for await batch in client.incoming() {
                let count = batch.count { $0.interface == "test.Signals" }
                if count > 0 { return count }
            }
            return 0
        }
        client.gather(for: .seconds(3600)) { _ in true }
        try await send(3)
        client.gather(for: .milliseconds(1)) { _ in true }
        #expect(await handedOver() == 3)
        client.gather(for: .seconds(3600)) { _ in true }
        try await send(BusThread.gatheredMax)
        #expect(await handedOver() > 0)
    }

    @Test(
        "who catches up gets what has gathered and what lies in the socket, and then the word that it is all"
    )
    func catchingUp() async throws {
        try await client.addMatch("type='signal',interface='test.Signals'")
        client.gather(for: .seconds(3600)) { _ in true }
        for number in UInt32(1)...20 {
            let count = Int(number) * 12
            for _ in 0..<count {
                service.send(.signal(path: "/s", interface: "test.Signals", member: "Patient"))
            }
            // The bus has taken them by now: they are in the client's socket, more than is read at a time, or in
            // what libdbus has read of it.
            _ = try await service.callBus("GetId", [])
            client.catchUp(number: number)
            var seen: [DBusMessage] = []
            for await batch in client.incoming() {
                seen += batch.filter { $0.kind == .caughtUp || $0.interface == "test.Signals" }
                if seen.last?.kind == .caughtUp { break }
            }
            #expect(seen.count == count + 1)
            #expect(seen.last?.serial == number)
        }
    }

    /// The thread took the word that something was asked, and slept with the question in its box.
    @Test("who asks while the connection catches up is answered")
    func askingWhileCatchingUp() async throws {
        let task = try await serve(service, name: "test.Echo") { .reply(to: $0, body: $0.body) }
        defer { task.cancel() }
        let incoming = client.incoming()
        let reader = Task { for await _ in incoming {} }
        defer { reader.cancel() }
        for number in UInt32(1)...2_000 {
            async let answer = call("Echo", [])
            client.catchUp(number: number)
            _ = try await answer
        }
    }

    @Test("what D-Bus does not allow is refused here and does not end the process")
    func invalidMessages() async throws {
        let badValues: [DBusValue] = [
            .objectPath("no slash"), .string("nul\0inside"), .signature("a"), .unixFD,
            .array(element: "s", [.byte(1)]), .array(element: "nonsense", []),
            .dictionary(key: "v", value: "s", []), .structure([]),
            .dictionary(key: "s", value: "v", [.init(key: .string("k"), value: .string("bare"))]),
            (0..<40).reduce(DBusValue.byte(0)) { inner, _ in .variant(inner) },
        ]
        for value in badValues {
            let refused = await fault { () async throws(DBusFault) in
                _ = try await call("Echo", [value])
            }
            #expect(refused?.name == DBusFault.invalidArguments, "\(value)")
        }
        for path in ["", "relative", "/trailing/", "/sp ace", "/nul\0"] {
            let refused = await fault { () async throws(DBusFault) in
                _ = try await client.call(
                    destination: "test.Echo", path: path, interface: "test.Echo", member: "Echo",
                    deadline: .seconds(1))
            }
            #expect(refused?.name == DBusFault.invalidArguments, "\(path)")
        }
        client.send(.signal(path: "bad", interface: "bad", member: "bad"))
        client.send(DBusMessage(kind: .reply))
        _ = try await client.callBus("GetId", [])
    }

    @Test("a caller of an absent service gets the bus's own error")
    func absentService() async {
        let absent = await fault { () async throws(DBusFault) in _ = try await call("Echo") }
        #expect(absent?.name == "org.freedesktop.DBus.Error.ServiceUnknown")
    }

    @Test("a name is owned by one connection at a time")
    func nameOwnership() async throws {
        try await service.requestName("test.Name")
        try await service.requestName("test.Name")
        let refused = await fault { () async throws(DBusFault) in
            try await client.requestName("test.Name")
        }
        #expect(refused?.name == DBusFault.limitsExceeded)
    }

    @Test("an answer deeper or larger than our bounds becomes an error, not a trap")
    func boundsOfForeignMessages() async throws {
        let task = try await serve(service, name: "test.Echo") { call in
            call.member == "Large"
                ? .reply(
                    to: call,
                    body: [
                        .array(
                            element: "y",
                            [DBusValue](repeating: .byte(1), count: 1))
                    ] + [.bytes([UInt8](repeating: 0, count: DBusReader.bytesMax + 1))])
                : .reply(
                    to: call,
                    body: [
                        .array(
                            element: "u",
                            [DBusValue](repeating: .uint32(1), count: DBusReader.valuesMax))
                    ])
        }
        for member in ["Large", "Many"] {
            let refused = await fault { () async throws(DBusFault) in
                _ = try await call(member, deadline: .seconds(60))
            }
            #expect(refused?.name == DBusFault.limitsExceeded)
        }
        task.cancel()
    }

    /// From 1,650 straps on, bluetoothd was told as one that refuses, and nothing was recorded.
    @Test("the objects of 2,000 remembered straps are read, and the services of many of them")
    func thousandsOfStraps() async throws {
        let (straps, connected, characteristics) = (2_000, 400, 12)
        let objects = Self.objects(
            straps: straps, connected: connected, characteristics: characteristics)
        let task = try await serve(service, name: "test.Echo") {
            .reply(to: $0, body: [objects])
        }
        let answer = try await call("GetManagedObjects", deadline: .seconds(60))
        var tree = ObjectTree()
        _ = tree.replace(with: answer.first, arrival: 1)
        #expect(tree.devices.count == straps)
        #expect(tree.characteristics.count == connected * characteristics)
        task.cancel()
    }

    /// As `GetManagedObjects` tells them.
    private static func objects(straps: Int, connected: Int, characteristics: Int) -> DBusValue {
        func object(_ path: String, _ interface: String, _ properties: [String: DBusValue])
            -> DBusValue.DictEntry
        {
            let interfaces: [(String, [String: DBusValue])] = [
                ("org.freedesktop.DBus.Introspectable", [:]), (interface, properties),
                (Names.properties, [:]),
            ]
            return .init(
                key: .objectPath(path),
                value: .dictionary(
                    key: "s", value: "a{sv}",
                    interfaces.map { .init(key: .string($0.0), value: .properties($0.1)) }))
        }
        var entries: [DBusValue.DictEntry] = []
        for number in 0..<straps {
            let path = "/org/bluez/hci0/dev_C0_00_00_00_\(number / 100)_\(number % 100)"
            let address = "C0:00:00:00:\(number / 100):\(number % 100)"
            entries.append(
                object(
                    path, Names.device,
                    [
                        "Address": .string(address), "AddressType": .string("random"),
                        "Name": .string("HR"), "Alias": .string("HR"), "Appearance": .uint16(833),
                        "Paired": .boolean(true), "Bonded": .boolean(true),
                        "Trusted": .boolean(true), "Blocked": .boolean(false),
                        "LegacyPairing": .boolean(false), "Connected": .boolean(false),
                        "UUIDs": .strings((0..<8).map { "0000180\($0)-0000-1000" }),
                        "Adapter": .objectPath("/org/bluez/hci0"),
                        "ServicesResolved": .boolean(false),
                    ]))
            guard number < connected else { continue }
            let service = path + "/service0001"
            entries.append(
                object(
                    service, Names.gattService,
                    ["UUID": .string("180d"), "Device": .objectPath(path)]))
            for handle in 0..<characteristics {
                entries.append(
                    object(
                        "\(service)/char00\(10 + handle)", Names.characteristic,
                        [
                            "UUID": .string("2a37"), "Service": .objectPath(service),
                            "Value": .bytes([]), "Notifying": .boolean(false),
                            "Flags": .strings(["read", "notify"]), "MTU": .uint16(23),
                        ]))
            }
        }
        return .dictionary(key: "o", value: "a{sa{sv}}", entries)
    }

    @Test("when the bus goes away, calls fail by name and incoming() ends")
    func busGone() async throws {
        try await service.requestName("test.Echo")
        let waiting = Task {
            await fault { () async throws(DBusFault) in
                _ = try await call("Never", deadline: .seconds(50))
            }
        }
        // The call has reached the service: it is certainly outstanding.
        for await batch in service.incoming() where batch.contains(where: { $0.kind == .call }) {
            break
        }
        bus.stop()
        #expect(await waiting.value?.name == DBusFault.disconnected)
        for await _ in client.incoming() {}
        let after = await fault { () async throws(DBusFault) in _ = try await call("Echo") }
        #expect(after?.name == DBusFault.disconnected)
        #expect(!client.send(.signal(path: "/a", interface: "a.b", member: "C")))
    }

    @Test("opening fails by name where there is no bus")
    func noBus() async {
        for address in ["unix:path=/nonexistent/socket", "nonsense", ""] {
            let failed = await fault { () async throws(DBusFault) in
                _ = try await DBusConnection.open(address: address)
            }
            #expect(failed != nil)
            #expect(failed?.name.isEmpty == false)
        }
    }

    @Test("close sends what is queued, fails what is outstanding, and ends incoming()")
    func close() async throws {
        try await client.addMatch("type='signal',interface='test.Signals'")
        service.send(.signal(path: "/s", interface: "test.Signals", member: "Last"))
        service.close()
        service.close()
        for await batch in client.incoming() where batch.contains(where: { $0.member == "Last" }) {
            break
        }
        for await _ in service.incoming() {}
        let refused = await fault { () async throws(DBusFault) in
            try await service.requestName("test.Late")
        }
        #expect(refused?.name == DBusFault.disconnected)
    }

    @Test("dropping the last reference ends the thread and frees its descriptors")
    func dropping() async throws {
        func descriptors() throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
        }
        // Other tests open and close too: the count is compared with a margin far below 200.
        let before = try descriptors()
        for _ in 0..<200 { _ = try await bus.open() }
        var after = try descriptors()
        for _ in 0..<200 where after > before + 60 {
            try await Task.sleep(for: .milliseconds(20))
            after = try descriptors()
        }
        #expect(after <= before + 60)
    }
}
