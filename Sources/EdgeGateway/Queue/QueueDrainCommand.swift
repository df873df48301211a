import Basics
import ArgumentParser
import Foundation

struct QueueDrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain", abstract: "Waits until everything that can be sent is delivered.",
        discussion: """
            Use it before you move a gateway or take it off the network. It only watches: recording \
            goes on, and deliveries keep their pace. It does not wait for samples that are recorded \
            meanwhile. Exits with 1 if samples are held, or if the time runs out.

            Example: edge-gateway queue drain --seconds 600
            """)

    /// Between two checks.
    private static let pause = Duration.seconds(1)

    @Option(help: "Give up after this many seconds (default: never).")
    var seconds: Int?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        if let seconds, seconds < 1 { throw ValidationError("--seconds takes 1 or more") }
    }

    func run() async throws {
        let client = try await daemon.client()
        let clock = ContinuousClock()
        let end = seconds.map { clock.now + .seconds($0) }
        var balance = try await look(client)
        // What waits now, without samples that are recorded or held later.
        let goal = balance.gone + balance.pending + balance.buffered
        let begun = balance.settled
        var line: ProgressLine? = ProgressLine("delivering")
        while balance.gone < goal, balance.pending + balance.buffered > 0,
            end.map({ clock.now < $0 }) ?? true
        {
            line?.show("\(goal - balance.gone) to go")
            try await Task.sleep(for: Self.pause)
            balance = try await look(client)
        }
        line = nil
        let left = max(0, min(goal - balance.gone, balance.pending + balance.buffered))
        try tell(balance, left: left, delivered: balance.settled - begun)
    }

    private func look(_ client: ControlClient) async throws -> BalanceReport {
        let report: QueueReport = try await client.get("/v1/queue")
        return report.balance
    }

    private func tell(_ balance: BalanceReport, left: Int, delivered: Int) throws {
        let held = balance.held.values.reduce(0, +)
        if daemon.json {
            try Terminal.printJSON(
                DrainReport(delivered: delivered, left: left, held: balance.held))
        } else {
            Terminal.print(
                "\(delivered.counted("sample")) went out; waiting: \(left), held: \(held)")
            for (reason, count) in balance.held.sorted(by: { $0.key < $1.key }) {
                Terminal.print("  \(count) held: \(reason) (edge-gateway status)")
            }
        }
        if left + held > 0 { throw ExitCode(CommandExit.notWell.rawValue) }
    }
}

/// `queue drain`
struct DrainReport: Codable, Equatable {
    /// Samples that were delivered, refused for good or dropped while the command waited.
    var delivered: Int
    /// Could be sent and were not.
    var left: Int
    /// By reason.
    var held: [String: Int]
}

extension BalanceReport {
    /// Samples that no longer wait for a destination.
    fileprivate var settled: Int { delivered + dead + dropped.values.reduce(0, +) }
    /// Nothing can be done for these now.
    fileprivate var gone: Int { settled + held.values.reduce(0, +) }
}
