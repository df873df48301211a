import Foundation
import Testbed

/// `make demo`: the gateway's main job on simulated straps and a stand-in exchange, and with
/// `DESTINATIONS=KIND,…` on real systems beside it.
///
/// The product is the real `edge-gateway` binary, driven only by its commands, on a real
/// dbus-daemon. Exits with 0 only if the balance agrees with the own counts of the exchange and of
/// each system. On a terminal the live page stays open after the verdict, until somebody ends it.
@main
struct Demo {
    /// The network is away during this part of the demo.
    static let cut = 0.35...0.6
    /// How long the backlog may take to drain at the end: a request that was under way when the
    /// network went is sent again 30 s later, not before (docs/develop/exchange.md).
    static let drainSecondsMax = 60
    /// The port of the live page that the documentation names.
    private static let pagePort: UInt16 = 8470
    static let samplesPerSecondOfStatus = Duration.milliseconds(500)
    /// Longest time the daemon may take to leave.
    private static let stopMillisecondsMax = 5000
    /// A shell's exit code for a program that a signal ended, without the signal's number.
    private static let endedBySignal: Int32 = 128

    static func main() async {
        signal(SIGPIPE, SIG_IGN)
        guard CommandLine.argc == 1 else {
            complain("takes no arguments; DEMO_SECONDS=60 and DESTINATIONS=KIND,… say what it does")
            exit(2)
        }
        let environment = ProcessInfo.processInfo.environment
        let seconds = environment["DEMO_SECONDS"].flatMap(Int.init) ?? 60
        guard (5...86400).contains(seconds) else {
            complain("DEMO_SECONDS takes 5 to 86400")
            exit(2)
        }
        let kinds: [SystemKind]
        do {
            kinds = try SystemKind.list(environment["DESTINATIONS"])
        } catch {
            complain("DESTINATIONS: \(error)")
            exit(2)
        }
        let demo = Task { try await run(seconds: seconds, kinds: kinds) }
        let interruption = Interruption { demo.cancel() }
        do {
            exit(try await demo.value ? 0 : 1)
        } catch {
            if let signal = interruption.signal {
                complain("ended by signal \(signal)")
                exit(endedBySignal + signal)
            }
            complain("\(error)")
            exit(1)
        }
    }

    /// Tells what follows, and how long it takes.
    private static func plan(_ world: DemoWorld, seconds: Int, staysOpen: Bool) -> String {
        var steps = [
            "The real gateway is set up, then it records and delivers heartbeats for \(seconds) s.",
            "In the end everything that was recorded is delivered, and the counts are compared:",
            "half a minute more, or a minute.",
        ]
        if world.exchange != nil {
            let (from, until) = (cut.lowerBound * Double(seconds), cut.upperBound * Double(seconds))
            steps.insert("The network is cut from \(Int(from)) s to \(Int(until)) s.", at: 1)
        }
        if staysOpen { steps.append("The live page then stays open until you press Ctrl-C.") }
        return steps.joined(separator: "\n") + "\n"
    }

    /// Runs the demo; whatever happens, what it started is ended.
    private static func run(seconds: Int, kinds: [SystemKind]) async throws -> Bool {
        var view = DemoView()
        // A world that is half made could not be ended.
        let world = try await Task {
            try await DemoWorld.start(environment: ProcessInfo.processInfo.environment)
        }.value
        let systems = DemoDestinations()
        let outcome: Result<Bool, any Error>
        do {
            try await systems.start(kinds)
            outcome = .success(try await run(world, systems, seconds: seconds, view: &view))
        } catch {
            outcome = .failure(error)
        }
        // Not cancelled with the demo: waiting for the end of a program takes a task that can wait.
        await Task {
            await systems.stop()
            await world.stop()
        }.value
        return try outcome.get()
    }

    private static func run(
        _ world: DemoWorld, _ systems: DemoDestinations, seconds: Int, view: inout DemoView
    ) async throws -> Bool {
        var settings = [
            "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "2",
            "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "1",
        ]
        let page = FreePort.near(pagePort).map { "127.0.0.1:\($0)" }
        settings["EDGE_GATEWAY_PAGE_LISTEN"] = page
        // Real straps were forgotten by then.
        let staysOpen = view.isTerminal && page != nil && world.bluez != nil
        view.say(plan(world, seconds: seconds, staysOpen: staysOpen))
        if let page { view.say("live page: http://\(page)/ while this runs") }
        let gateway = try GatewayProcess(busAddress: world.bus?.address, settings: settings)
        do {
            let agrees = try await play(world, systems, gateway, seconds: seconds, view: &view)
            if staysOpen, let page { await stayOpen(world, page, view: &view) }
            let left = await end(gateway, view: &view)
            await gateway.remove()
            return agrees && left
        } catch {
            if !Task.isCancelled { complain("the gateway's log ends:\n\(gateway.logTail())") }
            await Task {
                // It would finish what it does, such as a pairing, and somebody waits for the demo's end.
                await gateway.kill()
                await gateway.remove()
            }.value
            throw error
        }
    }

    private static func play(
        _ world: DemoWorld, _ systems: DemoDestinations, _ gateway: GatewayProcess, seconds: Int,
        view: inout DemoView
    ) async throws -> Bool {
        view.say(world.description)
        let beside = await systems.all
        if !beside.isEmpty { view.say(await systems.description) }
        try await gateway.start()
        for system in beside {
            let words = ["destination", "add", system.kind] + system.settingWords
            let resolution = system.resolution.map { ["--resolution", $0] } ?? []
            try await run(gateway, words + resolution + ["--every-strap"], view: &view)
        }
        for (enrollment, link) in world.links {
            try await run(gateway, ["enroll", "-", "--name", enrollment], input: link, view: &view)
        }
        try await run(gateway, ["scan", "--for", "2s"], view: &view)
        for patient in world.patients {
            let words = ["--enrollment", patient.enrollment, "--name", patient.name]
            try await run(gateway, ["pair", patient.address] + words, view: &view)
        }
        try await watch(world, systems, gateway, seconds: seconds, view: &view)
        // The straps fall silent, so that the counts can be compared.
        if let bluez = world.bluez {
            await bluez.setSendsFrames(false)
        } else {
            // Real straps cannot be told to; no longer recording them does as well.
            for patient in world.patients {
                try await run(gateway, ["forget", patient.address], view: &view)
            }
        }
        let status = try await drain(systems, gateway, seconds: seconds, view: &view)
        let books = try await systems.books(status)
        return await Judgement(world: world, status: status, books: books).print(on: &view)
    }

    /// Lets the straps send again, for somebody who looks at the page, until a signal.
    private static func stayOpen(_ world: DemoWorld, _ page: String, view: inout DemoView) async {
        await world.bluez?.setSendsFrames(true)
        view.say(
            "\nThe live page stays open until you press Ctrl-C: open it in a browser.\nhttp://\(page)/"
        )
        while !Task.isCancelled { try? await Task.sleep(for: .seconds(3600)) }
    }

    /// Ends the daemon as a service manager does.
    ///
    /// - Returns: whether it left in time.
    private static func end(_ gateway: GatewayProcess, view: inout DemoView) async -> Bool {
        // Waiting for the end of a program takes a task that can wait.
        let stop = await Task { await gateway.stop() }.value
        view.say("SIGTERM: left with \(stop.status) after \(milliseconds(stop.took)) ms")
        let inTime = stop.status == 0 && milliseconds(stop.took) < stopMillisecondsMax
        if !inTime { view.say("DISAGREES: the daemon did not leave in time") }
        return inTime
    }

    /// Shows the gateway for `seconds`, cutting the network for a while.
    private static func watch(
        _ world: DemoWorld, _ systems: DemoDestinations, _ gateway: GatewayProcess, seconds: Int,
        view: inout DemoView
    ) async throws {
        let clock = ContinuousClock()
        let began = clock.now
        var isCut = false
        while clock.now < began + .seconds(seconds) {
            let passed = milliseconds(clock.now - began)
            let shouldBeCut = cut.contains(Double(passed) / Double(seconds * 1000))
            if let exchange = world.exchange, shouldBeCut != isCut {
                isCut = shouldBeCut
                if isCut {
                    await exchange.cutNetwork()
                } else {
                    try await exchange.restoreNetwork()
                }
            }
            let status = try await gateway.status()
            view.show(
                status, try await systems.books(status), second: passed / 1000, of: seconds,
                isCut: isCut)
            try await Task.sleep(for: samplesPerSecondOfStatus)
        }
        if isCut { try await world.exchange?.restoreNetwork() }
    }

    /// Waits until nothing is unsent, for the exchange and for each system.
    private static func drain(
        _ systems: DemoDestinations, _ gateway: GatewayProcess, seconds: Int, view: inout DemoView
    ) async throws -> GatewayStatus {
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(drainSecondsMax)
        while true {
            let status = try await gateway.status()
            view.show(
                status, try await systems.books(status), second: seconds, of: seconds, isCut: false)
            let done =
                status.balance.unsent == 0 && status.balance.buffered == 0
                && status.destinations.allSatisfy { $0.pending == 0 }
            if done || clock.now > deadline { return status }
            try await Task.sleep(for: samplesPerSecondOfStatus)
        }
    }

    private static func run(
        _ gateway: GatewayProcess, _ words: [String], input: String = "", view: inout DemoView
    ) async throws {
        view.say("$ edge-gateway " + words.joined(separator: " "))
        let outcome = try await gateway.command(words, input: input)
        for line in outcome.output.split(separator: "\n") { view.say("  \(line)") }
        guard outcome.status == 0 else {
            throw GatewayProcess.Fault(
                description: "left with \(outcome.status): \(outcome.complaint)")
        }
    }

    static func milliseconds(_ duration: Duration) -> Int {
        Int(duration.components.seconds) * 1000
            + Int(duration.components.attoseconds / 1_000_000_000_000_000)
    }

    private static func complain(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data("gateway-demo: \(text)\n".utf8))
    }
}
