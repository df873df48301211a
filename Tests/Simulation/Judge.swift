import Basics
import Foundation
import GRDB
import OfflineQueue
import Testbed

@testable import EdgeGateway

/// Compares what arrived, what the store has and what status said with what was so.
struct Judge {
    /// How far the time of a data point may be off, µs, with a clock that steps; more where bluetoothd hung.
    private static let exact: Int64 = 600_000
    private static let vague: Int64 = 45_000_000
    /// For how long nothing may flow before status says something, µs.
    private static let unnoticed: Int64 = 150 * World.second
    private static let undelivered: Int64 = 330 * World.second

    private let world: World
    private let truth: Truth
    private(set) var findings: [Finding] = []

    private struct Frame {
        var at: Int64
        var bpm: Int
        var bytes: [UInt8]
        var arrived = 0
    }

    init(world: World, life: SimulatedGateway, state: URL) {
        self.world = world
        truth = Truth(world.given, losses: world.losses)
        for one in world.given {
            if case .broken(let type) = one.outcome {
                find("internal error", "#\(one.number) \(one.command): \(type): \(one.words)")
            }
            if case .refused("internal-fault") = one.outcome {
                find("internal error", "#\(one.number) \(one.command): \(one.words)")
            }
        }
        lookAtBooks(life)
        lookAtStatus()
        compareExchange(state)
        compareWebhook()
    }

    private mutating func find(_ kind: String, _ words: String) {
        guard findings.count(where: { $0.kind == kind }) < 5 else { return }
        findings.append(Finding(kind: kind, words: words))
    }

    // MARK: - Books

    private mutating func lookAtBooks(_ life: SimulatedGateway) {
        let queue = life.gateway.queue
        guard let audit = world.valueOfGateway({ try await queue.audit() }),
            let books = world.valueOfGateway({ try await queue.balance() }),
            let enrollments = world.valueOfGateway({ try await queue.enrollments() })
        else { return find("audit", "the store cannot be read") }
        for difference in audit.differences.prefix(5) { find("audit", difference) }
        if !audit.damaged.isEmpty { find("audit", "damaged: \(audit.damaged.prefix(5))") }
        if !books.isBalanced { find("audit", "the books do not balance: \(books)") }
        if books.pending > 0 || !books.held.isEmpty || books.buffered > 0 {
            find(
                "held for ever",
                "pending \(books.pending), held \(books.held), buffered \(books.buffered)")
        }
        for enrollment in enrollments {
            guard
                let own = world.valueOfGateway({
                    try await queue.balance(of: .enrollment(enrollment.id))
                })
            else { continue }
            if own.unsent > 0 {
                find(
                    "held for ever",
                    "\(enrollment.terms.name): pending \(own.pending), held \(own.held)")
            }
            if own.dead > 0 { world.trace.count("dead letters") }
        }
    }

    // MARK: - Status

    private mutating func lookAtStatus() {
        for look in world.looks where look.isWell {
            let same = world.looks.filter { $0.started == look.started && $0.at < look.at }
            if let before = same.last(where: { $0.at <= look.at - Self.unnoticed }) {
                for strap in 0..<Script.straps {
                    let address = People.address(strap)
                    guard truth.isSettled(strap, from: before.at, until: look.at),
                        truth.wearers(of: strap, at: look.at).first.flatMap({ $0 }) != nil,
                        let stored = look.stored[address], stored == before.stored[address]
                    else { continue }
                    find(
                        "false well",
                        "at \(Trace.time(look.at)) nothing of strap \(strap) was stored since \(Trace.time(before.at))"
                    )
                }
            }
            if let before = same.last(where: { $0.at <= look.at - Self.undelivered }),
                before.arrived == look.arrived,
                same.allSatisfy({ $0.at < before.at || $0.isWell }),
                same.allSatisfy({ $0.at < before.at || $0.unsent > 0 }), look.unsent > 0
            {
                find(
                    "false well",
                    "at \(Trace.time(look.at)) \(look.unsent) wait, and nothing arrived since \(Trace.time(before.at))"
                )
            }
        }
    }

    // MARK: - What arrived

    private func sent() -> [[Frame]] {
        (0..<Script.straps).map { strap in
            world.bus.framesSent(People.address(strap)).compactMap { frame in
                guard frame.bytes.count > 1, frame.bytes[0] & 1 == 0 else { return nil }
                return Frame(
                    at: frame.at.microseconds, bpm: Int(frame.bytes[1]), bytes: frame.bytes)
            }
        }
    }

    private static func strap(ofRate bpm: Int) -> Int? {
        (0..<Script.straps).first { (50 + $0 * 40)...(50 + $0 * 40 + 30) ~= bpm }
    }

    /// µs of the world.
    static func time(_ text: String) -> Int64? {
        guard text.hasPrefix("2026-03-01T") else { return nil }
        let parts = text.dropFirst(11).prefix { "0123456789:.".contains($0) }.split(separator: ":")
        guard parts.count == 3, let hours = Int64(parts[0]), let minutes = Int64(parts[1]),
            let seconds = Double(parts[2])
        else { return nil }
        return (hours * 3_600 + minutes * 60) * 1_000_000 + Int64((seconds * 1_000_000).rounded())
    }

    /// The frame that a data point was made of: the nearest that has its rate, and has not arrived yet if there is one.
    private func frame(
        _ frames: [Frame], at time: Int64, bpm: Int, within: Int64,
        where fits: (Frame) -> Bool = { _ in true }
    ) -> Int? {
        var first = frames.partitioningIndex { $0.at >= time - within }
        var best: Int?
        func cost(_ index: Int) -> Int64 {
            abs(frames[index].at - time) + (frames[index].arrived > 0 ? 10 * within : 0)
        }
        while first < frames.count, frames[first].at <= time + within {
            if frames[first].bpm == bpm, fits(frames[first]),
                best.map({ cost(first) < cost($0) }) ?? true
            {
                best = first
            }
            first += 1
        }
        return best
    }

    private mutating func match(
        _ bpm: Double, _ text: String, _ frames: inout [[Frame]], _ who: String, patient: Int?
    ) {
        guard let strap = Self.strap(ofRate: Int(bpm)) else {
            return find("wrong time", "\(who): no strap sent \(bpm)")
        }
        guard let time = Self.time(text) else {
            return find("wrong time", "\(who): \(text)")
        }
        let found =
            frame(frames[strap], at: time, bpm: Int(bpm), within: Self.exact)
            ?? frame(frames[strap], at: time, bpm: Int(bpm), within: Self.vague) { frame in
                world.hangs.contains { $0.contains(frame.at) }
            }
        guard let found else {
            return find(
                "wrong time", "\(who): strap \(strap) sent no \(bpm) at \(Trace.time(time))")
        }
        let frame = frames[strap][found]
        world.trace.count("off by \(abs(frame.at - time) / 100_000 * 100) ms")
        frames[strap][found].arrived += 1
        if frame.arrived > 0 {
            find("twice", "\(who): strap \(strap), \(Trace.time(frame.at)), \(bpm)")
        }
        let wearers = truth.wearers(of: strap, at: frame.at)
        if let patient, !wearers.contains(patient) {
            find(
                "wrong patient",
                "\(who): strap \(strap) at \(Trace.time(frame.at)) was worn by \(Self.names(wearers)), not by \(patient)"
            )
        }
    }

    private static func names(_ wearers: Set<Int?>) -> String {
        wearers.map { $0.map { "\($0)" } ?? "nobody" }.sorted().joined(separator: " or ")
    }

    private mutating func compareExchange(_ state: URL) {
        let exchange = world.exchange
        guard let rows = world.valueOfWorld({ await exchange.stored }),
            let duplicates = world.valueOfWorld({ await exchange.duplicates })
        else { return }
        var frames = sent()
        for (uuid, times) in duplicates.sorted(by: { $0.key < $1.key }) {
            find("twice", "\(uuid) \(times) times at the exchange")
        }
        for row in rows.sorted(by: { $0.effectiveTime ?? "" < $1.effectiveTime ?? "" }) {
            match(
                row.beatsPerMinute ?? 0, row.effectiveTime ?? "", &frames, "exchange",
                patient: row.patient - ExchangeSeed.patient(0))
        }
        world.trace.count("worlds")
        let kept = (try? Self.kept(state.appending(path: "queue.sqlite").path)) ?? [:]
        for strap in 0..<Script.straps {
            for frame in frames[strap] where frame.arrived == 0 {
                let wearers = truth.wearers(of: strap, at: frame.at)
                guard !wearers.contains(nil), !truth.mayBeLost(strap, at: frame.at),
                    !wearers.contains(where: { patient in
                        patient.map { truth.mayBeErased($0, sentAt: frame.at) } ?? false
                    })
                else { continue }
                let isKept =
                    kept[People.address(strap)]?.contains {
                        abs($0.uptime - frame.at) < 45 * World.second && $0.bytes == frame.bytes
                    } ?? false
                let words =
                    "strap \(strap) at \(Trace.time(frame.at)), \(frame.bpm), of \(Self.names(wearers))"
                if isKept {
                    world.trace.count("kept frames")
                } else {
                    find("lost", words)
                }
            }
        }
    }

    private struct Kept {
        var uptime: Int64
        var bytes: [UInt8]
    }

    private static func kept(_ path: String) throws -> [String: [Kept]] {
        var configuration = Configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration).read { db in
            var kept: [String: [Kept]] = [:]
            let rows = try Row.fetchCursor(
                db,
                sql: """
                    SELECT sensor.address, sample.uptime_us, sample.frame FROM sample
                    JOIN segment ON segment.id = sample.segment
                    JOIN assignment ON assignment.id = segment.assignment
                    JOIN sensor ON sensor.id = assignment.sensor
                    """)
            while let row = try rows.next() {
                kept[row[0], default: []].append(
                    Kept(uptime: row[1], bytes: [UInt8](row[2] as Data)))
            }
            return kept
        }
    }

    private mutating func compareWebhook() {
        var frames = sent()
        var known: Set<String> = []
        for point in world.network.webhook.received.sorted(by: { $0.time < $1.time })
        where known.insert(point.uuid).inserted {
            let patient = point.patient.flatMap { Int($0) }.map { $0 - ExchangeSeed.patient(0) }
            match(point.bpm, point.time, &frames, "webhook", patient: patient)
        }
    }
}

extension Array {
    /// The first index whose element fulfils a condition that all after it fulfil as well.
    fileprivate func partitioningIndex(where holds: (Element) -> Bool) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if holds(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
