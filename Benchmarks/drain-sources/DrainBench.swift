import Figures
import Foundation

/// Drains a backlog into a stand-in exchange in this process, with the gateway and with a client made
/// of requests and sqlite3, and prints what each of them costs (Benchmarks/drain).
@main
struct DrainBench {
    /// CPU time of the gateway for the whole backlog, in seconds.
    private static let cpuSecondsMax = 1.0
    /// Resident memory the gateway may take beyond what it has while it waits, in KiB: it must not grow
    /// with the backlog.
    private static let peakKiBMax = 4 * 1024

    private struct Report: Codable {
        var samples: Int
        var ours: DrainCost
        var peer: DrainCost
        var verdicts: [Verdict]
    }

    static func main() async {
        let words = CommandLine.arguments
        guard words.count == 6, let samples = Int(words[4]), (100...1_000_000).contains(samples)
        else {
            FileHandle.standardError.write(
                Data("usage: drain-bench GATEWAY PYTHON PEER SAMPLES JSON\n".utf8))
            exit(2)
        }
        let backlog = Backlog(samples: samples)
        do {
            let ours = try await GatewayDrain(binary: URL(filePath: words[1])).cost(of: backlog)
            let peer = try await PeerDrain(python: words[2], script: words[3]).cost(of: backlog)
            let report = Report(
                samples: samples, ours: ours, peer: peer,
                verdicts: verdicts(ours, peer, isWhole: samples == Backlog.samplesFull))
            print(Verdict.header)
            for verdict in report.verdicts { print(verdict.line) }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            encoder.keyEncodingStrategy = .convertToSnakeCase
            try encoder.encode(report).write(to: URL(filePath: words[5]))
            exit(report.verdicts.contains { $0.isReached == false } ? 1 : 0)
        } catch {
            FileHandle.standardError.write(Data("drain: \(error)\n".utf8))
            exit(1)
        }
    }

    /// - Parameter isWhole: whether it is the backlog that the goal for CPU time is stated for.
    private static func verdicts(
        _ ours: DrainCost, _ peer: DrainCost, isWhole: Bool
    ) -> [Verdict] {
        [
            Verdict(
                figure: "CPU time", goal: isWhole ? "1 s" : "", ours: ours.cpuSeconds,
                peer: peer.cpuSeconds, unit: "s",
                isReached: isWhole ? ours.cpuSeconds <= cpuSecondsMax : nil),
            Verdict(
                figure: "peak of resident memory above idle", goal: "4 MiB",
                ours: Double(ours.peakKiB) / 1024, peer: Double(peer.peakKiB) / 1024, unit: "MiB",
                isReached: ours.peakKiB <= peakKiBMax),
            Verdict(
                figure: "time from first to last", goal: "under peer", ours: ours.wallSeconds,
                peer: peer.wallSeconds, unit: "s", isReached: ours.wallSeconds < peer.wallSeconds),
            Verdict(
                figure: "bundles", goal: "", ours: Double(ours.bundles),
                peer: Double(peer.bundles), unit: "", isReached: nil),
            Verdict(
                figure: "observations missing, twice or lost", goal: "0",
                ours: Double(ours.faults), peer: Double(peer.faults), unit: "",
                isReached: ours.faults == 0),
        ]
    }
}
