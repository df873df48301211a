import Basics
import ArgumentParser
import Foundation

struct QueueDeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead",
        abstract: "Shows and manages samples that a destination refused for good.",
        discussion: "Example: edge-gateway queue dead list",
        subcommands: [
            DeadListCommand.self, DeadShowCommand.self, DeadExportCommand.self,
            DeadRequeueCommand.self, DeadPurgeCommand.self,
        ])
}

struct DeadListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists dead letters, the newest first.",
        discussion: "Example: edge-gateway queue dead list --destination influx --limit 100")

    @Option(help: ArgumentHelp("How many to list, 1 to 10000.", valueName: "count"))
    var limit = 20
    @Option(
        help: ArgumentHelp("Only letters of this destination.", valueName: "name"),
        completion: .destinationName)
    var destination: String?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let report: DeadLettersReport = try await client.get(
            try await client.deadLettersPath(limit: limit, destination))
        try daemon.show(report, QueueText.letters(report, daemon.times))
    }
}

struct DeadShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Shows one dead letter, with the destination's answer.",
        discussion: "Example: edge-gateway queue dead show 4711")

    @Argument(help: "Its number, as `queue dead list` shows it.")
    var id: Int64
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let letter: DeadLetterReport = try await daemon.client().get("/v1/queue/dead/\(id)")
        try daemon.show(letter, QueueText.letter(letter, daemon.times))
    }
}

struct DeadExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Writes dead letters to a file, one JSON object per line.",
        discussion: "Example: edge-gateway queue dead export dead.ndjson")

    private static let lettersAtOnce = 1_000

    @Argument(help: "The file to write; an existing one is not overwritten.", completion: .file())
    var file: String
    @Option(
        help: ArgumentHelp("Only letters of this destination.", valueName: "name"),
        completion: .destinationName)
    var destination: String?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client(isExact: true)
        try GatewayFiles(settings: daemon.settings()).check(file)
        let output = try OutputFile(file)
        let encoder = ReportCoding.encoder()
        var count = 0
        let first = try await client.deadLettersPath(limit: Self.lettersAtOnce, destination)
        var path = first
        while true {
            let report: DeadLettersReport = try await client.get(path)
            for letter in report.letters {
                try output.write([UInt8](try encoder.encode(letter)) + [UInt8(ascii: "\n")])
            }
            count += report.letters.count
            guard report.more, let last = report.letters.last else { break }
            path = "\(first)&before=\(last.id)"
        }
        try output.finish()
        try daemon.show(
            SampleCountReport(samples: count),
            "\(count.counted("dead letter is", "dead letters are")) in \(file)")
    }
}

/// Which dead letters.
struct DeadChoice: ParsableArguments {
    @Argument(help: "Their numbers, as `queue dead list` shows them.")
    var ids: [Int64] = []
    @Flag(help: "All of them.")
    var all = false
    @Option(
        help: ArgumentHelp("Only letters of this destination.", valueName: "name"),
        completion: .destinationName)
    var destination: String?

    func validate() throws {
        guard ids.isEmpty == all else {
            throw ValidationError("give the numbers of dead letters, or --all")
        }
    }

    func request(_ client: ControlClient, takesParts: Bool = true) async throws
        -> DeadLettersRequest
    {
        var name = destination
        if let named = name {
            name = try await client.destination(named, takesParts: takesParts).name
        }
        return DeadLettersRequest(ids: all ? nil : ids, all: all, destination: name)
    }
    /// A hundred thousand take a minute.
    static let timeout = Duration.seconds(600)
}

struct DeadRequeueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "requeue", abstract: "Delivers dead letters again.",
        discussion: """
            Remove the cause first, or the destination refuses them again. Samples keep their \
            identifiers; those that were refused as one average go together.

            Examples:
              edge-gateway queue dead requeue 4711 4712
              edge-gateway queue dead requeue --all --destination influx
            """)

    @OptionGroup var choice: DeadChoice
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let report: SampleCountReport = try await client.post(
            "/v1/queue/dead/requeue", try await choice.request(client), timeout: DeadChoice.timeout)
        try daemon.show(
            report,
            "\(report.samples.counted("sample waits", "samples wait")) for delivery again")
    }
}

struct DeadPurgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge", abstract: "Deletes dead letters for good.",
        discussion: "Example: edge-gateway queue dead purge 4711 --yes")

    @OptionGroup var choice: DeadChoice
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let request = try await choice.request(client, takesParts: !yes)
        let what =
            (request.ids?.count.counted("dead letter") ?? "all dead letters")
            + (request.destination.map { " of \($0)" } ?? "")
        try await Terminal.confirm("Delete \(what)? The destination does not have them.", yes)
        let report: SampleCountReport = try await client.post(
            "/v1/queue/dead/purge", request, timeout: DeadChoice.timeout)
        try daemon.show(
            report, "deleted \(report.samples.counted("sample")), counted as dropped (purged)")
    }
}

extension ControlClient {
    /// The path that lists dead letters, of all destinations or of one by its name.
    fileprivate func deadLettersPath(limit: Int, _ destination: String?) async throws -> String {
        var path = "/v1/queue/dead?limit=\(limit)"
        if let destination { path += "&destination=\(try await self.destination(destination).id)" }
        return path
    }
}
