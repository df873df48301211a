import Basics
import BlueZ
import Testbed
import VirtualTime

/// Plays a script on a room full of straps, with a gateway in it.
final class Day {
    static let adapters = ["00:1A:7D:DA:71:01", "00:1A:7D:DA:71:02"]

    let straps: [String]
    let script: DayScript
    let hours: Int64
    let bus: MemoryBus
    let clock = VirtualWallClock()
    let gateway: DayGateway
    private let time = VirtualExecutors.time
    private let isTraced: Bool
    private var failures: [String] = []
    /// What is to be done and when, beside the world's own doings.
    private var agenda: [(due: Int64, number: Int, action: (Day) -> Void)] = []
    private var actions = 0

    init(seed: UInt64, hours: Int64, strapCount: Int, path: String, isTraced: Bool) throws {
        self.isTraced = isTraced
        self.hours = hours
        let heart = try RecordedHeart.oneHour()
        let straps = (1...strapCount).map { index in
            let digits = String(index, radix: 16, uppercase: true)
            return "C0:00:00:00:00:" + (digits.count < 2 ? "0" + digits : digits)
        }
        self.straps = straps
        script = DayScript(seed: seed, hours: hours, straps: straps, adapters: Self.adapters)
        bus = MemoryBus(
            adapters: [
                // Seven and seven links: one adapter alone cannot carry all twelve straps.
                SimulatedAdapter(address: Self.adapters[0], index: 0, linksMax: 7),
                SimulatedAdapter(address: Self.adapters[1], index: 1, linksMax: 7),
            ],
            straps: straps.enumerated().map { index, address in
                SimulatedStrap(
                    address: address, name: "Strap \(index)", heart: heart, firstBeat: index * 300)
            }, seed: seed)
        let bus = bus
        gateway = DayGateway(path: path, clock: clock, seed: seed, isTraced: isTraced) {
            () throws(DBusFault) in try bus.connect()
        }
    }

    /// Lives through the day.
    func run() throws {
        perform { gateway, straps in try await gateway.start(straps: straps) }
        // The machine has no battery clock: it is trusted after a while.
        at(90_000_000) { $0.clock.setTrusted(true) }
        for trouble in script.troubles {
            at(trouble.begin) { day in
                if day.isTraced {
                    print(
                        trouble.begin / 1_000_000, "TROUBLE", trouble.kind, trouble.subject ?? "",
                        "for", (trouble.end - trouble.begin) / 1_000_000)
                }
                day.begin(trouble)
            }
            at(trouble.end) { $0.end(trouble) }
        }
        lookAtHealthEveryMinute()
        let end = hours * DayScript.hour
        while time.now < end {
            let next = [bus.nextDue?.microseconds, time.nextDue, agenda.first?.due, end].compactMap
            { $0 }.min()
            move(to: max(next ?? end, time.now))
            while let first = agenda.first, first.due <= time.now {
                agenda.removeFirst()
                first.action(self)
                time.settle()
            }
        }
        try check()
    }

    /// - Throws: ``DayFault`` if anything that was done with the gateway has failed.
    func check() throws {
        if let failure = failures.first { throw DayFault(description: failure) }
    }

    /// Lets the world and the gateway do what is due by then.
    private func move(to now: Int64) {
        time.tick(to: now)
        bus.advance(to: WorldTime(microseconds: now))
        time.settle()
        time.advance(to: now)
        time.settle()
    }

    private func at(_ due: Int64, _ action: @escaping (Day) -> Void) {
        actions += 1
        agenda.append((due, actions, action))
        agenda.sort { ($0.due, $0.number) < ($1.due, $1.number) }
    }

    /// Does something with the gateway and waits for it, in virtual time.
    func perform(_ work: @escaping @Sendable (DayGateway, [String]) async throws -> Void) {
        let gateway = gateway
        let straps = straps
        let outcome = Outcome()
        Task.detached {
            do { try await work(gateway, straps) } catch { await outcome.fail("\(error)") }
            await outcome.finish()
        }
        time.settle()
        while !outcome.isDone {
            guard let next = [bus.nextDue?.microseconds, time.nextDue].compactMap({ $0 }).min()
            else { break }
            move(to: max(next, time.now))
        }
        if let failure = outcome.failure { failures.append(failure) }
    }

    private func lookAtHealthEveryMinute() {
        at(time.now + DayScript.minute) { day in
            day.perform { gateway, _ in try await gateway.lookAtHealth() }
            day.lookAtHealthEveryMinute()
        }
    }

    // MARK: Troubles

    private func begin(_ trouble: DayScript.Trouble) {
        let subject = trouble.subject ?? ""
        switch trouble.kind {
        case .busy:
            let fault = DBusFault(name: "org.bluez.Error.InProgress", text: "In Progress")
            bus.inject(ScriptedFault("Connect", of: subject, times: 3, .error(fault)))
            bus.inject(ScriptedFault("StartDiscovery", times: 2, .error(fault)))
            bus.drop(subject)
        case .aborted:
            let fault = DBusFault(
                name: "org.bluez.Error.Failed", text: "le-connection-abort-by-local")
            bus.inject(ScriptedFault("Connect", of: subject, times: 2, .error(fault)))
            bus.inject(ScriptedFault("Connect", of: subject, times: 1, .errorThough(fault)))
            bus.drop(subject)
        case .bluetoothdRestart: bus.setDaemon(running: false)
        case .busRestart: bus.setBus(isUp: false)
        case .fixedAge: leaveAgain(subject, until: trouble.end)
        case .doubled: bus.setNoise(subject, FrameNoise(framesPerDuplicate: 1))
        case .mute: bus.setMute(subject, true)
        case .deaf:
            bus.deafen(subject)
            // Otherwise there is no listener.
            for strap in straps.prefix(2) { bus.setOnAir(strap, false) }
        case .resolvedEarly:
            bus.setHabits { $0.resolvesEarly = true }
            for strap in straps { bus.drop(strap) }
        case .emptyFrames: bus.setNoise(subject, FrameNoise(framesPerEmpty: 2))
        case .malformedFrames: bus.setNoise(subject, FrameNoise(framesPerMalformed: 3))
        case .connectedElsewhere: bus.setConnectedElsewhere(subject, true)
        case .unplugged: bus.setPlugged(subject, false)
        case .linkLosses: loseLinks(subject, until: trouble.end)
        case .noContact:
            let off = StrapStyle(contact: .supported(lostSeconds: [0..<Int.max]))
            bus.setStyle(subject, off)
        case .hung:
            for member in ["Connect", "StartNotify", "StartDiscovery", "GetAll"] {
                bus.inject(ScriptedFault(member, times: nil, .hang))
            }
            for strap in straps.suffix(3) { bus.drop(strap) }
        case .stopped: bus.setFrozen(true)
        case .poweredOff: bus.setPowered(subject, false)
        case .outOfRange: bus.setOnAir(subject, false)
        case .vanishing:
            bus.setHabits { $0.vanishesOnDrop = 1 }
            for strap in straps { bus.drop(strap) }
        case .wallClockWrong: clock.setStep(-86_400_000_000)
        case .gatewayOff: perform { gateway, _ in try await gateway.stop() }
        }
    }

    private func end(_ trouble: DayScript.Trouble) {
        let subject = trouble.subject ?? ""
        switch trouble.kind {
        case .busy, .aborted, .linkLosses, .fixedAge: break
        case .bluetoothdRestart: bus.setDaemon(running: true)
        case .busRestart: bus.setBus(isUp: true)
        case .doubled, .emptyFrames, .malformedFrames: bus.setNoise(subject, .none)
        case .mute: bus.setMute(subject, false)
        case .deaf: for strap in straps.prefix(2) { bus.setOnAir(strap, true) }
        case .resolvedEarly: bus.setHabits { $0.resolvesEarly = false }
        case .connectedElsewhere: bus.setConnectedElsewhere(subject, false)
        case .unplugged: bus.setPlugged(subject, true, index: subject == Self.adapters[0] ? 0 : 4)
        case .noContact: bus.setStyle(subject, .chest)
        case .hung: bus.clearFaults()
        case .stopped: bus.setFrozen(false)
        case .poweredOff: bus.setPowered(subject, true)
        case .outOfRange: bus.setOnAir(subject, true)
        case .vanishing: bus.setHabits { $0.vanishesOnDrop = 0 }
        case .wallClockWrong: clock.setStep(0)
        case .gatewayOff: perform { gateway, straps in try await gateway.start(straps: straps) }
        }
    }

    /// A strap that leaves 150 s after each subscription.
    private func leaveAgain(_ strap: String, until end: Int64) {
        let age: Int64 = 150_000_000
        guard time.now + age < end else { return }
        at(time.now + age) { day in
            day.bus.drop(strap)
            day.leaveAgain(strap, until: end)
        }
    }

    private func loseLinks(_ strap: String, until end: Int64) {
        bus.drop(strap)
        let pause: Int64 = 25_000_000
        guard time.now + pause < end else { return }
        at(time.now + pause) { $0.loseLinks(strap, until: end) }
    }
}

/// What went wrong with the simulation itself.
struct DayFault: Error, CustomStringConvertible {
    let description: String
}
