import Basics
import BlueZ
import FaultyDisk
import Foundation
import GATTHeartRate
import Synchronization
import Testbed
import VirtualTime

@testable import EdgeGateway
@testable import OfflineQueue

/// What the judge found, of a kind by which a shortened script fails in the same way.
struct Finding: Hashable, CustomStringConvertible {
    var kind: String
    var words: String
    var description: String { "\(kind): \(words)" }
}

/// One world: the gateway, its people and all around it, from a script to a judgement.
final class World {
    static let second: Int64 = 1_000_000
    /// How long a kill waits for its step.
    static let stepPatience = 150 * second
    static let adapter = "00:1A:7D:DA:71:01"
    /// A clock without a battery begins here, µs from the right time.
    static let withoutBattery = -90_000 * second
    /// An empty one takes 48 KiB, and most take 50 to 100 in the end.
    static let smallStore: ClosedRange<Int64> = 50_000...70_000
    /// Of the patients, and one that the practitioner's key may not serve.
    static let organization = 20_002
    static let foreignOrganization = 20_003
    /// The energy counts seconds, so that no two frames are alike.
    static let style = StrapStyle(framesPerEnergy: 1, kilojoulesPerMinute: 60)
    /// How long a command may take: pairing has 45 s, and waits for others that pair.
    private static let patience: Int64 = 240 * second
    /// A world has several renewals of each enrollment's tokens.
    private static let tokenSeconds = 240
    /// What a kill may cost: what bluetoothd's messages gather in, and the age of a commit.
    static let killCost: Int64 = 12 * second
    private static let worlds = Mutex(0)
    private static let isDiskRegistered = faulty_disk_register() == 0

    let script: Script
    let trace: Trace
    let clock: VirtualWallClock
    let bus: MemoryBus
    let network: Network
    let exchange: StandInExchange
    /// The most bytes that the store may take, where it is small.
    let storeMax: Int64?
    /// The adapter was deaf; perhaps it still is.
    var isDeaf = false
    let folder: URL
    var state: URL { folder.appending(path: "state") }
    let disk: Int32
    let time = VirtualExecutors.time
    private var random: SeededRandom

    private(set) var given: [GivenCommand] = []
    var losses: [Truth.Loss] = []
    /// What the store had before a command removed some of it, by its identity.
    private(set) var stored: [String: KeptSample] = [:]
    private(set) var findings: [Finding] = []
    /// When a strap sent frames without a rate, by its number.
    var offTheSkin = Array(repeating: [(from: Int64, until: Int64)](), count: Script.straps)
    /// By how much the clock was wrong at most while the kernel trusted it, µs.
    var stepMax: Int64 = 0
    /// Since when bluetoothd hangs, and which gateway ran then.
    var frozen: (since: Int64, lives: Int)?
    var holdEnds: [Fault.Kind: Int] = [:]
    var boots = 0
    /// The exchange has taken tokens back: people enroll again in the end.
    var areTokensRevoked = false
    /// Every look at status: when, and what it said.
    private(set) var looks: [Look] = []

    struct Look {
        var at: Int64
        var started: Int64
        var items: [HealthItem]
        /// By address.
        var straps: [String: SensorReport]
        /// By name, those that are not paused: what waits, and what has arrived.
        var deliveries: [String: (pending: Int, delivered: Int)]
    }

    private var agenda: [(due: Int64, number: Int, action: (World) -> Void)] = []
    var actions = 0
    /// The gateway that answers; nil while there is none.
    var life: SimulatedGateway?
    private var startedAt: Int64 = 0
    private var isStopping = false
    private var isStarting = false
    var lives = 0
    /// The dead, whose memory is gone as far as the living can tell.
    private static let graveyard = Mutex<[SimulatedGateway]>([])
    private var executors: [VirtualExecutor] = []
    /// When faults began that hold frames back which a kill then loses.
    var holding: [Fault.Kind: Int64] = [:]
    var isCalm = false

    let killing: KillPlan
    private var starting: SimulatedGateway?
    private let news = Box([News]())

    /// What tasks of the gateway's tell.
    private enum News: Sendable {
        case started(Int)
        case failed(Int, String)
        case stopped(Int, String?, since: Int64, pause: Int64)
        case looked(StatusReport, at: Int64, started: Int64)
    }

    init(_ script: Script, isLoud: Bool, in parent: URL) throws {
        precondition(Self.isDiskRegistered)
        self.script = script
        time.reset()
        let trace = Trace(isLoud: isLoud)
        self.trace = trace
        random = SeededRandom(seed: script.seed)
        // SQLite goes by inodes: no other world of the process had these.
        let number = Self.worlds.withLock { worlds in
            worlds += 1
            return worlds
        }
        folder = parent.appending(path: "w\(number)")
        for name in ["state", "run"] {
            try FileManager.default.createDirectory(
                at: folder.appending(path: name), withIntermediateDirectories: true)
        }
        killing = KillPlan(folder: folder)
        disk = faulty_disk_arm(folder.path, script.seed)
        // Where it is not, nothing is delivered until the end.
        let isTrusted = Int.random(in: 0..<4, using: &random) > 0
        clock = VirtualWallClock(isTrusted: isTrusted)
        if !isTrusted { clock.setStep(Self.withoutBattery) }
        // Some bond with whom they send to, and some adapters carry fewer links than there are straps.
        let bonding = Int.random(in: 0..<(2 * Script.straps), using: &random)
        let linksMax = [1, 2, 7, 7, 7, 7, 7, 7].randomElement(using: &random) ?? 7
        var straps = try (0..<Script.straps).map { strap in
            // Each has rates of its own, and another one in each second.
            let rates = (0..<30).map { 50 + strap * 40 + ($0 < 15 ? $0 * 2 : 58 - $0 * 2) }
            var simulated = SimulatedStrap(
                address: People.address(strap), name: "Strap \(strap)",
                heart: try RecordedHeart(intervals: rates.map { 60_000 / $0 }),
                style: Self.style)
            simulated.battery = 90
            if strap == bonding { simulated.security = .encrypted }
            return simulated
        }
        straps += straps.enumerated().map { number, strap in
            var twin = strap
            twin.address = Self.twin(of: number)
            twin.isOnAir = false
            return twin
        }
        storeMax =
            Int.random(in: 0..<12, using: &random) == 0
            ? .random(in: Self.smallStore, using: &random) : nil
        bus = MemoryBus(
            adapters: [SimulatedAdapter(address: Self.adapter, index: 0, linksMax: linksMax)],
            straps: straps, seed: script.seed)
        exchange = StandInExchange.inProcess(
            seed: .withPatients(Script.patients),
            time: ExchangeTime(
                now: {
                    Date(
                        timeIntervalSince1970: Double(
                            VirtualWallClock.origin + VirtualExecutors.time.now) / 1_000_000)
                },
                sleep: { await VirtualExecutors.time.sleep($0, isOfGateway: false) }),
            randomSeed: script.seed)
        network = Network(exchange: exchange, seed: script.seed, trace: trace)
        perform(isOfGateway: false) { [exchange] in
            await exchange.setTokenLifetime(seconds: Self.tokenSeconds)
        }
        KillSwitch.observer.withLock { observer in
            observer = KillSwitch.Observer { [killing] step in killing.reach(step) }
        }
    }

    /// The address under which a strap with the same name is.
    static func twin(of strap: Int) -> String { "C0:00:00:00:01:0\(strap + 1)" }

    // MARK: - The course

    func run() throws {
        defer { end() }
        start()
        for event in script.events {
            at(event.at) { world in
                switch event.what {
                case .command(let command): world.give(command, seed: event.seed)
                case .fault(let fault): world.begin(fault)
                }
            }
        }
        lookAgain()
        live(until: script.calmAt)
        calm()
        live(until: time.now + 150 * Self.second)
        for strap in 0..<Script.straps { bus.setOnAir(People.address(strap), false) }
        try drain()
        try judge()
    }

    private func live(until end: Int64) {
        while time.now < end {
            let next =
                [bus.nextDue?.microseconds, time.nextDue, agenda.first?.due, end]
                .compactMap { $0 }.min() ?? end
            move(to: max(next, time.now))
            while let first = agenda.first, first.due <= time.now {
                agenda.removeFirst()
                first.action(self)
                settle()
            }
        }
    }

    private func move(to now: Int64) {
        time.tick(to: now)
        bus.advance(to: WorldTime(microseconds: now))
        settle()
        time.advance(to: now)
        settle()
    }

    private func settle() {
        repeat {
            if killing.isDue { kill() }
            time.settle { [killing] in killing.isDueAfterJob() }
            let told = news.value
            news.value = []
            for one in told { hear(one) }
        } while killing.isDue || !news.value.isEmpty
    }

    private func hear(_ news: News) {
        switch news {
        case .started(let number): started(number)
        case .failed(let number, let fault): failed(fault, number)
        case .stopped(let number, let failure, let since, let pause):
            stopped(number, failure, since: since, pause)
        case .looked(let report, let at, let started): looked(report, at, started)
        }
    }

    func at(_ due: Int64, _ action: @escaping (World) -> Void) {
        actions += 1
        agenda.append((due, actions, action))
        agenda.sort { ($0.due, $0.number) < ($1.due, $1.number) }
    }

    /// Does something and waits for it in virtual time, at most for `limit`.
    ///
    /// - Returns: whether it ended.
    @discardableResult
    func perform(
        within limit: Int64 = 600 * World.second, isOfGateway: Bool = true,
        _ work: @escaping @Sendable () async throws -> Void
    ) -> Bool {
        let box = Box((isDone: false, failure: String?.none))
        let end = time.now + limit
        Task(executorPreference: isOfGateway ? VirtualExecutors.gateway : VirtualExecutors.world) {
            var failure: String?
            do { try await work() } catch { failure = "\(error)" }
            box.value = (true, failure)
        }
        settle()
        while !box.value.isDone, time.now < end {
            let next =
                [bus.nextDue?.microseconds, time.nextDue, end].compactMap { $0 }.min() ?? end
            move(to: max(next, time.now))
        }
        if let failure = box.value.failure { find("broken", failure) }
        return box.value.isDone
    }

    func find(_ kind: String, _ words: String) {
        trace.note("FOUND \(kind): \(words)")
        findings.append(Finding(kind: kind, words: words))
    }

    // MARK: - Starts and ends

    func start() {
        guard life == nil, !isStarting, !isStopping else { return }
        lives += 1
        trace.note("START")
        isStarting = true
        let gateway: SimulatedGateway
        do {
            gateway = try SimulatedGateway(
                folder: folder, clock: clock, boot: "boot \(boots)", storeMax: storeMax, bus: bus,
                network: network, trace: trace, seed: script.seed &+ UInt64(lives))
        } catch {
            isStarting = false
            if killing.isDue { return kill() }
            trace.note("the start fails: \(error)")
            if holding.isEmpty { find("start", "\(error)") }
            at(time.now + 5 * Self.second) { $0.start() }
            return
        }
        Self.graveyard.withLock { $0.append(gateway) }
        starting = gateway
        let number = lives
        Task(executorPreference: VirtualExecutors.gateway) { [news] in
            do {
                try await gateway.start()
                news.value.append(.started(number))
            } catch {
                news.value.append(.failed(number, "\(error)"))
            }
        }
    }

    private func started(_ number: Int) {
        guard number == lives, isStarting else { return }
        isStarting = false
        life = starting
        starting = nil
        startedAt = time.now
        trace.note("RUNS")
    }

    private func failed(_ error: String, _ number: Int) {
        guard number == lives, isStarting else { return }
        isStarting = false
        trace.note("the start fails: \(error)")
        if holding.isEmpty { find("start", "\(error)") }
        gone()
        at(time.now + 5 * Self.second) { $0.start() }
    }

    /// The process is gone: what was under way in it goes no further.
    private func gone() {
        time.kill()
        network.kill()
        bus.killClients()
        life = nil
        isStarting = false
        isStopping = false
        lives += 1
        for one in given where one.isOpen { one.finish(.unknown, "the gateway ended") }
    }

    func kill() {
        let (point, pause) = killing.take()
        guard life != nil || isStarting || isStopping || point != nil else { return }
        trace.note("KILL" + (point.map { " at \($0)" } ?? ""))
        trace.count("kill at " + (point ?? (isStarting ? "a job of a start" : "a job")))
        let begun = given.filter(\.isOpen).map(\.begin) + holding.values
        losses.append(
            Truth.Loss(
                from: begun.reduce(time.now) { min($0, $1) } - Self.killCost,
                until: time.now + Self.second,
                strap: nil))
        gone()
        // The dead one's files are other ones from now on, with their locks and their connections.
        let dead = folder.appending(path: "dead\(lives)")
        let left = folder.appending(path: "left")
        do {
            if point == nil { try FileManager.default.copyItem(at: state, to: left) }
            try FileManager.default.moveItem(at: state, to: dead)
            try FileManager.default.moveItem(at: left, to: state)
        } catch {
            find("simulation", "kill: \(error)")
        }
        at(time.now + pause) { $0.start() }
    }

    func stop(for pause: Int64) {
        guard let life, !isStopping else { return }
        trace.note("STOP")
        trace.count("restart")
        isStopping = true
        self.life = nil
        let begin = holding.values.reduce(time.now) { min($0, $1) }
        let number = lives
        Task(executorPreference: VirtualExecutors.gateway) { [news] in
            var failure: String?
            do { try await life.stop() } catch { failure = "\(error)" }
            news.value.append(.stopped(number, failure, since: begin, pause: pause))
        }
        at(time.now + 90 * Self.second) { world in
            guard world.isStopping, world.lives == number else { return }
            world.find("hang", "the gateway does not end")
            world.killing.set(afterJobs: 0, pause: pause)
        }
    }

    private func stopped(_ number: Int, _ failure: String?, since begin: Int64, _ pause: Int64) {
        guard isStopping, number == lives else { return }
        trace.note("STOPPED \(failure ?? "")")
        losses.append(
            Truth.Loss(from: begin - Self.second, until: time.now + Self.second, strap: nil))
        if let failure, holding.isEmpty { find("stop", failure) }
        // What it lost it has said.
        if failure != nil {
            losses.append(
                Truth.Loss(from: begin - 60 * Self.second, until: time.now, strap: nil))
        }
        at(time.now) { world in
            guard world.lives == number else { return }
            world.gone()
            world.at(world.time.now + pause) { $0.start() }
        }
    }

    private func end() {
        gone()
        KillSwitch.observer.withLock { $0 = nil }
        faulty_disk_disarm(disk)
        Self.bury(folder)
    }

    /// Closes what the dead have open, and empties it: their inodes stay theirs while this process lives, since SQLite
    /// goes by them.
    private static func bury(_ folder: URL) {
        let manager = FileManager.default
        for name in (try? manager.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
            guard let number = Int32(name),
                let path = try? manager.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)"),
                path.hasPrefix(folder.path)
            else { continue }
            close(number)
        }
        let files = manager.enumerator(at: folder, includingPropertiesForKeys: nil)
        while let file = files?.nextObject() as? URL { truncate(file.path, 0) }
    }

    // MARK: - People

    func give(_ command: Command, seed: UInt64) {
        guard let life else { return }
        trace.count("command \(command.kind)")
        let one = GivenCommand(command, number: given.count + 1, at: time.now)
        given.append(one)
        trace.note("#\(one.number) \(command)")
        let trace = trace
        let chance = Mutex(SeededRandom(seed: seed))
        // A busy machine holds up a person's command now and then, anywhere.
        let executor = VirtualExecutor(
            isOfGateway: true,
            pause: {
                chance.withLock { random in
                    switch Int.random(in: 0..<200, using: &random) {
                    case 0: .random(in: 0...2_000_000, using: &random)
                    case 1..<10: .random(in: 0...100_000, using: &random)
                    default: 0
                    }
                }
            })
        executors.append(executor)
        let exchange = exchange
        let people = People(gateway: life.gateway, exchange: exchange)
        // The person gets the link before the command is given.
        let link = Box(String?.none)
        if case .enroll(let patient) = command {
            Task(executorPreference: VirtualExecutors.world) {
                link.value = await exchange.invite(patient: ExchangeSeed.patient(patient))
            }
            settle()
        }
        guard one.isOpen else { return }
        switch command {
        case .erase, .purge: noteStored()
        default: break
        }
        let text = link.value
        Task(executorPreference: executor) {
            do {
                let words = try await people.run(command, link: text, seed: seed)
                one.finish(.done, words)
            } catch let problem as ProblemReport {
                one.finish(.refused(problem.code), "\(problem.code): \(problem.message)")
            } catch let error as QueueError {
                let problem = ProblemReport(error)
                one.finish(.refused(problem.code), "\(problem.code): \(problem.message)")
            } catch {
                one.finish(.broken("\(type(of: error))"), "\(error)")
            }
            trace.note("#\(one.number) answers \(one.outcome) \(one.words)")
        }
        at(time.now + Self.patience) { world in
            guard one.isOpen else { return }
            world.find("hang", "#\(one.number) \(command) is not answered")
        }
    }

    /// Notes what the store has, before a command removes some of it.
    private func noteStored() {
        guard let samples = try? KeptSample.all(in: state) else { return }
        stored.merge(samples) { $1 }
    }

    // MARK: - Looks

    private func lookAgain() {
        at(time.now + 20 * Self.second) { world in
            world.look()
            world.lookAgain()
        }
    }

    private func look() {
        guard let life, !isStopping else { return }
        let started = startedAt
        let now = time.now
        Task(executorPreference: VirtualExecutors.gateway) { [news] in
            guard let report = try? await life.gateway.status.report() else { return }
            news.value.append(.looked(report, at: now, started: started))
        }
    }

    private func looked(_ report: StatusReport, _ at: Int64, _ started: Int64) {
        for item in report.health { trace.count("health \(item.name)") }
        trace.note(
            "status " + (report.well ? "well" : report.health.map(\.name).joined(separator: " ")))
        let deliveries =
            report.enrollments.map { ($0.name, (pending: $0.pending, delivered: $0.delivered)) }
            + report.destinations.filter { $0.state != "paused" }
            .map { ($0.name, (pending: $0.pending, delivered: $0.delivered)) }
        looks.append(
            Look(
                at: at, started: started, items: report.health,
                straps: Dictionary(
                    report.sensors.map { ($0.address, $0) }, uniquingKeysWith: { $1 }),
                deliveries: Dictionary(deliveries, uniquingKeysWith: { $1 })))
    }

    // MARK: - The end

    /// Until everything has arrived, or nothing arrives any more.
    private func drain() throws {
        live(until: time.now + 10 * Self.second)
        if life == nil { live(until: time.now + 60 * Self.second) }
        guard let life else { return find("start", "the gateway does not run at the end") }
        let gateway = life.gateway
        let exchange = exchange
        let enrollsAgain = areTokensRevoked
        let settled = Box(false)
        // A person gives what has none to its patient's enrollment, and resumes what was paused.
        let isOver = perform(within: 1_200 * Self.second) {
            let people = People(gateway: gateway, exchange: exchange)
            for enrollment in try await gateway.queue.enrollments() where enrollment.isPaused {
                _ = try? await gateway.destinationService.resume(enrollment.terms.name)
            }
            for boot in try await gateway.store.untrustedBoots() where !boot.running {
                _ = try await gateway.store.release(
                    ReleaseRequest(
                        boot: boot.boot, offset: Double(VirtualWallClock.origin) / 1_000_000))
            }
            for _ in 0..<60 {
                await VirtualExecutors.time.sleep(.seconds(15))
                if enrollsAgain { try await people.enrollAgain() }
                try await people.giveAway()
                var unsent = 0
                for enrollment in try await gateway.queue.enrollments() {
                    unsent += try await gateway.queue.balance(of: .enrollment(enrollment.id)).unsent
                }
                let all = try await gateway.queue.balance()
                if unsent + all.unsent + all.buffered == 0 { break }
            }
            settled.value = true
        }
        if !isOver || !settled.value { find("hang", "the drain does not end") }
    }

    private func judge() throws {
        guard let life else { return }
        let judge = Judge(world: self, life: life, state: state)
        findings += judge.findings
        for finding in judge.findings { trace.note("FOUND \(finding)") }
    }

    /// What the world says, whatever becomes of the gateway.
    func valueOfWorld<Value: Sendable>(_ work: @escaping @Sendable () async -> Value) -> Value? {
        let box = Box(Value?.none)
        perform(isOfGateway: false) { box.value = await work() }
        return box.value
    }

    /// What the gateway says.
    func valueOfGateway<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) -> Value? {
        let box = Box(Value?.none)
        perform { box.value = try await work() }
        return box.value
    }
}

/// A value that a task leaves for the loop that moves its time.
final class Box<Value: Sendable>: Sendable {
    private let state: Mutex<Value>

    init(_ value: Value) { state = Mutex(value) }

    var value: Value {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
