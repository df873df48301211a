import Basics
import BlueZ
import FaultyDisk
import Testbed
import VirtualTime

@testable import EdgeGateway

/// What goes wrong in a world, and how that ends.
extension World {
    func begin(_ fault: Fault) {
        trace.note(
            "fault \(fault.kind.rawValue) strap \(fault.strap) for \(fault.length / 1000) ms")
        let strap = People.address(fault.strap)
        func until(_ body: @escaping (World) -> Void) {
            at(time.now + fault.length) { if !$0.isCalm { body($0) } }
        }
        trace.count("fault \(fault.kind.rawValue)")
        switch fault.kind {
        case .kill:
            let points = Reach.killTurns
            if fault.choice % 5 == 0 {
                killing.set(afterJobs: 1 + fault.choice % 5_000, pause: fault.length)
            } else {
                let point = points[fault.turn % points.count]
                trace.note("to be killed at \(point)")
                let occasion = Reach.occasion(of: point, fault.choice / 1000)
                killing.set(point: point, pause: fault.length)
                switch occasion {
                case .command(let command): give(command, seed: UInt64(fault.choice))
                case .restart: stop(for: fault.length)
                case .silence:
                    for strap in 0..<Script.straps {
                        bus.setOnAir(People.address(strap), false)
                        at(time.now + Self.stepPatience) { world in
                            world.bus.setOnAir(People.address(strap), true)
                        }
                    }
                case nil: break
                }
                // Not every world reaches the step: then the kill takes place without it.
                let number = lives
                at(time.now + Self.stepPatience) { world in
                    guard world.lives == number, !world.isCalm else { return }
                    world.killing.clear()
                    world.killing.set(afterJobs: 1 + fault.choice % 5_000, pause: fault.length)
                }
            }
        case .restart: stop(for: fault.length)
        case .linkLost: bus.drop(strap)
        case .outOfRange:
            bus.setOnAir(strap, false)
            until { $0.bus.setOnAir(strap, true) }
        case .comesAndGoes:
            for begin in stride(from: 0, to: fault.length, by: Int(52 * Self.second)) {
                at(time.now + begin) { if !$0.isCalm { $0.bus.setOnAir(strap, false) } }
                at(time.now + begin + 40 * Self.second) {
                    if !$0.isCalm { $0.bus.setOnAir(strap, true) }
                }
            }
        case .leaves:
            for begin in stride(from: 0, to: fault.length, by: Int(15 * Self.second)) {
                at(time.now + begin) { if !$0.isCalm { $0.bus.drop(strap) } }
            }
        case .connectRefused:
            let one = [
                ScriptedFault("Connect", of: strap, times: nil, .error(BlueZFault.abortByLocal)),
                ScriptedFault(
                    "Connect", of: strap, times: nil,
                    .error(BlueZFault.failed("br-connection-profile-unavailable"))),
                ScriptedFault(
                    "StartNotify", of: strap, times: nil, .error(BlueZFault.notifyAcquired)),
            ][fault.choice % 3]
            bus.inject(one)
            bus.drop(strap)
            until { $0.bus.end(one) }
        case .bondForgotten:
            bus.forgetBonds(strap)
            bus.drop(strap)
        case .otherAddress:
            bus.setOnAir(strap, false)
            bus.setOnAir(Self.twin(of: fault.strap), true)
            until {
                $0.bus.setOnAir(strap, true)
                $0.bus.setOnAir(Self.twin(of: fault.strap), false)
            }
        case .offTheSkin:
            var style = Self.style
            style.contact = .supported(lostSeconds: [0..<1_000_000])
            bus.setStyle(strap, style)
            offTheSkin[fault.strap].append((time.now, time.now + fault.length))
            until { $0.bus.setStyle(strap, Self.style) }
        case .doubled:
            bus.setNoise(strap, FrameNoise(framesPerDuplicate: 1))
            until { $0.bus.setNoise(strap, .none) }
        case .mute:
            bus.setMute(strap, true)
            until { $0.bus.setMute(strap, false) }
        case .takenByPhone:
            bus.setConnectedElsewhere(strap, true)
            until { $0.bus.setConnectedElsewhere(strap, false) }
        case .batteryLow:
            bus.setBattery(strap, 4)
            until { $0.bus.setBattery(strap, 90) }
        case .adapterOff:
            bus.setPowered(Self.adapter, false)
            until { $0.bus.setPowered(Self.adapter, true) }
        case .adapterUnplugged:
            bus.setPlugged(Self.adapter, false)
            until { $0.bus.setPlugged(Self.adapter, true) }
        case .adapterDeaf:
            bus.deafen(Self.adapter)
            isDeaf = true
        case .bluetoothdRestart, .busGone:
            let begin = holding.values.reduce(time.now) { min($0, $1) }
            losses.append(
                Truth.Loss(from: begin - 6 * Self.second, until: time.now + Self.second, strap: nil)
            )
            if fault.kind == .busGone {
                bus.setBus(isUp: false)
                until { $0.bus.setBus(isUp: true) }
            } else {
                bus.setDaemon(running: false)
                until { $0.bus.setDaemon(running: true) }
            }
        case .bluetoothdRefuses:
            let denied = DBusFault(name: DBusFault.accessDenied)
            let all = [
                "GetManagedObjects", "Connect", "StartNotify", "StartDiscovery", "StopDiscovery",
                "SetDiscoveryFilter", "Get", "GetAll", "Set",
            ].map { ScriptedFault($0, times: nil, .error(denied)) }
            for one in all { bus.inject(one) }
            bus.drop(strap)
            until { world in for one in all { world.bus.end(one) } }
        case .hung:
            hold(.hung, for: fault)
            bus.setFrozen(true)
            if frozen == nil { frozen = (time.now, lives) }
            until { $0.thaw() }
        case .networkCut:
            network.setCut(true)
            until { $0.network.setCut(false) }
        case .connectionsReset: network.reset()
        case .exchangeFault, .exchangeAnswerLost, .exchangeSlow:
            let faults: [ExchangeFault] =
                switch fault.kind {
                case .exchangeFault:
                    [
                        .status(503), .status(429, retryAfterSeconds: 7), .hangUp, .silence,
                        .databaseDown, .databaseReadOnly, .databaseLost(afterEntries: 2),
                        .workerKilled(afterEntries: 3),
                    ]
                case .exchangeAnswerLost:
                    [
                        .lostAnswer, .cutAnswer, .truncatedAnswer, .notJSONAnswer,
                        .miscountedAnswer(by: 1), .miscountedAnswer(by: -1),
                        .slowAnswer(.seconds(70)), .workerKilled(afterEntries: 1, answers: false),
                    ]
                // A worker has 30 s.
                default: [.slow(.seconds(5 + fault.choice % 24))]
                }
            let one = faults[fault.choice % faults.count]
            trace.note("the exchange: \(one)")
            let exchange = exchange
            let span = fault.length
            Task(executorPreference: VirtualExecutors.world) {
                await exchange.inject(one, for: .duration(.microseconds(span)))
            }
        case .consentWithdrawn:
            let exchange = exchange
            let patient = ExchangeSeed.patient(fault.choice % Script.patients)
            Task(executorPreference: VirtualExecutors.world) { [time] in
                await exchange.withdrawConsent(patient: patient)
                await time.sleep(.microseconds(fault.length), isOfGateway: false)
                await exchange.grantConsent(patient: patient)
            }
        case .patientMoved:
            let exchange = exchange
            let patient = ExchangeSeed.patient(fault.choice % Script.patients)
            let length = fault.length
            Task(executorPreference: VirtualExecutors.world) { [time] in
                await exchange.movePatient(patient, to: World.foreignOrganization)
                await time.sleep(.microseconds(length), isOfGateway: false)
                await exchange.movePatient(patient, to: World.organization)
            }
        case .tokensRevoked:
            areTokensRevoked = true
            let exchange = exchange
            Task(executorPreference: VirtualExecutors.world) {
                await exchange.revokeTokens()
                // The gateway keeps its invitation, and would get new tokens with it.
                for patient in 0..<Script.patients {
                    await exchange.cancelInvitations(patient: ExchangeSeed.patient(patient))
                }
            }
        case .sampleRefused:
            let samples = (try? KeptSample.all(in: state)) ?? [:]
            let waiting = samples.filter { $0.value.fate == .waiting }.keys.sorted()
            guard !waiting.isEmpty else { return }
            let exchange = exchange
            let identity = waiting[fault.choice % waiting.count]
            Task(executorPreference: VirtualExecutors.world) { await exchange.refuse(identity) }
        case .diskFull: spoil(FAULTY_DISK_FULL, fault)
        case .diskErrors: spoil(FAULTY_DISK_IO, fault)
        case .diskReadOnly: spoil(FAULTY_DISK_READ_ONLY, fault)
        case .clockStep:
            // Most are what a trusted clock may be wrong by. A small store forgets what has arrived, and then only
            // its time says which frame it was.
            let isLarge = fault.choice % 5 == 0 && storeMax == nil
            let step = Int64(fault.choice % 800 - 400) * (isLarge ? 100_000 : 1_000)
            if clock.read().isTrusted {
                clock.setStep(step)
                stepMax = max(stepMax, abs(step))
            } else {
                clock.setStep(step * 1_000)
            }
        case .reboot:
            killing.set(afterJobs: 0, pause: fault.length)
            boots += 1
            bus.setDaemon(running: false)
            until { $0.bus.setDaemon(running: true) }
            let isTrusted = fault.choice % 3 > 0
            clock.setTrusted(isTrusted)
            clock.setStep(isTrusted ? 0 : Self.withoutBattery)
        }
    }

    /// bluetoothd goes on. A gateway that began meanwhile cannot know when the frames were sent that waited.
    private func thaw() {
        bus.setFrozen(false)
        if let frozen, frozen.lives != lives {
            losses.append(
                Truth.Loss(
                    from: frozen.since - Self.second, until: time.now + Self.second, strap: nil))
        }
        frozen = nil
    }

    private func hold(_ kind: Fault.Kind, for fault: Fault) {
        // What one has held back the next one holds as well.
        if holding[kind] == nil { holding[kind] = holding.values.min() ?? time.now }
        let number = actions
        // What waited is on its way for a while.
        at(time.now + fault.length + 15 * Self.second) { world in
            if world.holdEnds[kind] ?? 0 <= number { world.holding[kind] = nil }
        }
        holdEnds[kind] = actions - 1
    }

    private func spoil(_ kind: Int, _ fault: Fault) {
        hold(fault.kind, for: fault)
        let perThousand: Int32 = [1_000, 300, 50][fault.choice % 3]
        faulty_disk_set(disk, Int32(kind), perThousand)
        at(time.now + fault.length) { world in faulty_disk_set(world.disk, 0, 0) }
    }

    /// Removes all causes.
    func calm() {
        trace.note("CALM")
        isCalm = true
        faulty_disk_set(disk, 0, 0)
        clock.setStep(0)
        clock.setTrusted(true)
        network.setCut(false)
        bus.clearFaults()
        thaw()
        bus.setBus(isUp: true)
        bus.setDaemon(running: true)
        bus.setPlugged(Self.adapter, true)
        // Powered on again, it hears.
        if isDeaf { bus.setPowered(Self.adapter, false) }
        bus.setPowered(Self.adapter, true)
        for strap in 0..<Script.straps {
            bus.setOnAir(People.address(strap), true)
            bus.setMute(People.address(strap), false)
            bus.setConnectedElsewhere(People.address(strap), false)
            bus.setStyle(People.address(strap), Self.style)
            bus.setNoise(People.address(strap), .none)
            bus.setOnAir(Self.twin(of: strap), false)
        }
        let exchange = exchange
        perform(isOfGateway: false) {
            await exchange.clearFaults()
            for patient in 0..<Script.patients {
                await exchange.grantConsent(patient: ExchangeSeed.patient(patient))
                await exchange.movePatient(ExchangeSeed.patient(patient), to: Self.organization)
            }
        }
        killing.clear()
        if life == nil { at(time.now + Self.second) { $0.start() } }
    }
}
