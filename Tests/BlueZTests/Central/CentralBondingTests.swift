import Synchronization
import Testbed
import Testing

@testable import BlueZ

extension Central {
    /// Without a word of any strap.
    fileprivate func letTwoMinutesPass() {
        heardAt = [:]
        for link in links.values { link.failures.heardAt = .zero }
        settle()
    }

    /// As if nothing had been heard for long.
    fileprivate func forgetSightings() { heardAt = [:] }
}

/// What a person was asked, and what they say.
private final class Person: Sendable {
    private let answers: PairingAnswer
    private let heard = Mutex<[PairingQuestion]>([])

    init(_ answer: PairingAnswer) { answers = answer }

    var questions: [PairingQuestion] { heard.withLock { $0 } }

    func agent(_ also: @escaping @Sendable (PairingQuestion) async -> Void = { _ in })
        -> PairingAgent
    {
        PairingAgent(address: Stage.strap) { question in
            self.heard.withLock { $0.append(question) }
            await also(question)
            return self.answers
        }
    }
}

/// A bus on which the answer to the next `RemoveDevice` overtakes all signals, until a `Pair` is answered.
private final class OvertakenBus: BusConnection {
    private enum Order { case usual, overtakesNext, overtakes }
    private let bus: DBusConnection
    private let order = Mutex(Order.usual)

    init(_ bus: DBusConnection) { self.bus = bus }

    func overtakeNext() { order.withLock { $0 = .overtakesNext } }

    func request(
        _ message: DBusMessage, deadline: Duration
    ) async throws(DBusFault) -> DBusMessage {
        if message.member == "RemoveDevice" {
            order.withLock { if $0 == .overtakesNext { $0 = .overtakes } }
        }
        defer { if message.member == "Pair" { order.withLock { $0 = .usual } } }
        return try await bus.request(message, deadline: deadline)
    }

    func incoming() -> AsyncStream<[DBusMessage]> {
        let (stream, continuation) = AsyncStream<[DBusMessage]>.makeStream()
        let messages = bus.incoming()
        Task {
            for await batch in messages {
                while order.withLock({ $0 == .overtakes }) {
                    try await Task.sleep(for: .milliseconds(5))
                }
                continuation.yield(batch)
            }
            continuation.finish()
        }
        return stream
    }

    func send(_ message: DBusMessage) -> Bool { bus.send(message) }
    func addMatch(_ rule: String) async throws(DBusFault) { try await bus.addMatch(rule) }
    func gather(for pause: Duration, where isPatient: @escaping @Sendable (DBusMessage) -> Bool) {
        bus.gather(for: pause, where: isPatient)
    }
    func catchUp(number: UInt32) { bus.catchUp(number: number) }
    var incomingLost: UInt64 { bus.incomingLost }
    func close() { bus.close() }
}

@Suite("Bonds, against the simulated org.bluez", .timeLimit(.minutes(10)))
struct CentralBondingTests {
    private func stage(
        _ security: SimulatedStrap.Security,
        habits: @Sendable (inout BlueZHabits) -> Void = { _ in }
    ) async throws -> Stage {
        let stage = try await Stage(habits: habits, each: { $0.security = security })
        await stage.start()
        return stage
    }

    private func inspect(
        _ stage: Stage, _ agent: PairingAgent?, deadline: Duration? = nil
    ) async throws(InspectionFault) -> Inspection {
        try await stage.central.inspect(
            address: Stage.strap, service: Stage.service, characteristic: Stage.measurement,
            reading: [], agent: agent, deadline: deadline)
    }

    @Test("a strap that wants none gets none, though a person is there to ask")
    func open() async throws {
        let stage = try await stage(.open)
        let person = Person(.yes)
        _ = try await inspect(stage, person.agent())
        #expect(await !stage.bluez.isBonded(Stage.strap))
        #expect(await stage.bluez.callCount("Pair") == 0)
        #expect(person.questions.isEmpty)
        #expect(await !stage.bluez.hasAgent)
        await stage.end()
    }

    @Test("just works: the bond is made without a question", arguments: [true, false])
    func justWorks(onDemand: Bool) async throws {
        let stage = try await stage(.encrypted) { $0.bondsOnDemand = onDemand }
        let person = Person(.no)
        _ = try await inspect(stage, person.agent())
        #expect(await stage.bluez.isBonded(Stage.strap))
        #expect(person.questions.isEmpty)
        #expect(await !stage.bluez.hasAgent)
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.end()
    }

    // bluetoothd asks nobody but the default agent, and leaves a subscription without one unanswered.
    @Test("a strap that bonds when it is subscribed to is paired by its first subscription")
    func bondedBySubscribing() async throws {
        let stage = try await stage(.encrypted) { $0.encryptedStartNotifyHangs = true }
        _ = try await inspect(stage, Person(.no).agent())
        #expect(await stage.bluez.isBonded(Stage.strap))
        #expect(await stage.bluez.callCount("Pair") == 0)
        #expect(await stage.bluez.callCount("StartNotify") == 1)
        await stage.end()
    }

    @Test("a code that the strap shows is asked for", arguments: [true, false])
    func passkeyShown(onDemand: Bool) async throws {
        let stage = try await stage(.passkeyShown(7042)) { $0.bondsOnDemand = onDemand }
        let person = Person(.passkey(7042))
        _ = try await inspect(stage, person.agent())
        #expect(person.questions == [.enterPasskey])
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    @Test("a code that the strap wants is shown")
    func passkeyTyped() async throws {
        let stage = try await stage(.passkeyTyped(998_877))
        let person = Person(.yes)
        let bluez = stage.bluez
        _ = try await inspect(
            stage,
            person.agent { question in
                if case .typePasskey(let code) = question {
                    await bluez.typePasskey(code, into: Stage.strap)
                }
            })
        #expect(person.questions == [.typePasskey(998_877)])
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    @Test("codes are compared")
    func comparison() async throws {
        let stage = try await stage(.comparison(111_222))
        let person = Person(.yes)
        _ = try await inspect(stage, person.agent())
        #expect(person.questions == [.confirmPasskey(111_222)])
        await stage.end()
    }

    @Test("a wrong code is soon reported as a refused bond")
    func wrongPasskey() async throws {
        let stage = try await stage(.passkeyShown(7042)) { $0.bondsOnDemand = false }
        let person = Person(.passkey(1))
        let error = await #expect(throws: InspectionFault.self) {
            _ = try await inspect(stage, person.agent(), deadline: .seconds(30))
        }
        guard case .bondRefused = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(await !stage.bluez.isBonded(Stage.strap))
        #expect(await !stage.bluez.hasAgent)
        await stage.end()
    }

    /// The next try was refused with "Authentication Canceled": a disconnect of the try before ended it.
    @Test("a question without an answer ends it at once, and the next try is a fresh one")
    func unanswered() async throws {
        let stage = try await stage(.passkeyShown(7042))
        let began = ContinuousClock.now
        await #expect(throws: InspectionFault.bondRefused(Central.declined)) {
            _ = try await inspect(stage, Person(.no).agent(), deadline: .seconds(300))
        }
        #expect(ContinuousClock.now - began < .seconds(100), "it does not wait out its deadline")
        _ = try await inspect(stage, Person(.passkey(7042)).agent(), deadline: .seconds(100))
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    @Test("a strap that is watched while it is let go is watched again")
    func wantedAgain() async throws {
        let stage = try await stage(.open)
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.central.unwatch(address: Stage.strap)
        await stage.watch()
        #expect(await stage.bluez.wait { !$0.isConnected(Stage.strap) })
        #expect(await stage.bluez.wait(atMost: .seconds(30)) { $0.isSubscribed(Stage.strap) })
        await stage.end()
    }

    @Test("a sensor that is paired, forgotten and paired again within seconds keeps its link")
    func inspectedAgain() async throws {
        let stage = try await stage(.open)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.central.forget(address: Stage.strap)
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.central.inspections == 2, "each has a number of its own")
        await stage.end()
    }

    @Test("without a person to ask, a strap that wants a bond is distinguished from an absent one")
    func noAgent() async throws {
        let stage = try await stage(.encrypted)
        await #expect(throws: InspectionFault.wantsBond) {
            _ = try await inspect(stage, nil, deadline: .seconds(100))
        }
        await stage.end()
    }

    @Test("a strap that forgot its bond is complained of, and bonded anew when it is paired")
    func lostBond() async throws {
        let stage = try await stage(.encrypted)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.bluez.forgetBonds(Stage.strap)
        await stage.bluez.drop(Stage.strap)
        for _ in 0..<600 where await stage.central.snapshots().first?.trouble != .bondRefused {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(await stage.central.snapshots().first?.trouble == .bondRefused)
        await stage.forget()
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.central.snapshots().first?.trouble == nil)
        await stage.end()
    }

    /// Three bad connects at the edge of its range were taken for a lost bond for days, though it was switched off.
    @Test("a bonded strap that could not be connected to, and is away since, is said to be away")
    func awayAfterFailures() async throws {
        let stage = try await stage(.encrypted)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        let fault = DBusFault(name: "org.bluez.Error.Failed", text: "le-connection-abort-by-local")
        await stage.bluez.inject(ScriptedFault("Connect", times: nil, .error(fault)))
        await stage.bluez.drop(Stage.strap)
        #expect(await isInTrouble(stage, .bondRefused))
        await stage.bluez.setOnAir(Stage.strap, false)
        await stage.bluez.clearFaults()
        await stage.central.letTwoMinutesPass()
        #expect(await isInTrouble(stage, nil))
        await stage.end()
    }

    /// It was lost for good: its link came up before the bond failed, so that no scan began and no failure counted.
    @Test(
        "a strap that forgot its bond and is not heard is complained of, and bonded anew all the same"
    )
    func lostBondUnheard() async throws {
        let stage = try await stage(.encrypted)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.central.forgetSightings()
        await stage.bluez.forgetBonds(Stage.strap)
        await stage.bluez.drop(Stage.strap)
        #expect(await isInTrouble(stage, .bondRefused))
        await stage.forget()
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.central.snapshots().first?.trouble == nil)
        await stage.end()
    }

    /// `Connect` was cancelled by the removal, in the instant in which it came about.
    @Test("a strap that forgot its bond is paired anew while an attempt to connect is under way")
    func lostBondWhileConnecting() async throws {
        let stage = try await stage(.encrypted) { $0.connectMilliseconds = 400 }
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.bluez.forgetBonds(Stage.strap)
        await stage.bluez.drop(Stage.strap)
        #expect(await isInTrouble(stage, .bondRefused))
        await stage.forget()
        #expect(await stage.until { $0.states().last?.state == .connecting })
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.end()
    }

    /// Another program removes the bond of a strap that is recorded.
    private func loseBond(_ stage: Stage) async throws {
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        let path = SimulatedBlueZ.devicePath(Stage.strap)
        try await stage.central.client?.remove(device: path, adapter: "/org/bluez/hci0")
        #expect(await isInTrouble(stage, .bondMissing))
    }

    @Test("a bond that another program removes is missed as such, and made anew when it is paired")
    func removedBond() async throws {
        let stage = try await stage(.encrypted)
        try await loseBond(stage)
        await stage.forget()
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.end()
    }

    /// On a slow machine `Pair` was under way when the device was removed for the sake of a new bond: "the strap refused
    /// to bond", for "Authentication Canceled".
    @Test("a bond that is being made is not cancelled by the removal of one that is missing")
    func removalComesLate() async throws {
        let stage = try await stage(.encrypted) { $0.pairMilliseconds = 3000 }
        try await loseBond(stage)
        await stage.forget()
        await stage.bluez.inject(ScriptedFault("RegisterAgent", .delay(milliseconds: 1500)))
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.bluez.callCount("RemoveDevice") == 1, "the other program's")
        await stage.end()
    }

    /// `Pair` was called on the object that bluetoothd had just removed for us, and its answer, that there is no such
    /// object, was told as "the strap refused to bond".
    @Test("a bond is made anew though bluetoothd tells late that it has removed the old device")
    func removalToldLate() async throws {
        let wrapped = Mutex<OvertakenBus?>(nil)
        let stage = try await Stage(
            habits: { $0.encryptedStartNotifyHangs = true },
            settings: { $0.policy.subscribe = .milliseconds(500) },
            each: { $0.security = .encrypted },
            over: { bus in
                let bus = OvertakenBus(bus)
                wrapped.withLock { $0 = bus }
                return bus
            })
        await stage.start()
        try await loseBond(stage)
        wrapped.withLock { $0?.overtakeNext() }
        await stage.forget()
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    /// bluetoothd 5.66 now and then loses a subscription that brings a bond about, for 30 s.
    @Test("a strap whose bond was missed is bonded before it is subscribed to")
    func bondedFirst() async throws {
        let stage = try await Stage(
            habits: { $0.encryptedStartNotifyHangs = true },
            settings: { $0.policy.subscribe = .milliseconds(500) },
            each: { $0.security = .encrypted })
        await stage.start()
        try await loseBond(stage)
        #expect(await stage.bluez.callCount("Pair") == 0)
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.bluez.callCount("Pair") > 0)
        await stage.end()
    }

    /// It was said to want a bond, and was bonded on the way.
    @Test("a strap that another program has to itself is told of, and no bond is made")
    func taken() async throws {
        let stage = try await stage(.open)
        await stage.bluez.inject(
            ScriptedFault("StartNotify", times: nil, .error(BlueZFault.notifyAcquired)))
        await #expect(throws: InspectionFault.taken) {
            _ = try await inspect(stage, Person(.yes).agent())
        }
        #expect(await stage.bluez.callCount("Pair") == 0)
        await stage.watch()
        #expect(await isInTrouble(stage, .taken))
        await stage.end()
    }

    /// `status` told for days what had been wrong with it.
    @Test("a strap that another program had to itself, and is away since, is said to be away")
    func awayAfterTaken() async throws {
        let stage = try await stage(.open)
        await stage.bluez.inject(
            ScriptedFault("StartNotify", times: nil, .error(BlueZFault.notifyAcquired)))
        await stage.watch()
        #expect(await isInTrouble(stage, .taken))
        await stage.bluez.setOnAir(Stage.strap, false)
        await stage.central.letTwoMinutesPass()
        #expect(await isInTrouble(stage, nil))
        await stage.end()
    }

    private func isInTrouble(_ stage: Stage, _ trouble: LinkTrouble?) async -> Bool {
        for _ in 0..<1_200 where await stage.central.snapshots().first?.trouble != trouble {
            try? await Task.sleep(for: .milliseconds(50))
        }
        return await stage.central.snapshots().first?.trouble == trouble
    }

    @Test(
        "a pairing that bluetoothd never answers ends within its deadline, and leaves nothing",
        arguments: ["Pair", "RemoveDevice", "CancelPairing", "UnregisterAgent"])
    func slowDaemon(member: String) async throws {
        let stage = try await stage(.encrypted) { $0.bondsOnDemand = false }
        if member == "RemoveDevice" {
            // What the strap has forgotten is removed first.
            _ = try await inspect(stage, Person(.yes).agent())
            await stage.bluez.forgetBonds(Stage.strap)
            await stage.bluez.drop(Stage.strap)
            while await stage.central.snapshots().first?.state.kind == "streaming" {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        if ["CancelPairing", "UnregisterAgent"].contains(member) {
            await stage.bluez.inject(ScriptedFault("Pair", times: nil, .hang))
        }
        await stage.bluez.inject(ScriptedFault(member, times: nil, .hang))
        let began = ContinuousClock.now
        do throws(InspectionFault) {
            _ = try await inspect(stage, Person(.yes).agent(), deadline: .seconds(6))
            Issue.record("it was paired")
        } catch {
            if member == "Pair" { #expect(error == .tooSlow) }
        }
        // The simulated bus and a busy machine may add a little, and no call's own 20 s or 60 s.
        #expect(ContinuousClock.now - began < .seconds(9))
        await stage.bluez.clearFaults()
        #expect(await stage.bluez.wait { !$0.isBonded(Stage.strap) })
        await stage.end()
    }

    @Test(
        "where a strap's refusal shows only after the link is up, the bond is made anew all the same"
    )
    func bondedAnewAfterRefusal() async throws {
        let stage = try await stage(.encrypted) { $0.bondsOnDemand = false }
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.central.unwatch(address: Stage.strap)
        while await !stage.central.snapshots().isEmpty {
            try await Task.sleep(for: .milliseconds(20))
        }
        // Before and after `Pair`, which says that there is a bond.
        let refusal = DBusFault(
            name: "org.bluez.Error.AuthenticationFailed", text: "Authentication Failed")
        await stage.bluez.inject(ScriptedFault("StartNotify", times: 2, .error(refusal)))
        await stage.forget()
        let removals = await stage.bluez.callCount("RemoveDevice")
        let pairings = await stage.bluez.callCount("Pair")
        _ = try await inspect(stage, Person(.yes).agent())
        #expect(await stage.bluez.callCount("RemoveDevice") == removals + 1)
        #expect(await stage.bluez.callCount("Pair") == pairings + 2)
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.end()
    }

    @Test("forgetting a strap reports why bluetoothd may still know it")
    func notForgotten() async throws {
        let stage = try await stage(.encrypted)
        _ = try await inspect(stage, Person(.yes).agent())
        let refusal = BlueZFault.failed("no")
        await stage.bluez.inject(ScriptedFault("RemoveDevice", .error(refusal)))
        #expect(await stage.central.forget(address: Stage.strap) == refusal)
        #expect(await stage.central.forget(address: Stage.strap) == nil)
        await stage.end()
    }

    /// The bond of a blood-pressure cuff was removed because somebody had typed its address.
    @Test("a pairing that fails leaves a bond that it has not made")
    func foreignBond() async throws {
        let stage = try await Stage(each: {
            $0.security = .encrypted
            $0.hasHeartRate = false
            $0.advertisedServices = ["00001810-0000-1000-8000-00805f9b34fb"]
        })
        await stage.start()
        #expect(await stage.hearsRadio())
        let client = try #require(await stage.central.client)
        await stage.bluez.setForeignDiscovery(true)
        while await client.devices.isEmpty { try await Task.sleep(for: .milliseconds(20)) }
        #expect(try await client.pair(SimulatedBlueZ.devicePath(Stage.strap)))
        await stage.bluez.setForeignDiscovery(false)
        await stage.bluez.setOnAir(Stage.strap, false)
        while await client.devices.contains(where: { $0.rssi != nil || $0.isConnected }) {
            try await Task.sleep(for: .milliseconds(20))
        }
        // Not heard, or too slow where others have the processors.
        await #expect(throws: InspectionFault.self) {
            _ = try await inspect(stage, Person(.yes).agent(), deadline: .seconds(2))
        }
        #expect(await stage.bluez.callCount("RemoveDevice") == 0)
        await stage.end()
    }

    /// Nothing of it was recorded until somebody paired it with success.
    @Test("a pairing of a recorded strap that fails leaves it the bond that it has made anew")
    func recordedBond() async throws {
        let stage = try await stage(.encrypted) { $0.bondsOnDemand = false }
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        let refusal = DBusFault(
            name: "org.bluez.Error.AuthenticationFailed", text: "Authentication Failed")
        await stage.bluez.inject(ScriptedFault("StartNotify", times: nil, .error(refusal)))
        await stage.bluez.forgetBonds(Stage.strap)
        await stage.bluez.drop(Stage.strap)
        while await stage.central.snapshots().first?.state.kind == "streaming" {
            try await Task.sleep(for: .milliseconds(20))
        }
        await #expect(throws: InspectionFault.self) {
            _ = try await inspect(stage, Person(.yes).agent(), deadline: .seconds(20))
        }
        await stage.bluez.clearFaults()
        #expect(await stage.bluez.isBonded(Stage.strap))
        await stage.end()
    }

    @Test("a strap that has its bond already is not reported as bonded by the next pairing")
    func bondedBefore() async throws {
        let stage = try await stage(.encrypted)
        #expect(try await inspect(stage, Person(.yes).agent()).hasBonded)
        #expect(try await inspect(stage, Person(.yes).agent()).hasBonded == false)
        await stage.end()
    }

    @Test("forget undoes it all: link, trust, bond and the object itself")
    func forget() async throws {
        let stage = try await stage(.encrypted)
        _ = try await inspect(stage, Person(.yes).agent())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.central.forget(address: Stage.strap)
        #expect(await stage.bluez.callCount("RemoveDevice") == 1)
        #expect(await !stage.bluez.isConnected(Stage.strap))
        #expect(await stage.central.snapshots().isEmpty)
        await stage.end()
    }
}
