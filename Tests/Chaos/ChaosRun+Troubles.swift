import Basics
import Testbed

extension ChaosRun {
    /// A trouble begins or ends.
    func perform(_ trouble: ChaosScript.Trouble, begins: Bool) async throws {
        let choice = trouble.choice
        let strap = TestWorld.addresses[Int(choice % UInt64(TestWorld.addresses.count))]
        let patient = Self.patients[Int(choice % 2)]
        switch (trouble.kind, begins) {
        case (.networkCut, _): setNetwork(isCut: begins)
        case (.exchangeFault, true): await injectFault(choice, trouble.end - trouble.begin)
        case (.consentWithdrawn, true): await exchange.withdrawConsent(patient: patient)
        case (.consentWithdrawn, false): await exchange.grantConsent(patient: patient)
        case (.tokenExpired, true): await exchange.expireAccessTokens()
        case (.refreshLost, true):
            await exchange.inject(.lostAnswer, on: [.token])
            await exchange.expireAccessTokens()
        case (.kill, true): try await killAndStart()
        case (.reboot, true):
            clock.loseWall(by: Self.wrong(choice))
            try await killAndStart(reboots: true)
        case (.reboot, false): clock.regainWall()
        case (.diskFull, true):
            log.diskFilled()
            try await disk?.fill()
        case (.diskFull, false):
            disk?.free()
            log.diskFreed()
        case (.clockStep, true):
            let most = ChaosScript.stepMax.microseconds
            clock.step(by: .microseconds(Int64(choice % UInt64(2 * most)) - most))
        case (.clockWrong, true): clock.loseWall(by: Self.wrong(choice))
        case (.clockWrong, false): clock.regainWall()
        case (.strapAway, true):
            log.broke()
            await bluez.setOnAir(strap, false)
        case (.strapAway, false): await bluez.setOnAir(strap, true)
        case (.linkLost, true):
            log.broke()
            await bluez.drop(strap)
        case (.handOver, true): try await handOver(to: Int(choice % 2))
        case (.bluetoothdRestart, true):
            log.broke()
            try await bluez.setDaemon(running: false)
        case (.bluetoothdRestart, false): try await bluez.setDaemon(running: true)
        case (.busRestart, true):
            log.broke()
            await bus.halt()
        case (.busRestart, false): try await bus.restart()
        default: break
        }
    }

    /// New connections are refused, and those under way break.
    private func setNetwork(isCut: Bool) {
        proxy.setCut(isCut)
        clock.lead(port: exchange.port, to: isCut ? Self.deadPort : Int(proxy.socketPath) ?? 0)
    }

    /// "discard", where no server has listened for decades.
    private static let deadPort = 9

    private func injectFault(_ choice: UInt64, _ seconds: Double) async {
        let (fault, isLasting) = ChaosScript.fault(choice: choice)
        await exchange.inject(
            fault,
            for: isLasting
                ? .duration(.seconds(seconds)) : .requests(1 + Int(choice >> 40 % 3)))
    }

    /// A clock that was never set: 1970 or so, hours late, days early.
    private static func wrong(_ choice: UInt64) -> Duration {
        let hour = Duration.seconds(3_600)
        let choices = [
            hour * (-56 * 365 * 24), hour * -3, hour * -2 / 60, hour / 2, hour * (90 * 24),
        ]
        return choices[Int(choice % UInt64(choices.count))]
    }

    /// How long what has been mended may take until everything is delivered, in seconds.
    private static let drainSecondsMax = 3600.0

    /// Plays the script from its beginning to its end, in the world's time.
    func play(_ script: ChaosScript, hours: Double, _ store: inout ChaosStore) async throws {
        var edges: [(at: Double, trouble: ChaosScript.Trouble, begins: Bool)] = []
        for trouble in script.troubles {
            edges.append((trouble.begin, trouble, true))
            edges.append((trouble.end, trouble, false))
        }
        edges.sort { $0.at < $1.at }
        proxy.setCalm(false)
        var nextVisit = 1800.0
        for edge in edges {
            await clock.sleep(until: edge.at)
            if !(await gateway.isRunning) {
                log.endedByItself(gateway.logTail(lines: 5))
                try await restart()
            }
            if edge.begins { log.note("\(edge.trouble.kind) for \(edge.trouble.end - edge.at) s") }
            try await perform(edge.trouble, begins: edge.begins)
            if clock.seconds > nextVisit {
                nextVisit = clock.seconds + 1800
                try await enrollAgain()
                try store.read()
            }
        }
        await clock.sleep(until: hours * 3600 - ChaosScript.quiet)
    }

    /// Mends everything that may still be broken, and waits until everything has been delivered that
    /// can be.
    func mendAndDrain(_ store: inout ChaosStore) async throws -> GatewayStatus {
        straps.stop()
        proxy.setCalm(true)
        await exchange.clearFaults()
        setNetwork(isCut: false)
        for patient in Self.patients { await exchange.grantConsent(patient: patient) }
        disk?.free()
        try await restartIfDead()
        log.note("mended")
        let begin = clock.seconds
        var last = try await gateway.status()
        while clock.seconds - begin < Self.drainSecondsMax {
            try await enrollAgain()
            last = try await gateway.status()
            let clockless = try store.clockless()
            if last.balance.buffered == 0, last.balance.unsent == clockless { break }
            try await world.pass(seconds: 20)
        }
        log.note("drained after \(clock.seconds - begin) s")
        try store.read()
        await proxy.settle()
        return last
    }

    private func restartIfDead() async throws {
        if !(await gateway.isRunning) { try await restart() }
    }
}
