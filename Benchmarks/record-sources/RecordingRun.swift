import Figures
import Foundation
import Testbed

/// One recorder on a fresh bus with fresh straps.
struct RecordingRun {
    /// What was measured while notifications came in.
    struct Cost: Codable {
        /// Notifications a second and strap.
        var hertz: Int
        /// Notifications the CPU time was spread over.
        var notifications: Int
        /// From the bus to the durable row.
        var cpuMicroseconds: Double
        var memory: ProcessFigures.Memory
        /// Wake-ups a second of all threads, by thread, while notifications came.
        var wakeUps: [String: Double]
        /// All that were sent from the first on, and the rows at the end.
        var sent: Int
        var rows: Int
    }

    static let straps = (1...8).map { "C0:00:00:00:00:0\($0)" }
    /// Pairing or finding eight straps takes under a minute.
    private static let startSecondsMax = 120
    /// Connects, discovery and first allocations are over by then.
    private static let warmUp = Duration.seconds(5)
    /// More than the age at which either commits.
    static let commitPause = Duration.seconds(7)
    /// Links have ended by then, and what was recorded is committed.
    static let absencePause = Duration.seconds(30)
    /// Straps that are gone are looked for eagerly at first: two attempts of 8 s to connect to each.
    static let searchTime = Duration.seconds(150)

    let recorder: any Recorder
    let bus: PrivateBus
    let bluez: SimulatedBlueZ
    let python: String
    let script: String

    /// Runs `body` while the recorder has all straps.
    static func with<Result>(
        hertz: Int, tools: Tools, _ make: (PrivateBus) throws -> any Recorder,
        _ body: (RecordingRun) async throws -> Result
    ) async throws -> Result {
        let bus = try await PrivateBus.start()
        let heart = try RecordedHeart.oneHour()
        // bleak gives up when bluetoothd does not tell of a connection, as it does not at times.
        var habits = BlueZHabits()
        habits.connectedUnsignalled = 0
        let bluez = try await SimulatedBlueZ.start(on: bus, habits: habits)
        let interval = 1000 / hertz
        for (index, address) in straps.enumerated() {
            // Hearts do not beat in step: their notifications come one by one.
            if index > 0 { try await Task.sleep(for: .milliseconds(interval / straps.count)) }
            await bluez.add(
                SimulatedStrap(
                    address: address, name: "Strap \(index + 1)", heart: heart,
                    firstBeat: index * 500, style: StrapStyle(frameIntervalMilliseconds: interval)))
        }
        let run = RecordingRun(
            recorder: try make(bus), bus: bus, bluez: bluez, python: tools.python,
            script: tools.script)
        do {
            try await run.recorder.start(straps)
            let areSubscribed = await bluez.wait(atMost: .seconds(startSecondsMax)) { bluez in
                straps.allSatisfy { bluez.isSubscribed($0) }
            }
            guard areSubscribed else {
                throw FixtureFault(description: "not all straps are recorded")
            }
            let result = try await body(run)
            await run.end()
            return result
        } catch {
            let log = run.recorder.logTail()
            await run.end()
            throw FixtureFault(description: "\(run.recorder.name): \(error)\n\(log)")
        }
    }

    private func end() async {
        await recorder.remove()
        await bluez.stop()
        await bus.stop()
    }

    /// What recording costs over the next so many notifications.
    func cost(of notifications: Int, hertz: Int) async throws -> Cost {
        try await Task.sleep(for: Self.warmUp)
        let pid = try await recorder.pid
        let before = await sent()
        let cpuBefore = try ProcessFigures.cpuMicroseconds(of: pid)
        let wakeUpsBefore = try ProcessFigures.wakeUps(of: pid)
        let began = ContinuousClock.now
        let limit = Duration.seconds(notifications / Self.straps.count / hertz * 2 + 10)
        let isThere = await bluez.wait(atMost: limit) {
            Self.sent(in: $0) >= before + notifications
        }
        let cpu = try ProcessFigures.cpuMicroseconds(of: pid) - cpuBefore
        let wakeUps = try Self.rates(of: pid, since: wakeUpsBefore, ContinuousClock.now - began)
        let count = await sent() - before
        guard isThere else { throw FixtureFault(description: "a strap stopped sending") }
        let memory = try ProcessFigures.memory(of: pid)
        let (sent, rows) = try await rowsOnceQuiet()
        return Cost(
            hertz: hertz, notifications: count, cpuMicroseconds: Double(cpu) / Double(count),
            memory: memory, wakeUps: wakeUps, sent: sent, rows: rows)
    }

    /// Wake-ups a second while no strap is there, by thread.
    struct Idle: Codable {
        /// While straps that have just left are looked for.
        var searching: [String: Double]
        /// Once that is over.
        var settled: [String: Double]
    }

    /// Counts wake-ups while no strap is there, each for so long.
    func wakeUpsWithoutStraps(over time: Duration) async throws -> Idle {
        for strap in Self.straps { await bluez.setOnAir(strap, false) }
        let left = ContinuousClock.now
        try await Task.sleep(for: Self.absencePause)
        let searching = try await wakeUps(over: time)
        try await Task.sleep(until: left + Self.searchTime)
        let settled = try await wakeUps(over: time)
        for strap in Self.straps { await bluez.setOnAir(strap, true) }
        return Idle(searching: searching, settled: settled)
    }

    private func wakeUps(over time: Duration) async throws -> [String: Double] {
        let pid = try await recorder.pid
        let before = try ProcessFigures.wakeUps(of: pid)
        let began = ContinuousClock.now
        try await Task.sleep(for: time)
        return try Self.rates(of: pid, since: before, ContinuousClock.now - began)
    }

    private static func rates(
        of pid: pid_t, since before: [String: Int], _ time: Duration
    ) throws -> [String: Double] {
        try ProcessFigures.wakeUps(of: pid).reduce(into: [:]) { rates, thread in
            let count = thread.value - (before[thread.key] ?? 0)
            if count > 0 { rates[thread.key] = Double(count) / (time / .seconds(1)) }
        }
    }

    /// Lets the straps fall silent, and counts what was sent and what was kept.
    func rowsOnceQuiet() async throws -> (sent: Int, rows: Int) {
        await bluez.setSendsFrames(false)
        try await Task.sleep(for: Self.commitPause)
        let counts = (await sent(), try await rows())
        await bluez.setSendsFrames(true)
        return counts
    }

    // MARK: Recovery

    /// From a new bluetoothd to the next durable row, in seconds; nil when none came in time.
    func secondsToRowAfterRestart(limit: Int) async throws -> Double? {
        try await bluez.setDaemon(running: false)
        // What waited in memory must not pass for a new row.
        try await Task.sleep(for: Self.commitPause)
        let before = try await rows()
        let began = ContinuousClock.now
        try await bluez.setDaemon(running: true)
        let answer = try await ask("--wait", recorder.database, "\(before)", "\(limit)")
        return answer == "more" ? (ContinuousClock.now - began) / .seconds(1) : nil
    }

    /// From switching a known strap on to its first sample, in seconds.
    func secondsToSampleAfterPowerOn(off: Duration, limit: Int) async throws -> Double? {
        let strap = Self.straps[0]
        await bluez.setOnAir(strap, false)
        try await Task.sleep(for: off)
        let before = await bluez.framesSentCount(strap)
        let began = ContinuousClock.now
        await bluez.setOnAir(strap, true)
        let came = await bluez.wait(atMost: .seconds(limit)) { $0.framesSentCount(strap) > before }
        return came ? (ContinuousClock.now - began) / .seconds(1) : nil
    }

    // MARK: Counting

    private func sent() async -> Int { await Self.sent(in: bluez) }

    private static func sent(in bluez: isolated SimulatedBlueZ) -> Int {
        straps.reduce(0) { $0 + bluez.framesSentCount($1) }
    }

    private func rows() async throws -> Int {
        let answer = try await ask("--rows", recorder.database)
        guard let count = Int(answer) else { throw FixtureFault(description: "rows: \(answer)") }
        return count
    }

    /// The store is asked by the same program in both cases, not by the one that wrote it.
    private func ask(_ words: String...) async throws -> String {
        let outcome = try await Command.run(python, [script] + words)
        guard outcome.status == 0 else { throw FixtureFault(description: outcome.complaint) }
        return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
