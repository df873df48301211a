import ArgumentParser
import Foundation

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows whether the gateway is well, and what to do if not.",
        discussion: """
            Exits with 0 only if the gateway is well.

            Example: edge-gateway status --json
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let status: StatusReport = try await daemon.client().get("/v1/status")
        if daemon.json {
            try Terminal.printJSON(status)
        } else {
            show(status)
        }
        if !status.well { throw ExitCode(CommandExit.notWell.rawValue) }
    }

    private func show(_ status: StatusReport) {
        let age = Terminal.age(status.uptimeSeconds)
        Terminal.print(
            "edge-gateway \(status.version), up \(age): \(Self.verdict(status))")
        if let next = status.nextStep {
            Terminal.print("> \(next.message)\n    next: \(next.advice)")
        }
        for item in status.health {
            Terminal.printAlarm("! \(item.name)\(Self.lasting(item)): \(item.message)")
            Terminal.print("    \(item.advice)")
        }
        if !status.sensors.isEmpty {
            Terminal.print("\n" + StrapsCommand.table(status.sensors))
        }
        if !status.enrollments.isEmpty {
            Terminal.print("\n" + EnrollmentsCommand.table(status.enrollments))
        }
        if !status.destinations.isEmpty {
            Terminal.print("\n" + DestinationText.table(status.destinations))
        }
        Terminal.print("\n" + Self.balance(status.balance))
        let coverage = status.sensors.compactMap { sensor in
            sensor.coverageTodayPercent.map { "\(Printable.line(sensor.name)) \($0) %" }
        }
        if !coverage.isEmpty {
            Terminal.print("coverage today: " + coverage.joined(separator: ", "))
        }
        for enrollment in status.enrollments {
            if enrollment.tokenRefused == true {
                Terminal.print("token of \(enrollment.name) is refused")
            } else if let expires = enrollment.tokenExpires {
                Terminal.print(
                    "token of \(enrollment.name) until \(daemon.times.sentence(expires))")
            }
        }
        if status.clockTrusted, let oldest = status.oldestUnsent {
            Terminal.print(
                "oldest unsent sample: \(Terminal.age(since: oldest)) old")
        }
    }

    /// A gateway that does nothing yet is not simply well.
    static func verdict(_ status: StatusReport) -> String {
        guard status.well else { return "not well" }
        return status.nextStep == nil ? "well" : "well so far, and not set up yet"
    }

    /// How long an item has lasted. The wall clock may have been set since it began.
    static func lasting(_ item: HealthItem) -> String {
        item.seconds.map { " for \(Terminal.age($0))" } ?? ""
    }

    static func balance(_ balance: BalanceReport) -> String {
        func reasons(_ counts: [String: Int]) -> String {
            let total = counts.values.reduce(0, +)
            let detail = counts.filter { $0.value > 0 }.sorted { $0.key < $1.key }
                .map { "\($0.key) \($0.value)" }.joined(separator: ", ")
            return detail.isEmpty ? "\(total)" : "\(total) (\(detail))"
        }
        func lost(_ refused: [String: Int]) -> String {
            refused.values.reduce(0, +) == 0 ? "" : " + refused \(reasons(refused))"
        }
        let doubled = balance.doubled > 0 ? " + doubled \(balance.doubled)" : ""
        return """
            received \(balance.received) = stored \(balance.stored) \
            + undecodable \(balance.undecodable)\(lost(balance.refused))\(doubled)
            stored \(balance.stored) = delivered \(balance.delivered) \
            + waiting \(balance.pending) + held \(reasons(balance.held)) \
            + dead \(balance.dead) + dropped \(reasons(balance.dropped))
            """
    }
}
