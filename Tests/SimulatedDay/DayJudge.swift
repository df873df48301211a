import Basics
import Foundation
import GRDB
import OfflineQueue
import Testbed

/// Compares what the store says of a day with what the world knows of it.
struct DayJudge {
    /// One strap's second, by the store.
    private enum Second: Equatable {
        case unexplained
        case sampled
        case gap(GapCause)
    }

    /// A sample speaks for the time until the next one, up to this, µs: the ledger's own bound.
    private static let sampleReach = SampleQueue.silenceMax.microseconds
    /// How long after a trouble's begin its cause must show, and how long after its end data flows
    /// again, µs. A silent link is torn down after 10 s; a strap that was away for long is connected
    /// to in turn with the others.
    private static let settling: Int64 = 60_000_000

    let day: Day
    private var seconds: [[Second]] = []
    private(set) var faults: [String] = []
    private(set) var summary: [String] = []

    init(_ day: Day, storePath: String) throws {
        self.day = day
        try read(storePath)
        explainEverySecond()
        compareWithScript()
        compareFrames(try Self.counts(storePath))
    }

    // MARK: The store

    private mutating func read(_ path: String) throws {
        let length = Int(day.hours) * 3600
        seconds = Array(
            repeating: Array(repeating: .unexplained, count: length), count: day.straps.count)
        let database = try DatabaseQueue(path: path)
        try database.read { db in
            let samples = try Row.fetchCursor(
                db,
                sql: """
                    SELECT sample.uptime_us, assignment.sensor FROM sample
                    JOIN segment ON segment.id = sample.segment
                    JOIN assignment ON assignment.id = segment.assignment ORDER BY sample.id
                    """)
            var last = Array(repeating: Int64.min / 2, count: day.straps.count)
            while let row = try samples.next() {
                let uptime: Int64 = row[0]
                let strap = Int(row[1] as Int64) - 1
                let from = uptime - last[strap] <= Self.sampleReach ? last[strap] : uptime
                mark(strap, from, uptime + 1, as: .sampled)
                last[strap] = uptime
            }
            let gaps = try Row.fetchCursor(
                db,
                sql: """
                    SELECT assignment.sensor, gap.from_uptime_us, gap.until_uptime_us, gap.cause
                    FROM gap JOIN assignment ON assignment.id = gap.assignment
                    """)
            while let row = try gaps.next() {
                guard let cause = GapCause(rawValue: row[3]) else { continue }
                mark(Int(row[0] as Int64) - 1, row[1], row[2] ?? .max, as: .gap(cause))
            }
        }
    }

    /// Every second that the interval touches; a sample in it outweighs a gap.
    private mutating func mark(_ strap: Int, _ from: Int64, _ until: Int64, as second: Second) {
        let length = seconds[strap].count
        let first = max(0, Int(from / 1_000_000))
        let last = min(length - 1, Int((min(until, Int64(length) * 1_000_000) - 1) / 1_000_000))
        guard first <= last else { return }
        for index in first...last where seconds[strap][index] != .sampled {
            seconds[strap][index] = second
        }
    }

    private static func counts(_ path: String) throws -> [(received: Int, stored: Int)] {
        try DatabaseQueue(path: path).read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT sum(received + doubled), sum(stored) FROM segment
                    JOIN assignment ON assignment.id = segment.assignment
                    GROUP BY assignment.sensor ORDER BY assignment.sensor
                    """
            ).map { (Int($0[0] as Int64), Int($0[1] as Int64)) }
        }
    }

    // MARK: The judgement

    private mutating func explainEverySecond() {
        for (strap, line) in zip(day.straps, seconds) {
            // A silence is a gap only if it is longer than a sample reaches.
            let reach = Int(Self.sampleReach / 1_000_000)
            for run in line.indices.split(whereSeparator: { line[$0] != .unexplained })
            where run.count > reach {
                faults.append("\(strap): \(run.count) seconds unexplained from \(run.startIndex) s")
            }
            let sampled = line.count { $0 == .sampled }
            var causes: [String: Int] = [:]
            for case .gap(let cause) in line { causes[cause.rawValue, default: 0] += 1 }
            let text = causes.sorted { $0.value > $1.value }.map { "\($0.key) \($0.value)" }
            summary.append(
                "\(strap)  sampled \(sampled) s  " + text.joined(separator: ", "))
        }
    }

    /// In the middle of a trouble that nothing else overlaps, the ledger names it; some time after
    /// its end there is data again.
    private mutating func compareWithScript() {
        var judged = 0
        for trouble in day.script.troubles {
            guard let expected = Self.causes(of: trouble.kind) else { continue }
            let strap = trouble.subject.flatMap { day.straps.firstIndex(of: $0) }
            let others = day.script.troubles.filter {
                $0.begin != trouble.begin && $0.begin < trouble.end + 4 * Self.settling
                    && trouble.begin < $0.end + 4 * Self.settling
                    && ($0.subject == nil || strap == nil || $0.subject == trouble.subject
                        || Day.adapters.contains($0.subject ?? ""))
            }
            guard others.isEmpty else { continue }
            let affected = strap.map { [$0] } ?? Array(day.straps.indices)
            for index in affected {
                let middle = Int((trouble.begin + trouble.end) / 2_000_000)
                if trouble.end - trouble.begin > 2 * Self.settling,
                    case .gap(let cause) = seconds[index][middle], !expected.contains(cause)
                {
                    faults.append("\(trouble.kind) at \(middle) s is recorded as \(cause.rawValue)")
                } else if trouble.end - trouble.begin > 2 * Self.settling,
                    seconds[index][middle] == .sampled, !expected.isEmpty
                {
                    faults.append("\(trouble.kind) at \(middle) s has samples")
                }
                let after = Int((trouble.end + 2 * Self.settling) / 1_000_000)
                if after < seconds[index].count, seconds[index][after] != .sampled {
                    faults.append(
                        "\(trouble.kind) of \(day.straps[index]) ended at "
                            + "\(trouble.end / 1_000_000) s; no data at \(after) s")
                }
                judged += 1
            }
        }
        summary.append("\(judged) troubles stood alone and were told by their name, and mended")
    }

    /// What the ledger may call a trouble; nil for what makes no gap of its own.
    private static func causes(of kind: DayScript.Kind) -> Set<GapCause>? {
        switch kind {
        case .bluetoothdRestart, .busRestart: [.daemonGone]
        case .mute: [.silent, .connecting]
        case .connectedElsewhere, .outOfRange: [.outOfRange, .linkLost]
        case .gatewayOff: [.gatewayOff]
        // What the kernel kept meanwhile is data.
        case .stopped: []
        default: nil
        }
    }

    /// Every frame that bluetoothd handed over is in the books.
    private mutating func compareFrames(_ counts: [(received: Int, stored: Int)]) {
        for (index, strap) in day.straps.enumerated() {
            let sent = day.bus.framesSentCount(strap)
            let received = index < counts.count ? counts[index].received : 0
            if received > sent { faults.append("\(strap): \(received) received of \(sent) sent") }
            let lost = sent - received
            // What was on its way when bluetoothd, the bus or the gateway ended belongs to no patient.
            let endings = day.script.troubles.count {
                [.bluetoothdRestart, .busRestart, .gatewayOff].contains($0.kind)
            }
            if lost > endings * 4 { faults.append("\(strap): \(lost) of \(sent) frames lost") }
        }
    }
}
