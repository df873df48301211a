import Figures
import Foundation
import Testbed

/// How well an exchange is used that works at its own pace, with two workers as gunicorn starts them
/// (docs/develop/exchange.md, "Throughput").
struct PacedDrain {
    /// What a drain came to, from when each delivery had begun until the first had no more.
    struct Use: Codable {
        /// Part of that time in which workers that had a delivery to serve were idle.
        var idle: Double
        /// What the delivery that was served least had stored, as part of what the one served most had.
        var fairness: Double
        /// Observations the exchange lacks or has too many, stored twice, or raced for.
        var faults: Int
    }

    /// How many workers the exchange has.
    static let workers = 2

    private static let lookPause = Duration.milliseconds(20)
    /// A client that brings nothing for so long does not come.
    private static let silence = Duration.seconds(90)

    /// How many patients' backlogs wait, each with an enrollment of its own.
    let deliveries: Int
    /// Samples of each.
    let samples: Int
    /// What the exchange takes for an entry.
    let pace: Duration

    /// What a gateway makes of it.
    func use(by binary: URL) async throws -> Use {
        let backlogs = (0..<deliveries).map { Backlog(samples: samples, strap: $0) }
        return try await DrainWorld.with(binary, deliveries: deliveries) { gateway, exchange in
            try await gateway.start()
            try await DrainWorld.fill(gateway, exchange, backlogs)
            await slow(exchange)
            // All begin at once: else each would at the end of its own pause.
            await gateway.stop()
            try await exchange.restoreNetwork()
            try await gateway.start()
            return try await use(of: exchange)
        }
    }

    /// What the peer makes of it, which knows one patient.
    func use(by peer: PeerDrain) async throws -> Use {
        try await peer.with(Backlog(samples: samples)) { process, exchange in
            await slow(exchange)
            process.signal(SIGCONT)
            return try await use(of: exchange)
        }
    }

    private func slow(_ exchange: StandInExchange) async {
        await exchange.setWorkers(Self.workers)
        await exchange.setPace(perEntry: pace)
    }

    private func use(of exchange: StandInExchange) async throws -> Use {
        let first = try await reach(exchange) { $0.allSatisfy { $0 > 0 } }
        let last = try await reach(exchange) { $0.contains { $0 >= samples } }
        _ = try await reach(exchange) { $0.allSatisfy { $0 >= samples } }
        let served = zip(last.stored, first.stored).map { Double($0 - $1) }
        let wanted = (last.at - first.at) * min(deliveries, Self.workers)
        return Use(
            idle: max(0, 1 - (last.worked - first.worked) / wanted),
            fairness: (served.min() ?? 0) / max(served.max() ?? 0, 1),
            faults: await DrainWorld.faults(deliveries * samples, at: exchange))
    }

    private struct Moment {
        var at: ContinuousClock.Instant
        var worked: Duration
        var stored: [Int]
    }

    private func reach(
        _ exchange: StandInExchange, _ isReached: ([Int]) -> Bool
    ) async throws -> Moment {
        var moved = ContinuousClock.now
        var latest: [Int] = []
        while true {
            var stored: [Int] = []
            for number in 0..<deliveries {
                stored.append(
                    await exchange.storedCount(patient: ExchangeSeed.patient(number)))
            }
            let now = ContinuousClock.now
            if isReached(stored) {
                return Moment(at: now, worked: await exchange.worked, stored: stored)
            }
            if stored != latest { (latest, moved) = (stored, now) }
            guard now - moved < Self.silence else {
                throw FixtureFault(description: "\(stored) of \(samples) each came")
            }
            try await Task.sleep(for: Self.lookPause)
        }
    }
}
