import Figures
import Foundation

/// Drains a backlog into a stand-in exchange in this process, with the gateway and with a client made
/// of requests and sqlite3, and writes down what each of them costs (Benchmarks/drain).
@main
struct DrainBench {
    /// CPU time of the gateway for the whole backlog, in seconds.
    private static let cpuSecondsMax = 1.0
    /// Resident memory the gateway may take beyond what it has while it waits, in KiB: it must not grow
    /// with the backlog.
    private static let peakKiBMax = 4 * 1024
    /// What other programs of the machine do to a time.
    private static let timingNoise = 0.1

    private struct Detail: Codable {
        var samples: Int
        var ours: DrainCost
        var peer: DrainCost
    }

    static func main() async {
        let words = CommandLine.arguments
        guard words.count == 6, let samples = Int(words[4]), (100...1_000_000).contains(samples)
        else { complain("usage: drain-bench GATEWAY PYTHON PEER SAMPLES JSON", status: 2) }
        let backlog = Backlog(samples: samples)
        await leave("drain", at: words[5]) {
            let ours = try await GatewayDrain(binary: URL(filePath: words[1])).cost(of: backlog)
            let peer = try await PeerDrain(python: words[2], script: words[3]).cost(of: backlog)
            return Report(
                figures: figures(ours, peer, isWhole: samples == Backlog.samplesFull),
                detail: Detail(samples: samples, ours: ours, peer: peer))
        }
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
