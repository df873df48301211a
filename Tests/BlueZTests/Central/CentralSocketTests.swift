import Testbed
import Testing

@testable import BlueZ

/// Frames over sockets, by a real dbus-daemon and real descriptors.
@Suite("Central with sockets, against the simulated org.bluez", .timeLimit(.minutes(10)))
struct CentralSocketTests {
    private static let measurement =
        SimulatedBlueZ.devicePath(Stage.strap) + "/service0006/char0007"

    private func stage(
        habits: @Sendable (inout BlueZHabits) -> Void = { _ in }
    ) async throws -> Stage {
        let stage = try await Stage(habits: habits, settings: { $0.wantsSocket = true })
        await stage.start()
        await stage.watch()
        return stage
    }

    /// Calls a method of the measurement as another program does.
    private func call(_ member: String, by other: DBusConnection) async throws(DBusFault)
        -> [DBusValue]
    {
        try await other.call(
            destination: "org.bluez", path: Self.measurement,
            interface: "org.bluez.GattCharacteristic1", member: member,
            arguments: member == "AcquireNotify" ? [.properties([:])] : [], deadline: .seconds(10))
    }

    private func frames(_ stage: Stage, moreThan count: Int) async -> Bool {
        await stage.until { $0.frames().count > count }
    }

    @Test("every frame comes once, in order, with its time, and none over the bus")
    func streaming() async throws {
        let stage = try await stage()
        #expect(await frames(stage, moreThan: 20))
        #expect(await stage.events.ways() == [.socket])
        #expect(await stage.bluez.hasSocket(Stage.strap))
        #expect(await stage.bluez.callCount("StartNotify") == 0)
        let frames = await stage.events.frames()
        let sent = await stage.bluez.framesSent(Stage.strap).map(\.bytes)
        #expect(frames.map(\.bytes) == Array(sent.prefix(frames.count)))
        #expect(zip(frames, frames.dropFirst()).allSatisfy { $0.uptime <= $1.uptime })
        await stage.end()
    }

    @Test("frames that wait to be handed over when it stops are not lost")
    func stopLosesNoFrames() async throws {
        let stage = try await stage()
        #expect(await frames(stage, moreThan: 0))
        let handedOver = await stage.events.frames().count
        #expect(await stage.bluez.wait { $0.framesSent(Stage.strap).count >= handedOver + 6 })
        let sent = await stage.bluez.framesSent(Stage.strap).count
        await stage.central.stop(disconnecting: false)
        #expect(await stage.until(atMost: .seconds(5)) { $0.frames().count >= sent })
        #expect(await stage.bluez.wait { !$0.hasSocket(Stage.strap) })
        await stage.end()
    }

    @Test("frames sent before a link is lost come before the loss, and the next link has a socket")
    func linkLoss() async throws {
        let stage = try await stage()
        for round in 1...5 {
            let before = await stage.events.frames().count
            #expect(await frames(stage, moreThan: before + 2))
            await stage.bluez.drop(Stage.strap)
            let sent = await stage.bluez.framesSent(Stage.strap).count
            #expect(
                await stage.until { events in
                    events.ways().count > round
                })
            let events = await stage.events
            let losses = events.indices.filter { events[$0].isLoss }
            #expect(losses.count >= round)
            // What was sent over the links so far came before the last loss.
            let last = try #require(losses.last)
            #expect(Array(events[..<last]).frames().count >= sent)
        }
        #expect(Set(await stage.events.ways()) == [.socket])
        await stage.end()
    }

    @Test("another program cannot subscribe beside the socket")
    func secondSubscriber() async throws {
        let stage = try await stage()
        #expect(await frames(stage, moreThan: 2))
        let other = try await DBusConnection.open(address: stage.bus.address)
        for member in ["StartNotify", "AcquireNotify"] {
            do throws(DBusFault) {
                _ = try await call(member, by: other)
                Issue.record("\(member) was allowed")
            } catch {
                #expect(error == BlueZFault.notifyAcquired)
            }
        }
        other.close()
        await stage.end()
    }

    @Test("beside another program's subscription frames come by signals, and over a socket later")
    func othersSession() async throws {
        let stage = try await stage()
        #expect(await frames(stage, moreThan: 0))
        let other = try await DBusConnection.open(address: stage.bus.address)
        await stage.bluez.inject(
            ScriptedFault("AcquireNotify", times: 1, .error(BlueZFault.inProgress)))
        await stage.bluez.drop(Stage.strap)
        #expect(await stage.until { $0.ways() == [.socket, .signal] })
        let count = await stage.events.frames().count
        #expect(await frames(stage, moreThan: count + 5))
        _ = try await call("StartNotify", by: other)
        // It still listens at the next link.
        await stage.bluez.drop(Stage.strap)
        #expect(await stage.until { $0.ways() == [.socket, .signal, .signal] })
        let refusals = await stage.events.refusals()
        #expect(refusals.map(\.name) == Array(repeating: "org.bluez.Error.InProgress", count: 2))
        other.close()
        await stage.bluez.drop(Stage.strap)
        #expect(await stage.until { $0.ways() == [.socket, .signal, .signal, .socket] })
        await stage.end()
    }

    @Test("while another program has the socket there are no frames, and after that there are")
    func othersSocket() async throws {
        let stage = try await Stage(settings: {
            $0.wantsSocket = true
            $0.policy.personPause = .milliseconds(200)
        })
        await stage.start()
        #expect(await stage.hearsRadio())
        await stage.watch()
        #expect(await frames(stage, moreThan: 0))
        let other = try await DBusConnection.open(address: stage.bus.address)
        // It is quicker at the next link.
        await stage.bluez.inject(
            ScriptedFault("AcquireNotify", times: 1, .error(BlueZFault.notifyAcquired)))
        await stage.bluez.inject(
            ScriptedFault("StartNotify", times: 1, .error(BlueZFault.notifyAcquired)))
        await stage.bluez.drop(Stage.strap)
        #expect(await stage.until { $0.states().contains { $0.reason == .error(.taken) } })
        #expect(await stage.until { $0.ways() == [.socket, .socket] })
        other.close()
        await stage.end()
    }

    @Test("a socket that another program has closed is replaced by signals, until the next link")
    func closedByAnother() async throws {
        let stage = try await stage()
        #expect(await frames(stage, moreThan: 2))
        let other = try await DBusConnection.open(address: stage.bus.address)
        _ = try await call("StopNotify", by: other)
        #expect(await stage.until { $0.ways() == [.socket, .signal] })
        let count = await stage.events.frames().count
        #expect(await frames(stage, moreThan: count + 5))
        #expect(await stage.bluez.callCount("Disconnect") == 0)
        await stage.bluez.drop(Stage.strap)
        #expect(await stage.until { $0.ways() == [.socket, .signal, .socket] })
        other.close()
        await stage.end()
    }

    @Test("after a restart of bluetoothd frames come over a socket again")
    func restart() async throws {
        let stage = try await stage()
        #expect(await frames(stage, moreThan: 2))
        try await stage.bluez.setDaemon(running: false)
        #expect(
            await stage.until { events in
                events.contains { if case .daemon(isPresent: false) = $0 { true } else { false } }
            })
        let count = await stage.events.frames().count
        try await stage.bluez.setDaemon(running: true)
        #expect(await frames(stage, moreThan: count + 5))
        #expect(await stage.events.ways() == [.socket, .socket])
        await stage.end()
    }

    @Test(
        "what is no socket is passed over, and frames come by signals",
        arguments: [
            (BlueZHabits.SocketAnswer.pipe, UInt16(517)), (.nothing, 517), (.socket, 0),
        ])
    func badAnswers(answer: BlueZHabits.SocketAnswer, mtu: UInt16) async throws {
        let stage = try await stage(habits: {
            $0.socketAnswer = answer
            $0.mtu = mtu
        })
        #expect(await frames(stage, moreThan: 5))
        #expect(await stage.events.ways() == [.signal])
        #expect(await stage.events.refusals().map(\.name) == [DBusFault.badSocket])
        await stage.end()
    }

    @Test("empty frames come as such, and an overlong one ends the socket alone")
    func hostileFrames() async throws {
        let stage = try await stage()
        #expect(await frames(stage, moreThan: 0))
        await stage.bluez.setSendsFrames(false)
        await stage.bluez.emit([], from: Stage.strap)
        #expect(await stage.until { $0.frames().contains { $0.bytes.isEmpty } })
        await stage.bluez.emit(Array(repeating: 0, count: 513), from: Stage.strap)
        #expect(await stage.until { $0.ways() == [.socket, .signal] })
        await stage.bluez.emit([0, 61], from: Stage.strap)
        #expect(await stage.until { $0.frames().last?.bytes == [0, 61] })
        #expect(await stage.bluez.callCount("Disconnect") == 0)
        await stage.end()
    }

    @Test("a full socket is reported, and what it held comes")
    func fullSocket() async throws {
        let stage = try await Stage(settings: { $0.wantsSocket = true })
        await stage.start()
        await stage.watch()
        #expect(await frames(stage, moreThan: 0))
        await stage.bluez.setSendsFrames(false)
        // More than fits, in one go: the reader has no turn in between.
        let before = await stage.bluez.framesSent(Stage.strap).count
        await stage.bluez.burst(5000, from: Stage.strap)
        let unsent = await stage.bluez.framesUnsentCount(Stage.strap)
        #expect(await stage.until { $0.frames().count == before + 5000 - unsent })
        if unsent > 0 {
            #expect(
                await stage.until { events in
                    events.contains { if case .socketFull = $0 { true } else { false } }
                })
        }
        await stage.end()
    }
}

extension [CentralEvent] {
    fileprivate func ways() -> [NotificationWay] {
        compactMap { if case .subscribed(_, let way, _) = $0 { way } else { nil } }
    }

    fileprivate func refusals() -> [DBusFault] {
        compactMap { if case .subscribed(_, _, let refusal) = $0 { refusal } else { nil } }
    }
}

extension CentralEvent {
    fileprivate var isLoss: Bool {
        if case .link(let change) = self { change.reason == .linkLost } else { false }
    }
}
