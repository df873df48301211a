import Basics
import Foundation
import OfflineQueue
import Testbed

/// Compares three accounts of a run: what the straps were told to send, what the gateway says it has
/// and did, and what the exchange holds.
struct ChaosJudge {
    /// What a kill may cost (docs/operate/operations.md): the time of a group commit, and the tick by which it
    /// may be late, in seconds.
    private static let commitSeconds = 5.0 + 1
    /// How long after the disk is freed what waited in memory may still wait, in seconds.
    private static let retrySeconds = 60.0

    private(set) var faults: [String] = []
    private(set) var summary: [String] = []
    /// How much later frames came to the gateway than they were sent, at most, in seconds.
    private var latest = 0.0

    let run: ChaosRun
    let store: ChaosStore

    /// - Parameter isPruned: whether samples are gone that gaps would have to lie between.
    init(
        _ run: ChaosRun, _ store: ChaosStore, _ status: GatewayStatus, isPruned: Bool = false
    ) async throws {
        self.run = run
        self.store = store
        try checkBooks(status)
        await checkExchange(status)
        checkFrames(status)
        if !isPruned {
            for hole in try store.holes(run.clock) { fault("ledger of gaps", hole) }
        }
        let said = run.log.said.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        summary.append("status said, in so many minutes: \(said.joined(separator: ", "))")
        for falseWell in run.log.falseWells { fault("health", falseWell) }
        let audit = try SampleQueue.verify(path: store.path)
        if !audit.isClean { fault("store", "\(audit)") }
    }

    private mutating func fault(_ kind: String, _ text: String) {
        faults.append("\(kind): \(text)")
    }

    // MARK: The gateway's own books

    private mutating func checkBooks(_ status: GatewayStatus) throws {
        let balance = status.balance
        if !balance.addsUp || !balance.balanced { fault("books", "\(balance)") }
        let clockless = try store.clockless()
        if balance.unsent != clockless || balance.buffered != 0 {
            let health = status.health.map { "\($0.name): \($0.message)" }
            fault("not drained", "\(balance), of these clockless \(clockless); \(health)")
        }
        if balance.dead != 0 { fault("dead letters", "\(balance.dead)") }
        summary.append(
            "received \(balance.received) = stored \(balance.stored) + undecodable "
                + "\(balance.undecodable) + refused \(balance.refused.values.reduce(0, +))")
        summary.append(
            "stored \(balance.stored) = delivered \(balance.delivered) + pending "
                + "\(balance.pending) + held \(balance.held) + dead \(balance.dead) + dropped "
                + "\(balance.dropped)")
    }

    // MARK: The exchange's records

    private mutating func checkExchange(_ status: GatewayStatus) async {
        let exchange = run.exchange
        let rows = await exchange.stored
        if rows.count != status.balance.delivered {
            fault("exchange", "holds \(rows.count) of \(status.balance.delivered) delivered")
        }
        let orphans = await exchange.orphans
        if orphans != 0 { fault("exchange", "\(orphans) orphans") }
        let overlaps = await exchange.overlappingRequests
        if overlaps != 0 { fault("exchange", "\(overlaps) requests at once with the same samples") }
        let sent = TestWorld.addresses.indices.map(run.straps.sent)
        var seen: Set<String> = []
        var frames: Set<[Int]> = []
        var worst = Duration.zero
        for row in rows {
            guard let identity = row.identifiers.first?.value, let sample = store.samples[identity]
            else {
                fault("unknown sample", "\(row.identifiers)")
                continue
            }
            if !seen.insert(identity).inserted { fault("twice", identity) }
            guard let number = sample.number, sent[sample.strap].indices.contains(number) else {
                fault("invented frame", identity)
                continue
            }
            if !frames.insert([sample.strap, number]).inserted {
                fault("frame twice", "strap \(sample.strap) frame \(number)")
            }
            worst = max(worst, check(row, sample, number, sent[sample.strap][number]))
        }
        summary.append(
            "exchange \(rows.count) samples; times at most \(worst / .milliseconds(1)) ms off; from strap to "
                + "gateway up to \(latest) s")
    }

    /// One sample at the exchange; how far its time is off.
    private mutating func check(
        _ row: StoredObservation, _ sample: ChaosStore.Sample, _ number: Int,
        _ sent: ChaosStraps.Sent
    ) -> Duration {
        let name = "strap \(sample.strap) frame \(number)"
        if let patient = sent.patient, patient != row.patient {
            fault("wrong patient", "\(name): \(patient) wore it, \(row.patient) has it")
        }
        if sample.patient != row.patient { fault("patient", "\(name): the store says another") }
        if row.beatsPerMinute != Double(ChaosStraps.bpm(number)) {
            fault("rate", "\(name): \(row.beatsPerMinute ?? -1)")
        }
        guard let text = row.effectiveTime, let time = Self.utc(text),
            let arrived = run.clock.truth(
                boot: sample.boot, uptime: Uptime(microseconds: sample.uptime))
        else {
            fault("time", "\(name): \(row.effectiveTime ?? "none") of \(sample.boot)")
            return .zero
        }
        let off = max(time - arrived, arrived - time)
        if off > ChaosScript.stepMax + .milliseconds(200) {
            fault("wrong time", "\(name): \(text) is \(off / .milliseconds(1)) ms off")
        }
        // The world's clock is fast: what is a moment for this machine is seconds there, on the way of a frame too.
        let way = (arrived - sent.at).inSeconds
        if abs(way) > sample.uncertainty + ChaosRun.waySecondsMax {
            fault("arrival", "\(name): \(way) s after it was sent, ± \(sample.uncertainty) s")
        }
        latest = max(latest, way)
        return off
    }

    private static func utc(_ text: String) -> UTC? {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        guard let date = (try? style.parse(text)) ?? (try? Date.ISO8601FormatStyle().parse(text))
        else { return nil }
        return UTC(microseconds: Int64((date.timeIntervalSince1970 * 1e6).rounded()))
    }

    // MARK: The straps

    private mutating func checkFrames(_ status: GatewayStatus) {
        var stored: [Set<Int>] = Array(repeating: [], count: TestWorld.addresses.count)
        for sample in store.samples.values {
            guard stored.indices.contains(sample.strap), let number = sample.number else {
                continue
            }
            if !stored[sample.strap].insert(number).inserted {
                fault("stored twice", "strap \(sample.strap) frame \(number)")
            }
        }
        let late = ChaosRun.waySecondsMax
        let (deaths, breaks, full) = (run.log.deaths, run.log.breaks, run.log.full)
        var wentOut = 0
        var byKill: [UTC: Duration] = [:]
        var inTransit = 0
        for strap in TestWorld.addresses.indices {
            for (number, frame) in run.straps.sent(strap).enumerated() {
                guard frame.wentOut else {
                    if stored[strap].contains(number) {
                        fault("heard nothing", "strap \(strap) frame \(number) is stored")
                    }
                    continue
                }
                wentOut += 1
                guard frame.content != .malformed, !stored[strap].contains(number) else { continue }
                let slack = Duration.seconds(late)
                let death = deaths.first { $0 + slack >= frame.at }
                if let death, isLost(frame.at, by: death, late, full) {
                    byKill[death] = max(byKill[death] ?? .zero, death - frame.at)
                } else if breaks.contains(where: {
                    (frame.at - slack...frame.at + slack).contains($0)
                }) {
                    inTransit += 1
                } else {
                    let at = (frame.at - FastClock.epoch).inSeconds
                    fault("lost", "strap \(strap) frame \(number) sent at \(at) s")
                }
            }
        }
        let received = status.balance.received
        if received > wentOut { fault("frames", "\(received) received of \(wentOut) sent") }
        // While the disk is full a kill costs what waits in memory.
        let usualCosts = byKill.filter { death, _ in !isWaiting(death, full) }
            .map(\.value.inSeconds).sorted()
        let usual = usualCosts.isEmpty ? 0 : usualCosts[usualCosts.count / 2]
        if usual > Self.commitSeconds + late {
            fault("kills", "cost \(usual) s each")
        }
        let most = byKill.values.map(\.inSeconds).max() ?? 0
        summary.append(
            "straps sent \(wentOut) over a link; \(wentOut - received) lost: \(deaths.count) deaths "
                + "cost \(usual) s, at most \(most) s; \(inTransit) in transit when bus "
                + "or link broke")
    }

    private func isLost(
        _ at: UTC, by death: UTC, _ late: Double, _ full: [(from: UTC, until: UTC)]
    ) -> Bool {
        if (death - at).inSeconds <= Self.commitSeconds + late { return true }
        // With a full disk frames wait in memory.
        return full.contains { from, until in
            isWaiting(death, [(from, until)]) && at >= from - .seconds(Self.commitSeconds + late)
        }
    }

    /// Whether frames wait in memory then because the disk is full, or was a moment ago.
    private func isWaiting(_ at: UTC, _ full: [(from: UTC, until: UTC)]) -> Bool {
        full.contains { from, until in at >= from && at <= until + .seconds(Self.retrySeconds) }
    }
}
