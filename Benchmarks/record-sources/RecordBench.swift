import Figures
import Foundation
import Testbed

/// What the measurement is made with.
struct Tools: Sendable {
    var gateway: URL
    var python: String
    var script: String
}

/// Records eight simulated straps with the gateway and with a recorder made of bleak and sqlite3,
/// and prints what each of them costs (Benchmarks/record).
@main
struct RecordBench {
    /// What CPU time may be of the peer's.
    private static let cpuShareMax = 1.0 / 5
    /// What memory of its own the gateway may use, in KiB.
    private static let anonymousKiBMax = 12 * 1024
    /// From bluetoothd's start to the next row.
    private static let restartSecondsMax = 15.0
    /// From a strap's power-on to its first sample.
    private static let powerOnSecondsMax = 5.0
    /// A recorder that has not come back by then does not.
    private static let recoverySecondsMax = 30
    /// A strap is away for these times: odd ones, so that it comes back at no round moment, one of
    /// them longer than bluetoothd remembers a strap that it does not hear.
    private static let absences: [Duration] = [
        .milliseconds(3300), .milliseconds(11_700), .milliseconds(33_100),
    ]

    private struct Report: Codable {
        var straps: Int
        var ours: [RecordingRun.Cost]
        var peer: [RecordingRun.Cost]
        var verdicts: [Verdict]
    }

    static func main() async {
        let words = CommandLine.arguments
        guard words.count == 6, let seconds = Int(words[4]), (5...3600).contains(seconds) else {
            FileHandle.standardError.write(
                Data("usage: record-bench GATEWAY PYTHON PEER SECONDS JSON\n".utf8))
            exit(2)
        }
        let tools = Tools(gateway: URL(filePath: words[1]), python: words[2], script: words[3])
        do {
            let report = try await measure(tools, seconds: seconds)
            print(Verdict.header)
            for verdict in report.verdicts { print(verdict.line) }
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            encoder.keyEncodingStrategy = .convertToSnakeCase
            try encoder.encode(report).write(to: URL(filePath: words[5]))
            exit(report.verdicts.contains { $0.isReached == false } ? 1 : 0)
        } catch {
            FileHandle.standardError.write(Data("record: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func measure(_ tools: Tools, seconds: Int) async throws -> Report {
        var report = Report(straps: RecordingRun.straps.count, ours: [], peer: [], verdicts: [])
        for hertz in [20, 1] {
            let count = RecordingRun.straps.count * hertz * seconds
            let ours = try await RecordingRun.with(
                hertz: hertz, tools: tools,
                { bus in
                    try Ours(binary: tools.gateway, bus: bus)
                }
            ) { run in
                let cost = try await run.cost(of: count, hertz: hertz)
                return (cost, hertz == 1 ? try await recovery(of: run) : nil)
            }
            let peer = try await RecordingRun.with(
                hertz: hertz, tools: tools,
                { bus in
                    try Peer(python: tools.python, script: tools.script, bus: bus)
                }
            ) { run in
                let cost = try await run.cost(of: count, hertz: hertz)
                return (cost, hertz == 1 ? try await recovery(of: run) : nil)
            }
            report.ours.append(ours.0)
            report.peer.append(peer.0)
            report.verdicts += verdicts(ours.0, peer.0)
            if let ours = ours.1, let peer = peer.1 { report.verdicts += verdicts(ours, peer) }
        }
        return report
    }

    // MARK: Cost

    private static func verdicts(
        _ ours: RecordingRun.Cost, _ peer: RecordingRun.Cost
    ) -> [Verdict] {
        let at = "at \(ours.hertz) Hz"
        // The goal is for many frames; at one a second both mostly wake up and go to sleep.
        let hasGoal = ours.hertz == 20
        let share = ours.cpuMicroseconds / peer.cpuMicroseconds
        return [
            Verdict(
                figure: "CPU a notification, \(at)", goal: hasGoal ? "peer/5" : "",
                ours: ours.cpuMicroseconds, peer: peer.cpuMicroseconds, unit: "µs",
                isReached: hasGoal ? share <= cpuShareMax : nil),
            Verdict(
                figure: "resident memory, \(at)", goal: "under peer",
                ours: mebibytes(ours.memory.residentKiB), peer: mebibytes(peer.memory.residentKiB),
                unit: "MiB", isReached: ours.memory.residentKiB < peer.memory.residentKiB),
            Verdict(
                figure: "anonymous memory, \(at)", goal: "12 MiB",
                ours: mebibytes(ours.memory.anonymousKiB),
                peer: mebibytes(peer.memory.anonymousKiB), unit: "MiB",
                isReached: ours.memory.anonymousKiB <= anonymousKiBMax),
            Verdict(
                figure: "notifications without a row, \(at)", goal: "0",
                ours: Double(ours.sent - ours.rows), peer: Double(peer.sent - peer.rows), unit: "",
                isReached: ours.sent == ours.rows),
        ]
    }

    private static func mebibytes(_ kibibytes: Int) -> Double { Double(kibibytes) / 1024 }

    // MARK: Recovery

    /// The worst times; nil when it never came back.
    private struct Recovery {
        var powerOn: Double?
        var restart: Double?
        var sent = 0
        var rows = 0
    }

    private static func recovery(of run: RecordingRun) async throws -> Recovery {
        var recovery = Recovery()
        var powerOns: [Double?] = []
        for absence in absences {
            powerOns.append(
                try await run.secondsToSampleAfterPowerOn(off: absence, limit: recoverySecondsMax))
        }
        recovery.powerOn = worst(powerOns)
        recovery.restart = try await run.secondsToRowAfterRestart(limit: recoverySecondsMax)
        (recovery.sent, recovery.rows) = try await run.rowsOnceQuiet()
        return recovery
    }

    private static func worst(_ times: [Double?]) -> Double? {
        times.contains { $0 == nil } ? nil : times.compactMap { $0 }.max()
    }

    private static func verdicts(_ ours: Recovery, _ peer: Recovery) -> [Verdict] {
        [
            Verdict(
                figure: "power-on to first sample, worst of 3", goal: "5 s",
                ours: ours.powerOn, peer: peer.powerOn, unit: "s",
                isReached: ours.powerOn.map { $0 <= powerOnSecondsMax } ?? false),
            Verdict(
                figure: "bluetoothd restart to next row", goal: "15 s",
                ours: ours.restart, peer: peer.restart, unit: "s",
                isReached: ours.restart.map { $0 <= restartSecondsMax } ?? false),
            Verdict(
                figure: "notifications without a row, after that", goal: "0",
                ours: Double(ours.sent - ours.rows), peer: Double(peer.sent - peer.rows), unit: "",
                isReached: ours.sent == ours.rows),
        ]
    }
}
