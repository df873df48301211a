import Figures
import Foundation

/// Drains a backlog into a stand-in exchange in this process, with the gateway and with a client made
/// of requests and sqlite3, and writes down what each of them costs, and how well they use an exchange that
/// is as slow as a real one (Benchmarks/drain).
@main
struct DrainBench {
    /// CPU time of the gateway for the whole backlog, in seconds.
    private static let cpuSecondsMax = 1.0
    /// Resident memory the gateway may take beyond what it has while it waits, in KiB: it must not grow
    /// with the backlog.
    private static let peakKiBMax = 4 * 1024
    /// What other programs of the machine do to a time.
    private static let timingNoise = 0.1

    /// The part of the time in which an exchange's workers may be idle while a backlog waits.
    private static let idleMax = 0.05
    /// The least that a delivery may be served, as part of what the one served most is.
    private static let fairnessMin = 0.8
    /// What the exchange takes for an entry: the development head, and v0.0.13 (docs/develop/exchange.md, "Throughput").
    private static let paces = (head: Duration.milliseconds(7), v0013: Duration.milliseconds(18))

    private struct Detail: Codable {
        var samples: Int
        var ours: DrainCost
        var peer: DrainCost
        var used: [Used]
    }

    /// A drain into an exchange with a pace of its own.
    private struct Used: Codable {
        var deliveries: Int
        var millisecondsAnEntry: Double
        var ours: PacedDrain.Use
        var peer: PacedDrain.Use?
    }

    static func main() async {
        let words = CommandLine.arguments
        guard words.count == 6, let samples = Int(words[4]), (100...1_000_000).contains(samples)
        else { complain("usage: drain-bench GATEWAY PYTHON PEER SAMPLES JSON", status: 2) }
        let backlog = Backlog(samples: samples)
        await leave("drain", at: words[5]) {
            let binary = URL(filePath: words[1])
            let client = PeerDrain(python: words[2], script: words[3])
            let ours = try await GatewayDrain(binary: binary).cost(of: backlog)
            let peer = try await client.cost(of: backlog)
            var used: [Used] = []
            for drain in [
                PacedDrain(deliveries: 1, samples: 3_000, pace: paces.head),
                PacedDrain(deliveries: 4, samples: 2_500, pace: paces.head),
                PacedDrain(deliveries: 8, samples: 2_000, pace: paces.v0013),
            ] {
                used.append(
                    Used(
                        deliveries: drain.deliveries,
                        millisecondsAnEntry: drain.pace / .milliseconds(1),
                        ours: try await drain.use(by: binary),
                        peer: drain.deliveries == 1 ? try await drain.use(by: client) : nil))
            }
            return Report(
                figures: figures(ours, peer, isWhole: samples == Backlog.samplesFull)
                    + used.flatMap(figures),
                detail: Detail(samples: samples, ours: ours, peer: peer, used: used))
        }
    }

    private static func figures(_ used: Used) -> [Verdict] {
        let name =
            "drain, \(used.deliveries) deliver\(used.deliveries == 1 ? "y" : "ies"), "
            + "\(Int(used.millisecondsAnEntry)) ms an entry: "
        func figure(
            _ what: String, _ goal: String, _ unit: String, limit: Double,
            _ value: (PacedDrain.Use) -> Double
        ) -> Verdict {
            Verdict(
                figure: name + what, goal: goal, ours: value(used.ours), limit: limit,
                peers: used.peer.map { ["requests, sqlite3": value($0)] } ?? [:], unit: unit)
        }
        var figures = [
            figure("workers idle", "≤ 5 %", "%", limit: idleMax * 100) { $0.idle * 100 },
            figure("missing, twice or lost", "0", "", limit: 0) { Double($0.faults) },
        ]
        if used.deliveries > 1 {
            figures.append(
                figure("most served to least", "≤ 1.25", "", limit: 1 / fairnessMin) {
                    1 / max($0.fairness, 0.001)
                })
        }
        return figures
    }

    /// - Parameter isWhole: whether it is the backlog that the goal for CPU time is stated for.
    private static func figures(
        _ ours: DrainCost, _ peer: DrainCost, isWhole: Bool
    ) -> [Verdict] {
        func figure(
            _ name: String, _ goal: String, _ unit: String, limit: Double?, noise: Double = 0,
            _ value: (DrainCost) -> Double
        ) -> Verdict {
            Verdict(
                figure: name, goal: goal, ours: value(ours), limit: limit, noise: noise,
                peers: ["requests, sqlite3": value(peer)], unit: unit)
        }
        return [
            figure(
                "drain \(isWhole ? "30,186" : "fewer"): CPU",
                isWhole ? "≤ 1 s" : "", "s", limit: isWhole ? cpuSecondsMax : nil,
                noise: timingNoise, \.cpuSeconds),
            figure(
                "drain: resident peak above idle", "≤ 4 MiB", "MiB",
                limit: Double(peakKiBMax) / 1024
            ) { Double($0.peakKiB) / 1024 },
            figure(
                "drain: time from first to last", "≤ peer", "s", limit: peer.wallSeconds,
                noise: timingNoise, \.wallSeconds),
            figure("drain: bundles", "", "", limit: nil) { Double($0.bundles) },
            figure("drain: missing, twice or lost", "0", "", limit: 0) { Double($0.faults) },
        ]
    }
}
