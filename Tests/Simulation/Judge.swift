import Basics
import Foundation
import OfflineQueue
import Testbed

@testable import EdgeGateway

/// Compares what arrived, what the store has and what status said with what was so.
struct Judge {
    /// How far a clock that the kernel trusts is off at most, µs.
    private static let clockStep: Int64 = 410_000
    /// By how much the times of a frame and of a data point without a sample may differ, µs, for it to be sure to be
    /// that frame's, and to be it at all.
    private static let exact: Int64 = 600_000
    private static let vague: Int64 = 60_000_000
    /// For how long nothing may flow before status says something, µs; and a strap send frames without a rate.
    private static let unnoticed: Int64 = 150 * World.second
    private static let withoutRate: Int64 = 450 * World.second
    private static let undelivered: Int64 = 330 * World.second
    /// Items of status that are about what is stored already: none of them says that a strap is silent.
    private static let ofDeliveries: Set<String> = [
        "clock-stepped", "clock-unknown", "clock-untrusted", "consent-missing", "dead-letters",
        "delivery-held", "delivery-stalled", "enroll-again", "exchange-unreachable",
        "falling-behind", "not-enrolled", "patient-held",
    ]
    /// How the names of items begin that are about straps: none of them says that nothing arrives.
    private static let ofStraps = [
        "adapter-", "battery-", "bluetoothd-", "bond-", "bus-", "doubled-", "no-", "radio-",
        "strap-",
    ]
    /// Items about straps that send all the same.
    private static let ofSending: Set<String> = ["battery-low", "doubled-stream"]

    /// Items that are said only where the gateway knows of nothing that explains what it sees.
    private static let ofOwnFaults: Set<String> = [
        "delivery-stalled", "store-stalled", "strap-not-stored",
    ]

    private let world: World
    private let truth: Truth
    private(set) var findings: [Finding] = []

    /// A frame that a strap sent to the gateway. No other one of the strap has its bytes.
    private struct Frame {
        var at: Int64
        var bpm: Int
        var bytes: [UInt8]
        /// As the store has it, once if all is well.
        var stored: [KeptSample] = []
        /// It was sent again at once.
        var wasDoubled = false
        /// A frame without one is not delivered.
        var hasRate: Bool { bpm > 0 }
    }

    private var frames: [[Frame]]
    private let frameIndex: [[[UInt8]: Int]]
    private var kept: [String: KeptSample] = [:]
    /// Frames that the store counts as refused or given up. A full store soon deletes their rows, and only the number is
    /// left.
    private var givenUp = 0

    init(world: World, life: SimulatedGateway, state: URL) {
        self.world = world
        truth = Truth(world.given, losses: world.losses)
        frames = Self.sent(in: world)
        frameIndex = frames.map { frames in
            Dictionary(frames.indices.map { (frames[$0].bytes, $0) }) { first, _ in first }
        }
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
        do {
            kept = try KeptSample.all(in: state)
        } catch {
            find("audit", "the store cannot be read: \(error)")
        }
        compareStore()
        // A purge may have removed samples that have arrived.
        let arrived = zip(compareExchange(), compareWebhook()).map { zip($0, $1).map(+) }
        lookForUnstored(arrived)
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
        givenUp =
            (books.refused[LossReason.queueFull.rawValue] ?? 0)
            + books.dropped.values.reduce(0, +) + books.dead
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
        for look in world.looks {
            for item in look.items where Self.ofOwnFaults.contains(item.name) {
                find("own fault", "at \(Trace.time(look.at)) status says \(item.name)")
            }
            let same = world.looks.filter { $0.started == look.started && $0.at <= look.at }
            for strap in 0..<Script.straps {
                let address = People.address(strap)
                let isOff = world.offTheSkin[strap].contains {
                    $0.from <= look.at && $0.until > look.at - Self.unnoticed
                }
                let unnoticed = isOff ? Self.withoutRate : Self.unnoticed
                guard let before = same.last(where: { $0.at <= look.at - unnoticed }),
                    let stored = look.straps[address],
                    // An erasure takes some away.
                    same.allSatisfy({
                        $0.at < before.at || $0.straps[address]?.stored == stored.stored
                    }),
                    truth.isSettled(strap, from: before.at, until: look.at),
                    truth.wearers(of: strap, at: look.at).first.flatMap({ $0 }) != nil,
                    !Self.says(look, nothingComesOf: stored.id)
                else { continue }
                find(
                    "false well",
                    "at \(Trace.time(look.at)) nothing of strap \(strap) was stored since \(Trace.time(before.at))"
                )
            }
            for (name, books) in look.deliveries {
                // Frames without a rate wait for a moment, and are never delivered.
                let isOff = world.offTheSkin.joined().contains {
                    $0.from <= look.at && $0.until > look.at - Self.undelivered
                }
                guard !isOff,
                    let before = same.last(where: { $0.at <= look.at - Self.undelivered }),
                    before.deliveries[name]?.delivered == books.delivered,
                    same.allSatisfy({
                        $0.at < before.at
                            || $0.deliveries[name]?.pending ?? 0 > 0
                                && !Self.says($0, nothingArrivesBy: name)
                    })
                else { continue }
                find(
                    "false well",
                    "at \(Trace.time(look.at)) \(books.pending) of \(name) wait, and nothing arrived since \(Trace.time(before.at))"
                )
            }
        }
    }

    /// Whether status explains that nothing of a sensor is stored.
    private static func says(_ look: World.Look, nothingComesOf sensor: Int64) -> Bool {
        look.items.contains { item in
            !ofSending.contains(item.name)
                && item.sensor.map { $0 == sensor } ?? !ofDeliveries.contains(item.name)
        }
    }

    /// Whether status explains that nothing of a delivery arrives.
    private static func says(_ look: World.Look, nothingArrivesBy name: String) -> Bool {
        look.items.contains { item in
            item.deliveries?.contains(name)
                ?? !ofStraps.contains { item.name.hasPrefix($0) }
        }
    }

    // MARK: - What was sent, stored and delivered

    private static func sent(in world: World) -> [[Frame]] {
        (0..<Script.straps).map { strap in
            var frames: [Frame] = []
            for frame in world.bus.framesSent(People.address(strap))
            where frame.bytes.count > 1 && frame.bytes[0] & 1 == 0 {
                if let last = frames.last, last.bytes == frame.bytes {
                    frames[frames.count - 1].wasDoubled = true
                    continue
                }
                frames.append(
                    Frame(at: frame.at.microseconds, bpm: Int(frame.bytes[1]), bytes: frame.bytes))
            }
            return frames
        }
    }

    /// Compares the store with what was sent: each frame there at most once, at its wearer, with its time.
    private mutating func compareStore() {
        for sample in kept.values.sorted(by: { $0.uptime < $1.uptime }) {
            guard let place = place(of: sample) else {
                find(
                    "wrong time",
                    "the store has a frame at \(Trace.time(sample.uptime)) that was not sent")
                continue
            }
            let frame = frames[place.strap][place.index]
            let words =
                "in the store, strap \(place.strap) at \(Trace.time(frame.at)), \(frame.bpm)"
            frames[place.strap][place.index].stored.append(sample)
            if frame.stored.count == 1 {
                if frame.wasDoubled, sample.mayBeCopy {
                    world.trace.count("possible copies")
                } else {
                    find("twice", words)
                }
            }
            if abs(sample.uptime - frame.at) > sample.uncertainty {
                find(
                    "wrong time",
                    "\(words): \(Trace.time(sample.uptime)), off by at most \(sample.uncertainty / 1000) ms"
                )
            }
            if let patient = sample.patient { checkWearer(place, patient, words) }
        }
    }

    private struct Place {
        var strap: Int
        var index: Int
    }

    private func place(of sample: KeptSample) -> Place? {
        guard
            let strap = (0..<Script.straps).first(where: { People.address($0) == sample.address }),
            let index = frameIndex[strap][sample.bytes]
        else { return nil }
        return Place(strap: strap, index: index)
    }

    private mutating func checkWearer(_ place: Place, _ patient: Int, _ words: String) {
        let wearers = truth.wearers(of: place.strap, at: frames[place.strap][place.index].at)
        guard !wearers.contains(patient) else { return }
        find("wrong patient", "\(words): worn by \(Self.names(wearers)), not by \(patient)")
    }

    private static func names(_ wearers: Set<Int?>) -> String {
        wearers.map { $0.map { "\($0)" } ?? "nobody" }.sorted().joined(separator: " or ")
    }

    /// A data point that a destination has.
    private struct Point {
        var uuid: String
        var bpm: Double
        var time: String
        var patient: Int?
    }

    /// Compares what a destination has with the frames; gives how often each arrived.
    private mutating func compare(_ points: [Point], of who: String) -> [[Int]] {
        var arrived = frames.map { Array(repeating: 0, count: $0.count) }
        // Data points whose sample is unknown are matched by their time, the closest matches first.
        var ranked: [[Point]] = [[], [], []]
        for point in points {
            if sample(of: point) != nil {
                ranked[0].append(point)
            } else {
                let place = Self.time(point.time).flatMap { time in
                    nearest(to: time, bpm: Int(point.bpm), arrived, within: Self.exact)
                }
                ranked[place == nil ? 2 : 1].append(point)
            }
        }
        for point in ranked.flatMap(\.self) {
            let words = "\(who): \(point.bpm) at \(point.time)"
            guard let time = Self.time(point.time) else {
                find("wrong time", words)
                continue
            }
            // It may have been stored and erased in no time: then the nearest frame that is not in the store must do.
            let sample = sample(of: point)
            guard
                let place = sample.map(place(of:))
                    ?? nearest(to: time, bpm: Int(point.bpm), arrived, within: Self.exact)
                    ?? nearest(to: time, bpm: Int(point.bpm), arrived, within: Self.vague)
            else {
                find("wrong time", "\(words): no strap sent that then")
                continue
            }
            let frame = frames[place.strap][place.index]
            if frame.bpm != Int(point.bpm) { find("wrong time", "\(words): it was \(frame.bpm)") }
            let off = abs(time - frame.at)
            world.trace.count("off by \(off / 100_000 * 100) ms")
            if let sample, off > sample.uncertainty + max(Self.clockStep, world.stepMax) {
                find("wrong time", "\(words): it was sent at \(Trace.time(frame.at))")
            }
            arrived[place.strap][place.index] += 1
            if arrived[place.strap][place.index] == 2, let sample,
                !(frame.wasDoubled && sample.mayBeCopy)
            {
                find("twice", "\(words), strap \(place.strap)")
            }
            if let patient = point.patient, sample != nil || off < Self.exact {
                checkWearer(place, patient, words)
            }
        }
        return arrived
    }

    /// The sample of a data point, as the store has it or had it before a command removed it.
    private func sample(of point: Point) -> KeptSample? {
        kept[point.uuid] ?? world.stored[point.uuid]
    }

    /// The frame with this rate that was sent nearest to a time, of those that the store does not have and that have
    /// not arrived; one that may have been lost only where there is no other.
    private func nearest(
        to time: Int64, bpm: Int, _ arrived: [[Int]], within limit: Int64
    ) -> Place? {
        var best: (place: Place, distance: Int64)?
        for strap in 0..<Script.straps {
            for (index, frame) in frames[strap].enumerated()
            where frame.bpm == bpm && frame.stored.isEmpty && arrived[strap][index] == 0 {
                let off = abs(frame.at - time)
                guard off < limit else { continue }
                let distance = off + (truth.mayBeLost(strap, at: frame.at) ? limit : 0)
                if distance < best?.distance ?? .max {
                    best = (Place(strap: strap, index: index), distance)
                }
            }
        }
        return best?.place
    }

    /// Gives how often each frame arrived at the exchange.
    private mutating func compareExchange() -> [[Int]] {
        let exchange = world.exchange
        guard let rows = world.valueOfWorld({ await exchange.stored }),
            let duplicates = world.valueOfWorld({ await exchange.duplicates }),
            let overlaps = world.valueOfWorld({ await exchange.overlappingRequests })
        else {
            find("simulation", "the exchange does not answer")
            return frames.map { $0.map { _ in 0 } }
        }
        for (uuid, times) in duplicates.sorted(by: { $0.key < $1.key }) {
            find("twice", "\(uuid) \(times) times at the exchange")
        }
        // A real exchange may store both.
        if overlaps > 0 {
            find("twice", "\(overlaps) requests while the exchange was at work on one of the same")
        }
        let arrived = compare(
            rows.map { row in
                Point(
                    uuid: row.dataPoint["header"]?["uuid"]?.string ?? "",
                    bpm: row.beatsPerMinute ?? 0, time: row.effectiveTime ?? "",
                    patient: row.patient - ExchangeSeed.patient(0))
            }, of: "exchange")
        lookForMissing(arrived) { !$0.isOfWebhook }
        return arrived
    }

    /// - Parameters:
    ///   - arrived: how often each frame is at a destination.
    ///   - isOwn: whether the samples are the destination's own.
    private mutating func lookForMissing(_ arrived: [[Int]], _ isOwn: (KeptSample) -> Bool) {
        for strap in 0..<Script.straps {
            for (index, frame) in frames[strap].enumerated()
            where frame.hasRate && arrived[strap][index] == 0
                && frame.stored.first.map(isOwn) ?? false
            {
                judgeMissing(frame, of: strap)
            }
        }
    }

    private mutating func judgeMissing(_ frame: Frame, of strap: Int) {
        let words = self.words(frame, of: strap)
        switch frame.stored.first?.fate {
        case .listed(let reason): world.trace.count("listed \(reason)")
        case .waiting: find("held for ever", words)
        case .delivered, nil: find("lost", "\(words): the store says it was delivered")
        }
    }

    private func words(_ frame: Frame, of strap: Int) -> String {
        let wearers = Self.names(truth.wearers(of: strap, at: frame.at))
        return "strap \(strap) at \(Trace.time(frame.at)), \(frame.bpm), of \(wearers)"
    }

    /// Looks for frames of somebody that neither a destination nor the store has. What has arrived may have been erased.
    private mutating func lookForUnstored(_ arrived: [[Int]]) {
        var missing: [String] = []
        let removed = Set(world.stored.values.filter(\.isListed).map(\.bytes))
        for strap in 0..<Script.straps {
            for (index, frame) in frames[strap].enumerated()
            where frame.hasRate && frame.stored.isEmpty && arrived[strap][index] == 0 {
                let wearers = truth.wearers(of: strap, at: frame.at)
                let isErased = wearers.contains { patient in
                    patient.map { truth.mayBeErased($0, sentAt: frame.at) } ?? false
                }
                if wearers.contains(nil) || isErased || truth.mayBeLost(strap, at: frame.at) {
                    continue
                }
                if removed.contains(frame.bytes) {
                    world.trace.count("listed, and removed")
                    continue
                }
                missing.append(words(frame, of: strap))
            }
        }
        if world.storeMax != nil, !missing.isEmpty {
            // A store that is full counts what it gives up; an erasure takes the patient's part of that.
            let hasErased = world.given.contains {
                if case .erase = $0.command { $0.isOver } else { false }
            }
            let listed = kept.values.count { $0.isListed }
            guard !hasErased, missing.count > givenUp - listed else { return }
            find("lost", "\(missing.count) frames, of which the store counts \(givenUp - listed)")
        }
        for words in missing { find("lost", words) }
    }

    /// Gives how often each frame arrived at the receiver of webhooks.
    private mutating func compareWebhook() -> [[Int]] {
        var known: Set<String> = []
        let points = world.network.webhook.received.filter { known.insert($0.uuid).inserted }
        let arrived = compare(
            points.map { point in
                Point(
                    uuid: point.uuid, bpm: point.bpm, time: point.time,
                    patient: point.patient.flatMap { Int($0) }.map { $0 - ExchangeSeed.patient(0) })
            }, of: "webhook")
        lookForMissing(arrived) { $0.isOfWebhook }
        return arrived
    }

    /// µs of the world.
    static func time(_ text: String) -> Int64? {
        // A clock may have been set back.
        let days: [String: Int64] = ["2026-02-28T": -86_400_000_000, "2026-03-01T": 0]
        guard let day = days[String(text.prefix(11))] else { return nil }
        let parts = text.dropFirst(11).prefix { "0123456789:.".contains($0) }.split(separator: ":")
        guard parts.count == 3, let hours = Int64(parts[0]), let minutes = Int64(parts[1]),
            let seconds = Double(parts[2])
        else { return nil }
        return day + (hours * 3_600 + minutes * 60) * 1_000_000
            + Int64((seconds * 1_000_000).rounded())
    }
}
