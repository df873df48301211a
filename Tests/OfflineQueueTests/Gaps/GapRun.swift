import Basics
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

/// One random history of two straps, the queue, and the models of what the ledger must say.
struct GapRun {
    /// The time line of one assignment so far.
    struct Line {
        var sensor: Int64
        /// Gaps of earlier runs, and the ones between runs.
        var past: [Expected] = []
        /// Where it begins and, if it is over, ends.
        var begin: Instant
        var end: Instant?
        /// The run that goes on; nil when the assignment is over.
        var run: Run?
    }

    /// What happened in a run. What became of its frames is found out later.
    struct Run {
        enum Entry {
            case frame
            case refused
            case note(GapCause?)
        }
        var begin: Int64
        var noted: GapCause?
        var entries: [(uptime: Int64, entry: Entry)] = []

        init(begin: Int64, noted: GapCause? = nil) {
            self.begin = begin
            self.noted = noted
            if noted != nil { entries.append((begin, .note(noted))) }
        }
    }

    /// Uptimes of frames, by what became of them.
    struct Stored {
        var samples: Set<Int64>
        var undecodable: Set<Int64>
    }

    struct Expected: Hashable {
        var cause: GapCause
        var fromBoot: String
        var from: Int64
        var untilBoot: String
        var until: Int64
    }

    let store: TestStore
    let clock: ManualClock
    var queue: SampleQueue
    var random: SeededRandom
    var settings = QueueSettings()
    /// Whether some runs find no room in the store.
    let isBounded: Bool
    var boot = 1
    /// How far UTC was ahead of the uptime by the trusted readings of each boot: one, unless the clock stepped.
    var offsets: [String: Set<Int64>] = [:]
    var sensors: [Int64] = []
    var lines: [Int64: Line] = [:]
    var open: [Int64: Int64] = [:]
    /// Uptimes of all frames of this run that the queue took.
    var taken: [Int64] = []
    /// Frames among them that cannot be decoded.
    var faulty: Set<Int64> = []

    var bootID: String { "boot-\(boot)" }
    var now: Int64 { clock.read().uptime.microseconds }

    init(seed: UInt64) async throws {
        random = SeededRandom(seed: seed)
        store = try TestStore()
        clock = ManualClock(isTrusted: seed % 3 != 0)
        if seed % 4 == 0 {
            // Memory is full long before a commit is due.
            settings.bufferedSamplesMax = 12
            settings.commitAgeMax = .seconds(30)
        }
        isBounded = seed % 2 == 0
        queue = try await store.open(clock, settings: settings)
        noteOffset()
        for number in 1...2 {
            sensors.append(try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)").id)
        }
    }

    mutating func noteOffset() {
        let reading = clock.read()
        guard reading.isTrusted else { return }
        offsets[bootID, default: []].insert(
            reading.wall.microseconds - reading.uptime.microseconds)
    }

    mutating func step() async throws -> String {
        // No two things at the same instant.
        advance(tenths: 1)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<40: return try await stream()
        case 40..<55: return try await note()
        case 55..<62: return try await frames(fault: "fault")
        case 62..<72: return try await wait()
        case 72..<78: return try await handOver()
        case 78..<81: return try await endAssignment()
        case 81..<84:
            try await queue.flush()
            return "flush"
        case 84..<88: return try await changeClock()
        default: return try await restart()
        }
    }

    mutating func advance(tenths: Int) { clock.advance(seconds: Double(tenths) / 10) }

    mutating func append(_ assignment: Int64, fault: String?) async throws {
        let isRefused = await queue.health().buffered >= settings.bufferedSamplesMax
        let reading = clock.read()
        try await queue.append(
            Arrival(sensorID: sensor(of: assignment), at: reading, frame: [0, 60], fault: fault))
        noteOffset()
        lines[assignment]?.run?.entries.append(
            (reading.uptime.microseconds, isRefused ? .refused : .frame))
        if !isRefused { taken.append(reading.uptime.microseconds) }
        if fault != nil { faulty.insert(reading.uptime.microseconds) }
    }

    /// The sensor of an assignment that is open.
    private func sensor(of assignment: Int64) -> Int64 {
        open.first { $0.value == assignment }?.key ?? 0
    }

    mutating func anAssignment() -> Int64? {
        open.sorted { $0.key < $1.key }.randomElement(using: &random)?.value
    }

    mutating func stream() async throws -> String {
        guard let one = anAssignment() else { return "stream nothing" }
        let other = Bool.random(using: &random) ? anAssignment() : nil
        for _ in 0..<Int.random(in: 1...20, using: &random) {
            try await append(one, fault: nil)
            if let other, other != one {
                advance(tenths: 1)
                try await append(other, fault: nil)
            }
            advance(tenths: Int.random(in: 8...12, using: &random))
            await queue.commitIfDue()
        }
        return "stream"
    }

    mutating func frames(fault: String) async throws -> String {
        guard let assignment = anAssignment() else { return "no frames" }
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            try await append(assignment, fault: fault)
            advance(tenths: Int.random(in: 1...15, using: &random))
        }
        return "undecodable"
    }

    mutating func note() async throws -> String {
        guard let assignment = anAssignment() else { return "note nothing" }
        let causes: [GapCause?] = [
            nil, nil, .linkLost, .outOfRange, .connecting, .adapterDown, .daemonGone, .noContact,
        ]
        let cause = causes.randomElement(using: &random) ?? nil
        await queue.note(cause, of: sensor(of: assignment), at: Uptime(microseconds: now))
        let now = now
        lines[assignment]?.run?.entries.append((now, .note(cause)))
        lines[assignment]?.run?.noted = cause
        return "note \(cause?.rawValue ?? "nothing")"
    }

    /// Time passes with the daemon's tick, or in one piece as on a machine that hangs.
    mutating func wait() async throws -> String {
        if Int.random(in: 0..<4, using: &random) == 0 {
            advance(tenths: Int.random(in: 1...5_000, using: &random))
            return "hang"
        }
        for _ in 0..<Int.random(in: 1...150, using: &random) {
            advance(tenths: 10)
            await queue.commitIfDue()
        }
        return "wait"
    }

    mutating func handOver() async throws -> String {
        guard let sensor = sensors.randomElement(using: &random) else { return "" }
        let noted = open[sensor].flatMap { lines[$0]?.run?.noted }
        // Each of another patient, so that none is the one before.
        let delivery = try await queue.enroll(
            .example(UUID().uuidString, patient: UUID().uuidString))
        let assignment = try await queue.assign(sensor: sensor, enrollment: delivery.id)
        try await end(sensor)
        open[sensor] = assignment.id
        lines[assignment.id] = Line(
            sensor: sensor, begin: Instant(boot: Int64(boot), uptime: clock.read().uptime),
            run: Run(begin: now, noted: noted))
        return "hand over"
    }

    mutating func endAssignment() async throws -> String {
        guard let sensor = sensors.randomElement(using: &random) else { return "" }
        try await queue.endAssignment(sensor: sensor)
        try await end(sensor)
        return "end"
    }

    mutating func end(_ sensor: Int64) async throws {
        guard let assignment = open.removeValue(forKey: sensor) else { return }
        let past = try gaps(of: assignment, until: now, waiting: await queue.health().buffered)
        lines[assignment]?.past += past
        lines[assignment]?.run = nil
        let now = Instant(boot: Int64(boot), uptime: clock.read().uptime)
        lines[assignment]?.end = now
    }

    /// The gaps of this run up to `end`, by what is stored of its frames. Of the frames taken the
    /// last ones wait in memory: they count as taken, or are `lost`.
    func gaps(
        of assignment: Int64, until end: Int64, waiting: Int, lost: Bool = false
    ) throws -> [Expected] {
        guard let run = lines[assignment]?.run else { return [] }
        let stored = try stored(assignment)
        let firstWaiting = waiting > 0 ? taken[taken.count - waiting] : .max
        var model = GapModel(begin: run.begin)
        var samples: Set<Int64> = []
        for (uptime, entry) in run.entries where uptime <= end {
            switch entry {
            case .note(let cause): model.add(.note(cause), at: uptime)
            case .refused: model.add(.empty(.queueFull), at: uptime)
            case .frame where uptime >= firstWaiting && lost: break
            case .frame
            where stored.undecodable.contains(uptime)
                || uptime >= firstWaiting && faulty.contains(uptime):
                model.add(.empty(.undecodable), at: uptime)
            case .frame where stored.samples.contains(uptime) || uptime >= firstWaiting:
                model.add(.sample, at: uptime)
                samples.insert(uptime)
            case .frame: model.add(.empty(.queueFull), at: uptime)
            }
        }
        return model.gaps(until: end, samples: samples).map(expected)
    }

    func expected(_ gap: GapModel.Span) -> Expected {
        Expected(
            cause: gap.cause, fromBoot: bootID, from: gap.from, untilBoot: bootID, until: gap.until)
    }

    mutating func changeClock() async throws -> String {
        if Bool.random(using: &random) {
            let hours = Int64.random(in: -3...3, using: &random)
            clock.set { $0.wall += .seconds(hours * 3_600) }
            try await queue.noteClock(clock.read())
            noteOffset()
            return "wall clock steps"
        }
        let isTrusted = Bool.random(using: &random)
        clock.set { $0.isTrusted = isTrusted }
        try await queue.noteClock(clock.read())
        noteOffset()
        return "clock trusted: \(isTrusted)"
    }

    /// Closed or killed, and started again in the same boot or another.
    mutating func restart() async throws -> String {
        let isKill = Bool.random(using: &random)
        let stopped = now
        let waiting = await queue.health().buffered
        if isKill {
            try await queue.abandon()
        } else {
            try await queue.close()
        }
        let alive = isKill ? try lastAlive(stopped) : stopped
        for assignment in open.values {
            let past = try gaps(
                of: assignment, until: alive, waiting: isKill ? waiting : 0, lost: true)
            lines[assignment]?.past += past
        }
        taken = []
        faulty = []
        let oldBoot = bootID
        advance(tenths: Int.random(in: 1...600, using: &random))
        if Bool.random(using: &random) {
            boot += 1
            let uptime = Int64.random(in: 20...600, using: &random) * 100_000
            clock.set { $0.uptime = Uptime(microseconds: uptime) }
            if Bool.random(using: &random) { clock.set { $0.isTrusted.toggle() } }
        }
        if isBounded { settings.maxBytes = Int64.random(in: 70_000...160_000, using: &random) }
        queue = try await store.open(clock, bootID: bootID, settings: settings)
        noteOffset()
        let begin = now
        let off = Expected(
            cause: .gatewayOff, fromBoot: oldBoot, from: alive, untilBoot: bootID, until: begin)
        for assignment in open.values {
            lines[assignment]?.past.append(off)
            lines[assignment]?.run = Run(begin: begin)
        }
        return isKill ? "kill" : "close"
    }

    /// What the store says when the killed run lived, which must not be later than it did nor earlier
    /// than its last durable frame.
    func lastAlive(_ stopped: Int64) throws -> Int64 {
        let run = "(SELECT max(id) FROM run)"
        let frame = try Int64(
            store.number("SELECT max(last_uptime_us) FROM segment WHERE run = \(run)"))
        let told = try Int64(
            store.number(
                """
                SELECT max(coalesce(alive_uptime_us, 0), started_uptime_us) FROM run
                WHERE id = \(run)
                """))
        #expect(max(frame, told) <= stopped)
        return max(frame, told)
    }

    func stored(_ assignment: Int64) throws -> Stored {
        try DatabaseQueue(path: store.path).read { db in
            func uptimes(_ table: String) throws -> Set<Int64> {
                try Int64.fetchSet(
                    db,
                    sql: """
                        SELECT p.uptime_us FROM \(table) p JOIN segment s ON s.id = p.segment
                        WHERE s.assignment = ? AND s.run = (SELECT max(id) FROM run)
                        """, arguments: [assignment])
            }
            return Stored(
                samples: try uptimes("sample"), undecodable: try uptimes("undecodable"))
        }
    }
}
