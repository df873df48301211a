import Basics
import ArgumentParser
import Foundation

struct QueueDrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain", abstract: "Waits until everything that can be sent is delivered.",
        discussion: """
            Use it before you move a gateway or take it off the network. It only watches: recording \
            goes on, and deliveries keep their pace. It waits for every destination, and counts a \
            sample once for each of them. It does not wait for samples that are recorded after it \
            began. Exits with 1 if samples are held, or if the time runs out.

            Example: edge-gateway queue drain --for 10m
            """)

    /// Between two checks.
    private static let pause = Duration.seconds(1)

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "Give up after so long, such as 90s or 10m (default: never).", valueName: "span"))
    var span: WrittenSpan?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let clock = UptimeClock.system
        let end = span.map { clock.now() + .seconds($0.seconds) }
        let goal = DrainGoal(try await client.get("/v1/queue") as QueueReport)
        var report = goal.report(on: goal.begun)
        var line: ProgressLine? = ProgressLine("delivering")
        while report.left > 0, end.map({ clock.now() < $0 }) ?? true {
            line?.show("\(report.left) to go")
            await clock.sleep(Self.pause)
            report = goal.report(on: try await client.get("/v1/queue") as QueueReport)
        }
        line = nil
        try daemon.show(report, (report.left > 0 ? "the time is over: " : "") + report.text)
        if report.left > 0 || !report.held.isEmpty { throw ExitCode(CommandExit.notWell.rawValue) }
    }
}

/// The samples that a drain waits for: the samples that wait when it begins, without those that are recorded or held
/// later. Of each destination by itself: what one settles meanwhile is no progress of another.
struct DrainGoal {
    let begun: QueueReport

    init(_ begun: QueueReport) { self.begun = begun }

    /// How far it is: every sample once for each destination that it waits for.
    func report(on now: QueueReport) -> DrainReport {
        let destinations = now.destinations.map { destination in
            let before = begun.destinations.first { $0.name == destination.name }?.balance
            let balance = destination.balance
            return DrainReport.Destination(
                name: destination.name,
                delivered: before.map { balance.delivered - $0.delivered } ?? 0,
                dead: before.map { balance.dead - $0.dead } ?? 0,
                dropped: before.map { balance.droppedCount - $0.droppedCount } ?? 0,
                left: before.map { balance.left(since: $0) } ?? 0, held: balance.held)
        }
        var held = now.balance.held.filter { $0.key == "not-enrolled" }
        for destination in destinations { held.merge(destination.held, uniquingKeysWith: +) }
        // Frames in memory that go to no destination are in the books of everything alone.
        return DrainReport(
            delivered: destinations.reduce(0) { $0 + $1.delivered },
            dead: destinations.reduce(0) { $0 + $1.dead },
            dropped: destinations.reduce(0) { $0 + $1.dropped },
            left: max(
                destinations.reduce(0) { $0 + $1.left }, now.balance.left(since: begun.balance)),
            held: held, destinations: destinations)
    }
}

/// `queue drain`
struct DrainReport: Codable, Equatable {
    /// Samples that were delivered while the command waited; refused for good; withheld or given up.
    var delivered: Int
    var dead: Int
    var dropped: Int
    /// Could be sent and were not.
    var left: Int
    /// By reason.
    var held: [String: Int]
    /// The same of each destination. The numbers above are their sums, and what is held without one.
    var destinations: [Destination]

    struct Destination: Codable, Equatable {
        var name: String
        var delivered: Int
        var dead: Int
        var dropped: Int
        var left: Int
        var held: [String: Int]
    }

    /// For a person; destinations are named where there are several.
    var text: String {
        var first = "\(delivered.counted("sample")) went out"
        if dead > 0 { first += ", \(dead) refused for good" }
        if dropped > 0 { first += ", \(dropped) dropped" }
        var lines = [first + "; waiting: \(left), held: \(held.values.reduce(0, +))"]
        guard destinations.count > 1 else {
            return (lines + Self.heldLines(held)).joined(separator: "\n")
        }
        lines += Self.heldLines(held.filter { $0.key == "not-enrolled" })
        for one in destinations {
            if one.left > 0 { lines.append("  \(one.left) waiting for \(one.name)") }
            lines += Self.heldLines(one.held, " for \(one.name)")
        }
        return lines.joined(separator: "\n")
    }

    private static func heldLines(_ held: [String: Int], _ place: String = "") -> [String] {
        held.sorted { $0.key < $1.key }.map {
            "  \($0.value) held\(place): \($0.key) (edge-gateway status)"
        }
    }
}

extension BalanceReport {
    /// Samples that no longer wait for a destination.
    private var settled: Int { delivered + dead + droppedCount }
    fileprivate var droppedCount: Int { dropped.values.reduce(0, +) }
    /// Nothing can be done for these now.
    private var gone: Int { settled + held.values.reduce(0, +) }

    /// Of the samples that could be sent at `begun`, those that still can.
    fileprivate func left(since begun: BalanceReport) -> Int {
        let goal = begun.gone + begun.pending + begun.buffered
        return max(0, min(goal - gone, pending + buffered))
    }
}
