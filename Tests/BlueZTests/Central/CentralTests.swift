import Testbed
import Testing

@testable import BlueZ

@Suite("Central, against the simulated org.bluez", .timeLimit(.minutes(10)))
struct CentralTests {
    @Test("finds, connects, subscribes; every frame comes once, in order, with its time")
    func streaming() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 20 })
        let frames = await stage.events.frames()
        let sent = await stage.bluez.framesSent(Stage.strap).map(\.bytes)
        let received = frames.map(\.bytes)
        #expect(received == Array(sent.prefix(received.count)))
        #expect(
            zip(frames, frames.dropFirst()).allSatisfy {
                $0.uptime <= $1.uptime
            })
        let states = await stage.events.states().map(\.state.name)
        #expect(
            states == [
                "suspended(adapter)", "absent", "seen", "connecting", "resolving", "subscribing",
                "streaming",
            ]
                || states.suffix(4) == ["connecting", "resolving", "subscribing", "streaming"],
            "\(states)")
        // Watching it all the while, there is nothing left to scan for.
        #expect(await stage.bluez.wait { !$0.isDiscovering })
        await stage.end()
    }

    @Test("frames gather for seconds only while nobody but the store waits for them")
    func audience() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().contains { $0.state.name == "streaming" } })
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.central.gatheringFor == .theStore(within: .seconds(5)))
        await stage.central.setWatched(true)
        #expect(await stage.central.gatheringFor == .aScreen)
        await stage.central.setWatched(false)
        #expect(await stage.central.gatheringFor == .theStore(within: .seconds(5)))
        // The first frame of a link that is made anew is waited for.
        await stage.bluez.setSendsFrames(false)
        await stage.bluez.drop(Stage.strap)
        #expect(
            await stage.until { events in
                events.states().count { $0.state.name == "streaming" } >= 2
            })
        #expect(await stage.central.gatheringFor == .aFirstFrame)
        let before = await stage.events.frames().count
        await stage.bluez.setSendsFrames(true)
        #expect(await stage.until { $0.frames().count > before })
        #expect(await stage.central.gatheringFor == .theStore(within: .seconds(5)))
        await stage.end()
    }

    /// Its frames gather for longer than it may be silent.
    @Test("a strap that sends is not cut off while its frames gather")
    func gatheringIsNoSilence() async throws {
        let stage = try await Stage(settings: {
            $0.policy.stale = .milliseconds(500)
            $0.policy.firstFrame = .milliseconds(500)
        })
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 60 })
        #expect(await stage.central.gatheringFor == .theStore(within: .seconds(5)))
        let states = await stage.events.states().map(\.state.name)
        #expect(states.count { $0 == "streaming" } == 1 && states.last == "streaming", "\(states)")
        let frames = await stage.events.frames().map(\.bytes)
        let sent = await stage.bluez.framesSent(Stage.strap).map(\.bytes)
        #expect(frames == Array(sent.prefix(frames.count)))
        await stage.end()
    }

    /// bluetoothd hung before the first frame of a link could come, and ended the link when it went on.
    @Test("a link is not ended for silence while bluetoothd hangs")
    func hangIsNoSilence() async throws {
        let stage = try await Stage(settings: { $0.policy.firstFrame = .milliseconds(500) })
        await stage.bluez.setSendsFrames(false)
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().last?.state.name == "streaming" })
        await stage.bluez.setFrozen(true)
        #expect(
            await stage.until { events in
                events.contains { if case .daemonHung(_?) = $0 { true } else { false } }
            })
        #expect(await stage.events.states().last?.state.name == "streaming")
        await stage.bluez.setSendsFrames(true)
        await stage.bluez.setFrozen(false)
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.events.states().count { $0.state.name == "streaming" } == 1)
        await stage.end()
    }

    /// bluetoothd answered, and the frames that it had handed over just before lay unread.
    @Test("a link is not ended for silence when bluetoothd has stood still for a moment")
    func standstillIsNoSilence() async throws {
        let stage = try await Stage(settings: { $0.policy.stale = .milliseconds(500) })
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 20 })
        let frames = await stage.events.frames().count
        await stage.bluez.setFrozen(true)
        while await !stage.central.pulse.isInDoubt { await Task.yield() }
        await stage.bluez.setFrozen(false)
        #expect(await stage.until { $0.frames().count >= frames + 60 })
        let states = await stage.events.states().map(\.state.name)
        #expect(states.count { $0 == "streaming" } == 1 && states.last == "streaming", "\(states)")
        await stage.end()
    }

    /// The same where the bus has nothing for it: that is what silence is.
    @Test("a strap that falls silent is cut off though frames gather")
    func silenceIsFoundOut() async throws {
        let stage = try await Stage(settings: { $0.policy.stale = .milliseconds(500) })
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 20 })
        await stage.bluez.setSendsFrames(false)
        #expect(
            await stage.until { events in
                events.states().contains { $0.reason == .stale }
            })
        await stage.end()
    }

    /// They wait in the connection for seconds: a stop lost as much of every strap.
    @Test("frames that wait to be handed over when it stops are not lost")
    func stopLosesNoFrames() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        // The first of a batch have come: of those that follow, some gather.
        let handedOver = await stage.events.frames().count
        #expect(await stage.bluez.wait { $0.framesSent(Stage.strap).count >= handedOver + 6 })
        let sent = await stage.bluez.framesSent(Stage.strap).count
        // On their way through the bus they stay before an answer that was given after them.
        let adapter = try #require(await stage.central.knownAdapters().first)
        try await stage.central.client?.setPowered(adapter.path, true)
        await stage.central.stop(disconnecting: false)
        #expect(await stage.until(atMost: .seconds(5)) { $0.frames().count >= sent })
        await stage.end()
    }

    @Test("a link that is up already is adopted without a scan or a connect")
    func adoption() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        // Another central takes over, as after a restart of the program.
        await stage.central.stop(disconnecting: false)
        let connects = await stage.bluez.callCount("Connect")
        let scans = await stage.bluez.callCount("StartDiscovery")
        let next = await stage.nextCentral()
        let running = Task { await next.run() }
        var reasons: [LinkReason] = []
        for await batch in next.events() {
            reasons += batch.states().map(\.reason)
            if !batch.frames().isEmpty { break }
        }
        #expect(reasons.contains(.adopted))
        #expect(await stage.bluez.callCount("Connect") == connects)
        #expect(await stage.bluez.callCount("StartDiscovery") == scans)
        await next.stop(disconnecting: false)
        await running.value
        await stage.end()
    }

    @Test("Connected is never signalled, and it streams all the same")
    func unsignalled() async throws {
        let stage = try await Stage(habits: { $0.connectedUnsignalled = 1 })
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.end()
    }

    @Test("after a link loss the frames go on")
    func linkLoss() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.forget()
        await stage.bluez.drop(Stage.strap)
        #expect(
            await stage.until { events in
                let lost = events.states().first { $0.reason == .linkLost || $0.reason == .removed }
                guard let lost else { return false }
                return events.frames().contains { $0.uptime > lost.uptime }
            })
        await stage.end()
    }

    @Test(
        "bluetoothd restarts: told, and the frames go on",
        arguments: [
            SimulatedBlueZ.Ending.killed, .stopped,
        ])
    func daemonRestart(ending: SimulatedBlueZ.Ending) async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.forget()
        try await stage.bluez.setDaemon(running: false, by: ending)
        #expect(await stage.until { $0.contains(.daemon(isPresent: false)) })
        await stage.forget()
        try await stage.bluez.setDaemon(running: true)
        #expect(
            await stage.until { $0.contains(.daemon(isPresent: true)) && $0.frames().count >= 3 })
        await stage.end()
    }

    @Test("the bus goes away and comes back: told, and the frames go on")
    func busRestart() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.forget()
        try await stage.bus.restart()
        #expect(await stage.until { $0.contains(.bus(isPresent: false)) })
        #expect(
            await stage.until(atMost: .seconds(40)) { events in
                guard let back = events.lastIndex(of: .bus(isPresent: true)) else { return false }
                return !Array(events[back...]).frames().isEmpty
            })
        await stage.end()
    }

    @Test("the adapter is powered off and on: the link waits and comes back")
    func adapterPower() async throws {
        let adapter = SimulatedAdapter()
        let stage = try await Stage(adapters: [adapter])
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.forget()
        await stage.bluez.setPowered(adapter.address, false)
        #expect(await stage.until { $0.states().contains { $0.state == .suspended(.adapter) } })
        await stage.forget()
        await stage.bluez.setPowered(adapter.address, true)
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.end()
    }

    @Test("the adapter comes back under another index, hci10, and is known by its address")
    func adapterReindexed() async throws {
        let adapter = SimulatedAdapter(index: 1)
        let stage = try await Stage(
            adapters: [adapter], settings: { $0.adapterAddress = adapter.address })
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.bluez.unplug(adapter.address)
        #expect(await stage.until { $0.contains(.adapterRemoved(address: adapter.address)) })
        await stage.forget()
        await stage.bluez.plug(adapter.address, index: 10)
        #expect(await stage.until { $0.frames().count >= 3 })
        await stage.end()
    }

    @Test("an adapter that appears switched off is switched on")
    func powersOn() async throws {
        let stage = try await Stage(adapters: [SimulatedAdapter(startsPowered: false)])
        await stage.start()
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.end()
    }

    @Test(
        "connect errors of the field are overcome",
        arguments: [
            ScriptedFault("Connect", .error(BlueZFault.abortByLocal)),
            ScriptedFault("Connect", times: 2, .error(BlueZFault.inProgress)),
            ScriptedFault("Connect", .errorThough(BlueZFault.abortByLocal)),
            ScriptedFault("StartNotify", .error(BlueZFault.att(0x0e))),
            ScriptedFault("StartDiscovery", .error(BlueZFault.inProgress)),
            ScriptedFault("GetAll", times: 3, .hang),
            ScriptedFault("StartNotify", .answerLost),
        ])
    func scriptedFaults(fault: ScriptedFault) async throws {
        let stage = try await Stage()
        await stage.bluez.inject(fault)
        await stage.start()
        await stage.watch()
        #expect(await stage.until(atMost: .seconds(40)) { $0.frames().count >= 3 })
        await stage.end()
    }

    @Test("a call that fails is told, with its method and the words of bluetoothd")
    func failedCall() async throws {
        let stage = try await Stage()
        await stage.bluez.inject(ScriptedFault("Connect", .error(BlueZFault.abortByLocal)))
        await stage.start()
        await stage.watch()
        let failure = CallFailure(member: "Connect", fault: BlueZFault.abortByLocal)
        #expect(await stage.until { $0.contains(.callFailed(failure)) })
        await stage.end()
    }

    @Test("a connect that hangs is ended at its deadline and tried again")
    func hangingConnect() async throws {
        let stage = try await Stage(settings: {
            $0.policy.connect = .seconds(4)
            $0.policy.teardown = .milliseconds(200)
        })
        await stage.bluez.inject(ScriptedFault("Connect", .hang))
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().contains { $0.reason == .connectTimeout } })
        #expect(await stage.until(atMost: .seconds(60)) { $0.frames().count >= 3 })
        await stage.end()
    }

    @Test("eight straps are connected one at a time, and all stream")
    func eightStraps() async throws {
        let addresses = (1...8).map { "C0:00:00:00:00:0\($0)" }
        let stage = try await Stage(straps: addresses)
        await stage.start()
        for address in addresses { await stage.watch(address) }
        #expect(
            await stage.until(atMost: .seconds(40)) { events in
                addresses.allSatisfy { events.frames(of: $0).count >= 5 }
            })
        var connecting: Set<String> = []
        for case .link(let link) in await stage.events {
            if link.state == .connecting {
                connecting.insert(link.address)
            } else {
                connecting.remove(link.address)
            }
            #expect(connecting.count <= 1)
        }
        await stage.end()
    }

    @Test("scan lists sensors of the service, with name and strength, and ends its session")
    func scan() async throws {
        let stage = try await Stage(straps: ["C0:00:00:00:00:01", "C0:00:00:00:00:02"])
        try await stage.bluez.flood(count: 20)
        await stage.start()
        #expect(
            await stage.until { events in
                events.contains {
                    if case .adapter(let adapter) = $0 { adapter.isPowered } else { false }
                }
            })
        let found = await stage.central.scan(for: .seconds(3))
        #expect(found.map(\.address).sorted() == ["C0:00:00:00:00:01", "C0:00:00:00:00:02"])
        #expect(found.allSatisfy { $0.name?.hasPrefix("HR-") == true && $0.rssi != nil })
        #expect(found.allSatisfy { !$0.isConnected && !$0.adapter.isEmpty })
        #expect(await stage.bluez.wait { !$0.isDiscovering })
        await stage.end()
    }

    /// bluetoothd tells of each once in 15 s, and the gateway scanned already for a strap that was away.
    @Test("a short scan lists a strap that was heard just before")
    func heardBeforeTheScan() async throws {
        let away = "C0:00:00:00:00:99"
        let stage = try await Stage(habits: { $0.advertMilliseconds = 2_000 })
        await stage.start()
        #expect(await stage.hearsRadio())
        await stage.watch(away)
        while await stage.central.heardAt.isEmpty { try await Task.sleep(for: .milliseconds(20)) }
        let found = await stage.central.scan(for: .milliseconds(100))
        #expect(found.map(\.address) == [Stage.strap])
        await stage.end()
    }

    @Test("inspect reads what is there and says what is not; a watch takes the link over")
    func inspect() async throws {
        let stage = try await Stage()
        await stage.start()
        let location = "00002a38-0000-1000-8000-00805f9b34fb"
        let battery = "00002a19-0000-1000-8000-00805f9b34fb"
        let absent = "0000ffff-0000-1000-8000-00805f9b34fb"
        let found = try await stage.central.inspect(
            address: Stage.strap, service: Stage.service, characteristic: Stage.measurement,
            reading: [location, battery, absent])
        #expect(found.sighting.name == "HR-0")
        #expect(try found.values[location]?.get() == [1])
        #expect(try found.values[battery]?.get() == [87])
        #expect(throws: DBusFault.self) { try found.values[absent]?.get() }
        let connects = await stage.bluez.callCount("Connect")
        await stage.watch()
        #expect(await stage.until { $0.frames().count >= 3 })
        #expect(await stage.bluez.callCount("Connect") == connects)
        await stage.end()
    }

    @Test("inspect of a sensor that is not there says where it stands")
    func inspectAbsent() async throws {
        let stage = try await Stage(straps: [])
        await stage.start()
        #expect(await stage.hearsRadio())
        await #expect(throws: InspectionFault.notHeard) {
            try await stage.central.inspect(
                address: Stage.strap, service: Stage.service, characteristic: Stage.measurement,
                reading: [], deadline: .milliseconds(500))
        }
        await stage.end()
    }

    @Test("unwatch unsubscribes and disconnects")
    func unwatch() async throws {
        let stage = try await Stage()
        await stage.start()
        await stage.watch()
        #expect(await stage.until { !$0.frames().isEmpty })
        await stage.central.unwatch(address: Stage.strap)
        #expect(await stage.bluez.wait { !$0.isConnected(Stage.strap) })
        #expect(await stage.bluez.callCount("StopNotify") == 1)
        await stage.end()
    }

    /// The `Disconnect` cancelled the attempt in the instant in which it came about, and Linux lost the link.
    @Test("a strap that is let go while it is being connected to can be connected to again")
    func unwatchWhileConnecting() async throws {
        let stage = try await Stage(habits: { $0.connectMilliseconds = 500 })
        await stage.start()
        await stage.watch()
        #expect(await stage.until { $0.states().last?.state == .connecting })
        await stage.central.unwatch(address: Stage.strap)
        await stage.watch()
        // Sooner than the adapter would be reset.
        #expect(await stage.until(atMost: .seconds(30)) { !$0.frames().isEmpty })
        await stage.end()
    }

    @Test("stop ends discovery and can end the links; events end")
    func stop() async throws {
        let stage = try await Stage(straps: [Stage.strap])
        await stage.start()
        await stage.watch()
        await stage.watch("C0:00:00:00:00:99")
        #expect(await stage.until { !$0.frames().isEmpty })
        #expect(await stage.bluez.wait { $0.isDiscovering })
        await stage.central.stop(disconnecting: true)
        #expect(await stage.bluez.wait { !$0.isConnected(Stage.strap) && !$0.isDiscovering })
        await stage.end()
    }
}
