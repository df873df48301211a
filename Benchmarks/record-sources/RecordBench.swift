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
/// and writes down what each of them costs (Benchmarks/record).
@main
struct RecordBench {
    /// What CPU time may be of the peer's.
    private static let cpuShareMax = 1.0 / 4
    /// The same at one frame a second, where waking up is most of it.
    private static let slowCPUShareMax = 1.0 / 2
    private static let idleTime = Duration.seconds(60)
    /// What memory of its own the gateway may use, in KiB.
    private static let anonymousKiBMax = 12 * 1024
    /// What other programs of the machine do to a time.
    private static let timingNoise = 0.1
    /// From bluetoothd's start to the next row.
    private static let restartSecondsMax = 4.0
    /// From a strap's power-on to its first sample.
    private static let powerOnSecondsMax = 5.0
    /// A recorder that has not come back by then does not.
    private static let recoverySecondsMax = 30
    /// A strap is away for these times: odd ones, so that it comes back at no round moment, one of
    /// them longer than bluetoothd remembers a strap that it does not hear.
    private static let absences: [Duration] = [
        .milliseconds(3300), .milliseconds(11_700), .milliseconds(33_100),
    ]

    private struct Detail: Codable {
        var straps: Int
        var ours: [RecordingRun.Cost]
        var peer: [RecordingRun.Cost]
        var idle: RecordingRun.Idle?
    }

    static func main() async {
        let words = CommandLine.arguments
        guard words.count == 6, let seconds = Int(words[4]), (5...3600).contains(seconds) else {
            complain("usage: record-bench GATEWAY PYTHON PEER SECONDS JSON", status: 2)
        }
        let tools = Tools(gateway: URL(filePath: words[1]), python: words[2], script: words[3])
        await leave("record", at: words[5]) { try await measure(tools, seconds: seconds) }
    }

    private static func measure(_ tools: Tools, seconds: Int) async throws -> Report<Detail> {
        var report = Report(
            figures: [], detail: Detail(straps: RecordingRun.straps.count, ours: [], peer: []))
        for hertz in [20, 1] {
            let count = RecordingRun.straps.count * hertz * seconds
            let ours = try await RecordingRun.with(
                hertz: hertz, tools: tools,
                { bus in
                    try Ours(binary: tools.gateway, bus: bus)
                }
            ) { run in
                try await measured(run, count, hertz: hertz)
            }
            let peer = try await RecordingRun.with(
                hertz: hertz, tools: tools,
                { bus in
                    try Peer(python: tools.python, script: tools.script, bus: bus)
                }
            ) { run in
                try await measured(run, count, hertz: hertz)
            }
            report.detail.ours.append(ours.cost)
            report.detail.peer.append(peer.cost)
            report.figures += figures(ours.cost, peer.cost)
            if let ours = ours.recovery, let peer = peer.recovery {
                report.figures += figures(ours, peer)
            }
            if let idle = ours.idle, let peerIdle = peer.idle {
                report.detail.idle = idle
                report.figures += wakeUps(ours.cost, peer.cost, idle, peerIdle)
            }
        }
        return report
    }

    private struct Measured {
        var cost: RecordingRun.Cost
        /// At one frame a second only, and so is the next.
        var recovery: Recovery?
        var idle: RecordingRun.Idle?
    }

    private static func measured(
        _ run: RecordingRun, _ count: Int, hertz: Int
    ) async throws -> Measured {
        let cost = try await run.cost(of: count, hertz: hertz)
        guard hertz == 1 else { return Measured(cost: cost) }
        return Measured(
            cost: cost, recovery: try await recovery(of: run),
            idle: try await run.wakeUpsWithoutStraps(over: idleTime))
    }

    // MARK: Cost

    private static func figures(
        _ ours: RecordingRun.Cost, _ peer: RecordingRun.Cost
    ) -> [Verdict] {
        let at = "\(ours.hertz) Hz"
        // At one a second both mostly wake up and go to sleep.
        let share = ours.hertz == 20 ? cpuShareMax : slowCPUShareMax
        return [
            figure(
                "CPU a notification, 8 at \(at)", "≤ peer/\(Int(1 / share))", "µs",
                limit: peer.cpuMicroseconds * share, noise: timingNoise,
                ours.cpuMicroseconds, peer.cpuMicroseconds),
            figure(
                "anonymous memory, 8 at \(at)", "≤ 12 MiB", "MiB",
                limit: mebibytes(anonymousKiBMax), mebibytes(ours.memory.anonymousKiB),
                mebibytes(peer.memory.anonymousKiB)),
            figure(
                "resident memory, 8 at \(at)", "", "MiB", limit: nil,
                mebibytes(ours.memory.residentKiB),
                mebibytes(peer.memory.residentKiB)),
            figure(
                "lost notifications, \(at)", "0", "", limit: 0,
                Double(ours.sent - ours.rows), Double(peer.sent - peer.rows)),
        ]
    }

    private static func wakeUps(
        _ ours: RecordingRun.Cost, _ peer: RecordingRun.Cost, _ idle: RecordingRun.Idle,
        _ peerIdle: RecordingRun.Idle
    ) -> [Verdict] {
        [
            figure(
                "wake-ups a second, 8 at 1 Hz", "", "", limit: nil,
                ours.wakeUps.values.reduce(0, +),
                peer.wakeUps.values.reduce(0, +)),
            figure(
                "wake-ups a second, straps just left", "", "", limit: nil,
                idle.searching.values.reduce(0, +),
                peerIdle.searching.values.reduce(0, +)),
            figure(
                "wake-ups a second, no strap", "", "", limit: nil, idle.settled.values.reduce(0, +),
                peerIdle.settled.values.reduce(0, +)),
        ]
    }

    private static func figure(
        _ name: String, _ goal: String, _ unit: String, limit: Double?, noise: Double = 0,
        _ ours: Double?, _ peer: Double?
    ) -> Verdict {
        Verdict(
            figure: name, goal: goal, ours: ours, limit: limit, noise: noise,
            peers: ["bleak + sqlite3": peer], unit: unit)
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

    private static func figures(_ ours: Recovery, _ peer: Recovery) -> [Verdict] {
        [
            figure(
                "bluetoothd restart to next row", "≤ 4 s", "s", limit: restartSecondsMax,
                ours.restart, peer.restart),
            figure(
                "power-on to sample, worst of 3", "≤ 5 s", "s", limit: powerOnSecondsMax,
                ours.powerOn, peer.powerOn),
            figure(
                "lost notifications, then", "0", "", limit: 0,
                Double(ours.sent - ours.rows), Double(peer.sent - peer.rows)),
        ]
    }
}
