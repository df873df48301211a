import Basics
import Testbed
import Testing

@testable import BlueZ

extension Central {
    /// As if nothing had been heard for long.
    fileprivate func forgetSighting() { heardAt = [:] }

    fileprivate func isWatchedForGood(_ address: String) -> Bool {
        links[address]?.isTemporary == false
    }
}

@Suite("Central, and what the field does to it", .timeLimit(.minutes(10)))
struct CentralFieldTests {
    private static let adapter = SimulatedAdapter().address
    private static let identity = "00:A0:50:00:00:07"
    private static let rotating = "4A:11:22:33:44:55"

    private func inspect(
        _ stage: Stage, _ address: String = Stage.strap, agent: PairingAgent? = nil
    ) async throws(InspectionFault) -> Inspection {
        try await stage.central.inspect(
            address: address, service: Stage.service, characteristic: Stage.measurement,
            reading: [], agent: agent)
    }

    private static func agent(of address: String) -> PairingAgent {
        PairingAgent(address: address) { _ in .yes }
    }

    @Test("an adapter that is switched off is on again, and the frames go on")
    func switchedOff() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.forget()
        await stage.bluez.switchOff(Self.adapter)
        #expect(await stage.until { $0.states().contains { $0.state == .suspended(.adapter) } })
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.end()
    }

    @Test(
        "with if-ours, an adapter that is switched off stays off", arguments: [true, false])
    func policy(isOwed: Bool) async throws {
        let stage = try await Stage(
            adapters: [SimulatedAdapter(startsPowered: false)],
            settings: {
                $0.power = .ifOurs
                if isOwed { $0.adaptersOwed = [Self.adapter] }
            })
        await stage.start()
        await stage.watch()
        #expect(
            await stage.until {
                $0.contains { if case .adapter = $0 { true } else { false } }
            })
        if isOwed {
            #expect(await stage.until { !$0.frames().isEmpty })
        } else {
            // The answer to a later call: a power-on would have been carried out before.
            _ = await stage.central.scan(for: .milliseconds(200))
            #expect(await !stage.bluez.isPowered(Self.adapter))
        }
        await stage.end()
    }

    @Test("what advertises heart rate and has none is reported within seconds, and nothing is left")
    func noHeartRate() async throws {
        let stage = try await Stage(each: {
            $0.hasHeartRate = false
            $0.advertisedServices = [Stage.service]
        })
        await stage.start()
        let begun = ContinuousClock.now
        await #expect(throws: InspectionFault.noHeartRate(isAdvertised: true)) {
            try await inspect(stage, agent: Self.agent(of: Stage.strap))
        }
        #expect(ContinuousClock.now - begun < InspectionTime.limit, "not by running out of time")
        await stage.end()
    }

    @Test(
        "a strap that cannot be connected to is reported within two attempts, and by its snapshot")
    func unreachable() async throws {
        let stage = try await Stage()
        let fault = DBusFault(name: "org.bluez.Error.Failed", text: "le-connection-abort-by-local")
        await stage.bluez.inject(ScriptedFault("Connect", times: nil, .error(fault)))
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().contains(where: \.isUnreachable) })
        guard case .unreachable = await stage.central.snapshots().first?.trouble else {
            Issue.record("its snapshot does not say so")
            return
        }
        await stage.bluez.clearFaults()
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.central.snapshots().first?.trouble == nil)
        await stage.end()
    }

    /// The bond gave it another address, under which it was looked for after the pairing had ended: no strap was
    /// connected to any more.
    @Test("a pairing that fails after the bond leaves no search behind")
    func failsAfterTheBond() async throws {
        let stage = try await Stage(
            straps: [Self.rotating],
            each: {
                $0.identity = Self.identity
                $0.security = .encrypted
            })
        let fault = DBusFault(name: "org.bluez.Error.NotAuthorized", text: "no")
        await stage.bluez.inject(ScriptedFault("StartNotify", times: nil, .error(fault)))
        await stage.start()
        await #expect(throws: InspectionFault.self) {
            try await inspect(stage, Self.rotating, agent: Self.agent(of: Self.rotating))
        }
        #expect(await stage.central.sought.isEmpty)
        await stage.end()
    }

    @Test(
        "a strap with a private address is bonded, and known by its identity address from then on")
    func identityAddress() async throws {
        let stage = try await Stage(
            straps: [Self.rotating],
            each: {
                $0.identity = Self.identity
                $0.security = .encrypted
            })
        await stage.start()
        let inspection = try await inspect(
            stage, Self.rotating, agent: Self.agent(of: Self.rotating))
        #expect(inspection.sighting.address == Self.identity)
        // Our agent went on answering for every device.
        #expect(await stage.bluez.callCount("UnregisterAgent") == 1)
        #expect(inspection.hasBonded)
        await stage.watch(Self.identity)
        await stage.forget()
        #expect(await stage.until { $0.frames(of: Self.identity).count >= 3 })
        #expect(await stage.central.snapshots().map(\.address) == [Self.identity])
        await stage.bluez.drop(Self.rotating)
        await stage.forget()
        #expect(await stage.until { $0.frames(of: Self.identity).count >= 3 })
        await stage.end()
    }

    /// It was said not to advertise, within milliseconds, and the gateway went on looking for it.
    @Test("a strap that was forgotten is paired again by its changing address, and else looked for")
    func pairedAgainByItsChangingAddress() async throws {
        let stage = try await Stage(
            straps: [Self.rotating],
            each: {
                $0.identity = Self.identity
                $0.security = .encrypted
            })
        await stage.start()
        #expect(await stage.hearsRadio())
        for _ in 0..<2 {
            let inspection = try await inspect(
                stage, Self.rotating, agent: Self.agent(of: Self.rotating))
            #expect(inspection.sighting.address == Self.identity)
            await stage.central.forget(address: Self.identity)
        }
        await stage.bluez.setOnAir(Self.rotating, false)
        let begun = ContinuousClock.now
        await #expect(throws: InspectionFault.self) {
            _ = try await stage.central.inspect(
                address: Self.rotating, service: Stage.service,
                characteristic: Stage.measurement, reading: [], deadline: .seconds(2))
        }
        #expect(ContinuousClock.now - begun > .milliseconds(900), "it was looked for")
        while await !stage.central.snapshots().isEmpty {
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(await stage.bluez.wait { !$0.isDiscovering })
        await stage.end()
    }

    /// It was told as not heard, and its new bond stayed.
    @Test(
        "a watched strap that is inspected by its changing address is found, and watched as before",
        arguments: [true, false])
    func identityIsWatched(isKnownToDaemon: Bool) async throws {
        let stage = try await Stage(
            straps: isKnownToDaemon ? [Self.rotating, Self.identity] : [Self.rotating],
            each: {
                $0.identity = Self.identity
                $0.security = .encrypted
            })
        if isKnownToDaemon { await stage.bluez.setOnAir(Self.rotating, false) }
        await stage.start()
        await stage.watch(Self.identity)
        if isKnownToDaemon {
            #expect(
                await stage.until { $0.states(of: Self.identity).contains { $0.reason == .heard } })
            await stage.bluez.setOnAir(Self.identity, false)
            await stage.bluez.setOnAir(Self.rotating, true)
        }
        let inspection = try await inspect(
            stage, Self.rotating, agent: Self.agent(of: Self.rotating))
        #expect(inspection.sighting.address == Self.identity)
        #expect(inspection.hasBonded)
        let renamed = CentralEvent.renamed(from: Self.rotating, to: Self.identity)
        #expect(await stage.until { $0.contains(renamed) })
        #expect(await stage.until { $0.frames(of: Self.identity).count >= 3 })
        #expect(await stage.events.states(of: Self.identity).last?.state.name == "streaming")
        #expect(await stage.central.snapshots().map(\.address) == [Self.identity])
        #expect(await stage.central.isWatchedForGood(Self.identity))
        await stage.end()
    }

    @Test(
        "a strap with a private address that refuses a bond is reported at once, and nothing is left"
    )
    func refusedBond() async throws {
        let stage = try await Stage(straps: [Self.rotating])
        let fault = DBusFault(
            name: "org.bluez.Error.AuthenticationFailed", text: "Authentication Failed")
        await stage.bluez.inject(ScriptedFault("Pair", times: nil, .error(fault)))
        await stage.start()
        await #expect(throws: InspectionFault.addressChanges) {
            try await inspect(
                stage, Self.rotating, agent: Self.agent(of: Self.rotating))
        }
        await stage.end()
    }

    @Test("a strap that bonds and does not tell its identity is refused at once, with the reason")
    func noIdentity() async throws {
        let stage = try await Stage(straps: [Self.rotating], each: { $0.security = .encrypted })
        await stage.start()
        await #expect(throws: InspectionFault.noIdentity) {
            try await inspect(stage, Self.rotating, agent: Self.agent(of: Self.rotating))
        }
        await stage.end()
    }

    /// It was silent for ever.
    @Test("a strap that comes back under another address is told of, with that address")
    func otherAddress() async throws {
        let other = "C0:00:00:00:00:02"
        let stage = try await Stage(straps: [Stage.strap, other], each: { $0.name = "Belt 7" })
        await stage.bluez.setOnAir(other, false)
        await stage.start()
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.bluez.setOnAir(Stage.strap, false)
        await stage.bluez.setOnAir(other, true)
        await stage.central.forgetSighting()
        #expect(await isInTrouble(stage, .otherAddress(other)))
        await stage.bluez.setOnAir(Stage.strap, true)
        #expect(await isInTrouble(stage, nil))
        await stage.end()
    }

    /// It was removed five times in 300 s.
    @Test("a watch that bluetoothd connects to over classic Bluetooth is told of and not removed")
    func classic() async throws {
        let stage = try await Stage()
        let fault = DBusFault(
            name: "org.bluez.Error.Failed", text: "br-connection-profile-unavailable")
        await stage.bluez.inject(ScriptedFault("Connect", times: nil, .error(fault)))
        await stage.start()
        await #expect(throws: InspectionFault.classic) { try await inspect(stage) }
        await stage.watch()
        #expect(await isInTrouble(stage, .classic))
        #expect(await stage.bluez.callCount("RemoveDevice") == 0)
        await stage.end()
    }

    private func isInTrouble(_ stage: Stage, _ trouble: LinkTrouble?) async -> Bool {
        for _ in 0..<1_200 where await stage.central.snapshots().first?.trouble != trouble {
            try? await Task.sleep(for: .milliseconds(50))
        }
        return await stage.central.snapshots().first?.trouble == trouble
    }

    @Test("no frames come while another program has a strap's notifications, and then they do")
    func takenByAnother() async throws {
        let stage = try await Stage(settings: { $0.policy.personPause = .milliseconds(200) })
        await stage.start()
        #expect(await stage.hearsRadio())
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        // The other program has them all.
        await stage.bluez.setSendsFrames(false)
        await stage.bluez.inject(
            ScriptedFault("StartNotify", times: 1, .error(BlueZFault.notifyAcquired)))
        await stage.bluez.drop(Stage.strap)
        #expect(await stage.until { $0.states().contains { $0.reason == .error(.taken) } })
        await stage.forget()
        await stage.bluez.setSendsFrames(true)
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.end()
    }

    /// It took 12.5 s: the link was given up for its silence.
    @Test("a strap whose services change is subscribed to anew over the same link")
    func servicesChange() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        let connects = await stage.bluez.callCount("Connect")
        await stage.forget()
        await stage.bluez.changeServices(Stage.strap, battery: true)
        #expect(await stage.until { $0.states().contains { $0.state == .subscribing } })
        await stage.forget()
        #expect(await stage.until { $0.frames().count >= 3 })
        #expect(await stage.bluez.callCount("Connect") == connects)
        await stage.end()
    }

    @Test("the battery of a service that vanished is known no more")
    func batteryVanishes() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        let known = CentralEvent.battery(address: Stage.strap, percent: 87)
        #expect(await stage.until { $0.contains(known) && !$0.frames().isEmpty })
        await stage.bluez.changeServices(Stage.strap, battery: false)
        let gone = CentralEvent.battery(address: Stage.strap, percent: nil)
        #expect(await stage.until { $0.contains(gone) })
        await stage.end()
    }

    /// `status` said that all is well, and then that the strap is silent.
    @Test("a policy that is taken away while bluetoothd runs is noticed, and that it is back")
    func policyTaken() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        let denied = DBusFault(name: DBusFault.accessDenied, text: "not by the policy")
        for member in ["Connect", "Ping", "GetAll"] {
            await stage.bluez.inject(ScriptedFault(member, times: nil, .error(denied)))
        }
        await stage.bluez.drop(Stage.strap)
        #expect(await stage.until { $0.contains(.daemonRefused(denied)) })
        await stage.bluez.clearFaults()
        await stage.forget()
        await stage.central.askAgain()
        #expect(await stage.until { $0.contains(.daemon(isPresent: true)) })
        await stage.end()
    }

    /// `status` said that it is not running.
    @Test("a bluetoothd that the bus keeps us from asking is not taken for one that is gone")
    func refused() async throws {
        let stage = try await Stage()
        let denied = DBusFault(name: DBusFault.accessDenied, text: "not by the policy")
        await stage.bluez.inject(ScriptedFault("GetManagedObjects", times: nil, .error(denied)))
        await stage.start()
        #expect(await stage.until { $0.contains(.daemonRefused(denied)) })
        await #expect(stage.events.contains(.daemon(isPresent: false)) == false)
        try await stage.bluez.setDaemon(running: false)
        #expect(await stage.until { $0.contains(.daemon(isPresent: false)) })
        await stage.end()
    }

    @Test("frames that waited in a stopped bluetoothd come when it goes on, and the link stays")
    func stopped() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.bluez.setFrozen(true)
        #expect(
            await stage.until {
                $0.contains { if case .daemonHung(.some) = $0 { true } else { false } }
            })
        await stage.bluez.setFrozen(false)
        #expect(
            await stage.until {
                $0.contains { if case .daemonHung(nil) = $0 { true } else { false } }
            })
        let sent = await stage.bluez.framesSent(Stage.strap).map(\.bytes)
        #expect(await stage.until { $0.frames().count >= sent.count })
        let received = await stage.events.frames().map(\.bytes)
        #expect(Array(received.prefix(sent.count)) == sent)
        let ends = await stage.events.states().filter { $0.reason == .stale }
        #expect(ends.isEmpty)
        await stage.end()
    }

    /// It was told after 66 s, and a stop took as long: systemd killed the gateway meanwhile.
    @Test("a bluetoothd that hangs when the gateway connects is reported, and delays no stop")
    func hangsFromTheBeginning() async throws {
        let stage = try await Stage()
        await stage.bluez.setFrozen(true)
        await stage.start()
        #expect(await stage.until { $0.contains(.bus(isPresent: true)) })
        #expect(
            await stage.until(atMost: .seconds(40)) {
                $0.contains { if case .daemonHung(.some) = $0 { true } else { false } }
            })
        await #expect(!stage.events.contains(.daemon(isPresent: false)))
        let begun = ContinuousClock.now
        await stage.end()
        #expect(ContinuousClock.now - begun < .seconds(10))
    }

    @Test("a bluetoothd that is absent when the gateway connects is reported as absent")
    func absentFromTheBeginning() async throws {
        let stage = try await Stage()
        try await stage.bluez.setDaemon(running: false)
        await stage.start()
        #expect(await stage.until { $0.contains(.daemon(isPresent: false)) })
        try await stage.bluez.setDaemon(running: true)
        #expect(await stage.until { $0.contains(.daemon(isPresent: true)) })
        await stage.end()
    }

    /// A gateway that started while bluetoothd hung got frames of the run before it, and took their arrival for the time
    /// at which they were sent.
    @Test(
        "a frame that waited in bluetoothd when the gateway subscribed is not taken for a new one")
    func waitedBeforeTheSubscription() async throws {
        let stage = try await Stage()
        await stage.bluez.setSendsFrames(false)
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().last?.state.name == "streaming" })
        await stage.central.hear([0, 60], -1)
        await stage.central.hear([0, 61], 1)
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.events.frames().map(\.bytes) == [[0, 61]])
        await stage.end()
    }

    /// The same of a link that it found: what bluetoothd had kept went on coming for a moment.
    @Test(
        "frames that wait while the gateway subscribes to a link that it found are not taken for new ones"
    )
    func waitedAtTheSubscription() async throws {
        let stage = try await Stage()
        await stage.bluez.setSendsFrames(false)
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().last?.state.name == "streaming" })
        await stage.central.stop(disconnecting: false)
        let next = await stage.nextCentral()
        let running = Task { await next.run() }
        var frames: [[UInt8]] = []
        for await batch in next.events() {
            if batch.states().last?.state.name == "streaming" {
                await next.noteSlowAnswer()
                for (rate, milliseconds) in [(60, 1), (61, 2), (62, 41), (63, 100), (64, 110)] {
                    await next.hear([0, UInt8(rate)], Int64(milliseconds) * 1000)
                }
            }
            frames += batch.frames().map(\.bytes)
            if frames.count > 1 { break }
        }
        #expect(frames == [[0, 63], [0, 64]])
        await next.stop(disconnecting: false)
        await running.value
        await stage.end()
    }

    /// A link was made anew, and what it brought before the gateway had subscribed once more was dropped.
    @Test(
        "a frame that comes before the gateway subscribes to a link made anew is kept, with its time"
    )
    func beforeTheNextSubscription() async throws {
        let stage = try await Stage()
        await stage.bluez.setSendsFrames(false)
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().last?.state.name == "streaming" })
        await stage.central.hear([0, 60], 1)
        await stage.central.subscribeAgain()
        await stage.central.hear([0, 61], -1_000)
        #expect(await stage.until { $0.frames().count == 2 })
        let came = try #require(await stage.events.frames().last).uptime
        #expect(await stage.central.linkBegins() == came)
        await stage.end()
    }

    /// The first frame of a link that was there already was dropped after a refusal, as if it had waited in a hang.
    @Test("a bluetoothd that has refused the gateway has not hung")
    func refusalIsNoHang() {
        var daemon = DaemonPresence()
        daemon.connect(at: .zero)
        var told = daemon.gain(at: .zero + .seconds(60))
        #expect(told == [.daemon(isPresent: true)])
        #expect(daemon.mayHaveHung)
        _ = daemon.lose()
        let denied = DBusFault(name: DBusFault.accessDenied)
        told = daemon.noteRefusal(denied) + daemon.noteRefusal(denied)
        #expect(told == [.daemonRefused(denied)])
        told = daemon.gain(at: .zero + .seconds(120))
        #expect(told == [.daemon(isPresent: true)])
        #expect(!daemon.mayHaveHung)
    }

    /// bluetoothd switches notifications on by itself when the strap is back; the first frame was dropped.
    @Test("a frame that comes after the adapter was off, before the gateway subscribes, is kept")
    func afterTheAdapterWasOff() async throws {
        let adapter = SimulatedAdapter()
        let stage = try await Stage(adapters: [adapter])
        await stage.start()
        await stage.watch()
        // Trusted from its first frame: bluetoothd keeps it while the adapter is off.
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.bluez.setSendsFrames(false)
        await stage.bluez.setPowered(adapter.address, false)
        #expect(await stage.until { $0.states().last?.state == .suspended(.adapter) })
        await stage.central.hear([0, 62], 1_000)
        #expect(await stage.until { $0.frames().last?.bytes == [0, 62] })
        await stage.forget()
        await stage.bluez.setPowered(adapter.address, true)
        #expect(await stage.until { $0.states().last?.state.name == "streaming" })
        await stage.bluez.setSendsFrames(true)
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.end()
    }
}

extension Central {
    /// bluetoothd hung when the gateway came.
    fileprivate func noteSlowAnswer() {
        daemon.connect(at: clock.now() - .seconds(1))
        _ = daemon.gain(at: clock.now())
    }

    /// Subscribes to the link once more, a second later.
    fileprivate func subscribeAgain() {
        guard let (path, link) = subscribers.first else { return }
        assign(path, to: link)
        link.subscribedAt += .seconds(1)
    }

    /// When the link was subscribed to, or brought a frame before.
    fileprivate func linkBegins() -> Uptime? { subscribers.first?.value.subscribedAt }

    /// Hands a notification over that came so many microseconds after the subscription.
    fileprivate func hear(_ bytes: [UInt8], _ later: Int64) {
        guard let (path, link) = subscribers.first else { return }
        let uptime = Uptime(microseconds: link.subscribedAt.microseconds + later)
        take([.notification(characteristicPath: path, bytes: bytes, arrivedAt: uptime)])
    }
}
