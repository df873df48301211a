import Figures
import Foundation
import Testbed

/// How long frames of eight straps take from the bus to the exchange's answer, and what that writes, with the interval that the
/// gateway chooses and, in the same run, with one of 30 s (Benchmarks/latency).
@main
struct LatencyBench {
    /// The age that one of a hundred frames may exceed when the exchange acknowledges it.
    private static let secondsMax = 6.0
    /// What a card should have to take in a day, from everything that runs on it.
    private static let writtenMegabytesMax = 400.0
    /// What the interval was before it followed the answers.
    private static let fixedSeconds = "30"

    private struct Detail: Codable {
        var chosen: LatencyRun.Latency
        var fixed: LatencyRun.Latency
    }

    static func main() async {
        let words = CommandLine.arguments
        guard words.count == 4, let seconds = Int(words[2]), (60...3600).contains(seconds) else {
            complain("usage: latency-bench GATEWAY SECONDS JSON", status: 2)
        }
        let run = LatencyRun(binary: URL(filePath: words[1]), time: .seconds(seconds))
        await leave("latency", at: words[3]) {
            async let chosen = run.latency(settings: [:])
            async let fixed = run.latency(
                settings: ["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": fixedSeconds])
            return report(try await chosen, try await fixed)
        }
    }

    private static func report(
        _ chosen: LatencyRun.Latency, _ fixed: LatencyRun.Latency
    ) -> Report<Detail> {
        func figure(
            _ name: String, _ goal: String, _ unit: String, limit: Double? = nil,
            _ value: (LatencyRun.Latency) -> Double
        ) -> Verdict {
            Verdict(
                figure: name, goal: goal, ours: value(chosen), limit: limit, noise: 0.1,
                peers: ["interval 30 s": value(fixed)], unit: unit)
        }
        return Report(
            figures: [
                figure("frame to answer, 8 straps, median", "", "s", \.median),
                figure(
                    "frame to answer, 8 straps, p99", "≤ 6 s", "s", limit: secondsMax,
                    \.percentile99),
                figure("requests a minute, 8 straps", "", "", \.requestsPerMinute),
                figure(
                    "written to the disk, 8 straps of 8 patients", "≤ 400 MB a day", "MB",
                    limit: writtenMegabytesMax, \.writtenMegabytesADay),
                figure("latency: twice or orphans", "0", "", limit: 0) { Double($0.faults) },
            ], detail: Detail(chosen: chosen, fixed: fixed))
    }
}
