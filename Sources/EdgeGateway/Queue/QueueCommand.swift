import Basics
import ArgumentParser
import Foundation

struct QueueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue", abstract: "Shows and manages the samples in the store.",
        discussion: "Example: edge-gateway queue list --state held",
        subcommands: [
            QueueStatusCommand.self, QueueListCommand.self, QueueVerifyCommand.self,
            QueueExportCommand.self, QueueImportCommand.self, QueueDeadCommand.self,
            QueueReleaseCommand.self, QueueAssignCommand.self, QueueDiscardCommand.self,
            QueueRedeliverCommand.self, QueueSalvageCommand.self,
            QueueDrainCommand.self, QueuePurgeCommand.self, QueueAcknowledgeCommand.self,
        ])
}

struct QueueStatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows how full the store is, and the states of its samples.",
        discussion: """
            Exits with 1 if the store is full or its books do not balance.

            Example: edge-gateway queue status --json
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let report: QueueReport = try await daemon.client().get("/v1/queue")
        try daemon.show(report, QueueText.status(report, daemon.times))
        if report.full || !report.balance.balanced {
            throw ExitCode(CommandExit.notWell.rawValue)
        }
    }
}

struct QueueListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists stored samples, the newest first.",
        discussion: """
            A sample is waiting, held, dead, delivered or dropped. A dropped sample was withheld by \
            a policy or given up; its reason says which.

            Examples:
              edge-gateway queue list --state held
              edge-gateway queue list --strap "bed 4" --limit 100
              edge-gateway queue list --state dead --day yesterday
            """)

    @Option(help: "Only samples in this state: waiting, held, dead, delivered or dropped.")
    var state: String?
    @OptionGroup var range: TimeRange
    @OptionGroup var chosen: StrapOption
    @Option(help: ArgumentHelp("How many to list, 1 to 10000.", valueName: "count"))
    var limit = 20
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard ["waiting", "held", "dead", "delivered", "dropped", nil].contains(state) else {
            throw ValidationError("--state takes waiting, held, dead, delivered or dropped")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        var path = "/v1/queue/samples?limit=\(limit)" + (try range.query(daemon.times))
        if let state { path += "&state=\(state == "waiting" ? "pending" : state)" }
        if let strap = chosen.strap {
            path += "&sensor=\(try await client.strap(strap, includingForgotten: true).id)"
        }
        let report: SamplesReport = try await client.get(path)
        try daemon.show(report, QueueText.samples(report, daemon.times))
    }
}

struct QueuePurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge", abstract: "Deletes delivered and dropped samples, to make room.",
        discussion: """
            Samples that still wait are kept. With --dead it also deletes dead letters: samples \
            that a destination refused for good.

            Example: edge-gateway queue purge --older-than 2d
            """)

    /// A store of 2 GiB takes some minutes.
    private static let timeout = Duration.seconds(1_800)

    @Option(
        help: ArgumentHelp("Only samples older than this, such as 24h or 2d.", valueName: "span"))
    var olderThan: WrittenSpan?
    @Flag(help: "Delete dead letters, too.")
    var dead = false
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws { _ = try olderThan?.hours(of: "--older-than") }

    func run() async throws {
        let what = "delivered and dropped samples" + (dead ? " and dead letters" : "")
        let hours = try olderThan?.hours(of: "--older-than")
        let age = hours.map { " older than \($0.counted("hour"))" } ?? ""
        try await Terminal.confirm("Delete all \(what)\(age)?", yes)
        let report: PurgeReport = try await daemon.client().post(
            "/v1/queue/purge", PurgeRequest(olderThanHours: hours, dead: dead),
            timeout: Self.timeout)
        try daemon.show(
            report,
            "deleted \(report.delivered.counted("sample"))"
                + (dead ? " and \(report.dead.counted("dead letter"))" : ""))
    }
}

struct QueueAcknowledgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acknowledge",
        abstract: "Acknowledges lost samples, and reports on a broken or missing store.",
        discussion: """
            Ends the health items samples-lost, store-salvaged, store-damaged and store-missing.

            Example: edge-gateway queue acknowledge
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let seen: [SalvagedStoreReport] = try await daemon.client().post(
            "/v1/queue/acknowledge", [String: String](), timeout: .seconds(30))
        if daemon.json { return try Terminal.printJSON(seen) }
        if seen.isEmpty {
            return Terminal.print("acknowledged; no store was salvaged since the last time")
        }
        for salvage in seen {
            Terminal.print(
                "acknowledged: \(daemon.times.sentence(salvage.at)), \(salvage.figures)")
        }
    }
}
