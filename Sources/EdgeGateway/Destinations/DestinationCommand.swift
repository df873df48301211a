import Basics
import ArgumentParser
import Foundation
import Uplink

struct DestinationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "destination",
        abstract: "Delivers samples to other systems, in addition to an exchange or without one.",
        discussion: """
            A destination is a system such as a database or a webhook, or a file. Each has its own \
            queue: one that is stuck does not delay the others. To deliver to an exchange, use \
            `enroll`.

            Examples:
              edge-gateway destination kinds
              edge-gateway destination add influx url=http://127.0.0.1:8086 database=ward \\
                --every-strap
              edge-gateway destination list
            """,
        subcommands: [
            DestinationKindsCommand.self, DestinationAddCommand.self, DestinationListCommand.self,
            DestinationShowCommand.self, DestinationTestCommand.self, DestinationCodeCommand.self,
            DestinationKeyCommand.self,
            DestinationCompareCommand.self, DestinationStrapsCommand.self,
            DestinationPauseCommand.self, DestinationResumeCommand.self,
            DestinationRemoveCommand.self,
        ])
}

struct DestinationKindsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kinds",
        abstract: "Lists the kinds of destinations, or the settings of one kind.",
        discussion: "Example: edge-gateway destination kinds influx")

    @Argument(help: "Only the settings of this kind.")
    var kind: String?
    @Flag(help: "Print JSON instead of text.")
    var json = false

    func run() throws {
        let chosen = try CommandFailure.ofProblem { () throws(DestinationProblem) in
            try kind.map { kind throws(DestinationProblem) in try DestinationRegistry.kind(kind) }
        }
        if json {
            let kinds = chosen.map { [$0] } ?? DestinationRegistry.kinds
            return try Terminal.printJSON(kinds.map { DestinationKindReport($0) })
        }
        if let chosen { return Terminal.print(Self.text(chosen)) }
        Terminal.print(
            Terminal.table(
                ["KIND", "SYSTEM"], DestinationRegistry.kinds.map { [$0.name, $0.summary] }))
    }

    static func text(_ kind: any DestinationKind.Type) -> String {
        """
        \(kind.name): \(kind.summary)

        settings:
        \(kind.fields.map(\.text).joined(separator: "\n"))

        delivered means: \(kind.promise.words)
        """
    }
}

extension SettingField {
    /// For a list of settings.
    var text: String {
        let need: String =
            switch need {
            case .required: "needed"
            case .optional: "optional"
            case .made: "made if left out"
            case .standard(let value): "default: \(value)"
            }
        let secret = isSecret ? ", secret" : ""
        return "  \(name)  (\(need)\(secret))\n      \(help)"
    }
}

/// A destination that the daemon is asked about.
struct NamedDestination: ParsableArguments {
    @Argument(help: "The destination's name.", completion: .destinationName)
    var name: String
    @OptionGroup var daemon: DaemonOptions

    /// Asks the daemon and prints what it answers, as JSON or in words.
    func ask<Report: Codable>(
        _ path: String, patience: Duration, _ words: (Report) -> String
    ) async throws {
        let client = try daemon.client()
        let report: Report = try await client.post(
            path, DestinationRequest(name: try await client.destination(name).name),
            timeout: patience)
        try daemon.show(report, words(report))
    }
}

struct DestinationListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists the destinations and the state of their deliveries.",
        discussion: "Example: edge-gateway destination list --json")

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let destinations: [DestinationReport] = try await daemon.client().get("/v1/destinations")
        try daemon.show(
            destinations,
            destinations.isEmpty
                ? "no destinations yet: edge-gateway enroll LINK, or edge-gateway destination kinds"
                : DestinationText.table(destinations))
    }
}

struct DestinationShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows a destination's settings, and the data that it gets.",
        discussion: """
            Prints the settings without their secrets, and the data that is sent for one invented \
            sample.

            Example: edge-gateway destination show influx
            """)

    @OptionGroup var destination: NamedDestination

    func run() async throws {
        try await destination.ask(
            "/v1/destinations/show", patience: .seconds(30), DestinationText.detail)
    }
}

struct DestinationCodeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "code",
        abstract: "Shows the QR codes by which straps are paired at a destination.",
        discussion: """
            A destination such as CloudCare takes a strap's samples once the patient's phone has \
            scanned the strap's code. Prints the code of each strap that delivers there.

            Example: edge-gateway destination code cloudcare
            """)

    @OptionGroup var destination: NamedDestination

    func run() async throws {
        try await destination.ask(
            "/v1/destinations/code", patience: .seconds(30)
        ) {
            DestinationText.codes($0, destination.daemon.times)
        }
    }
}

struct DestinationTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test", abstract: "Tries a destination without storing a sample there.",
        discussion: """
            Prints the checks that were made, and those that only the first sample can make. Exits \
            with 1 if the destination does not work.

            Example: edge-gateway destination test influx
            """)

    @OptionGroup var destination: NamedDestination

    func run() async throws {
        try await destination.ask(
            "/v1/destinations/test", patience: .seconds(120), DestinationText.test)
    }
}

struct DestinationStrapsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "straps",
        abstract: "Chooses the straps that deliver to a destination in addition to their own.",
        discussion: """
            When a strap is removed, its samples that still wait for this destination are dropped \
            there. Other destinations get them as before.

            Examples:
              edge-gateway destination straps influx --add "bed 4" --from kept
              edge-gateway destination straps influx --remove "bed 4" --yes
            """)

    @Argument(help: "The destination's name.", completion: .destinationName)
    var name: String
    @Option(
        help: ArgumentHelp("Deliver this strap there; may be repeated.", valueName: "strap"),
        completion: .strap)
    var add: [String] = []
    @Option(
        help: ArgumentHelp(
            "No longer deliver this strap there; may be repeated.", valueName: "strap"),
        completion: .strap)
    var remove: [String] = []
    @Option(help: ArgumentHelp(DestinationStart.help, valueName: "start"))
    var from: DestinationStart = .now
    @Flag(help: "Do not ask before samples that wait for it are dropped.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard !add.isEmpty || !remove.isEmpty else {
            throw ValidationError("give --add STRAP or --remove STRAP")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let request = DestinationStrapsRequest(
            name: try await client.destination(name, takesParts: remove.isEmpty).name,
            add: try await client.addresses(add),
            remove: try await client.addresses(remove, takesParts: false), from: from.rawValue)
        if !remove.isEmpty {
            try await Terminal.confirm(
                "Drop the samples of \(remove.count.counted("strap")) that wait for "
                    + "\(Printable.line(request.name))?", yes)
        }
        let report: DestinationReport = try await client.post(
            "/v1/destinations/straps", request,
            timeout: .seconds(120))
        try daemon.show(
            report,
            "\(report.straps.counted("strap delivers", "straps deliver")) to \(report.name)")
    }
}

struct DestinationPauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Stops a delivery until it is resumed; samples are kept.",
        discussion: "Example: edge-gateway destination pause influx")

    @OptionGroup var destination: NamedDestination

    func run() async throws {
        try await destination.ask("/v1/destinations/pause", patience: .seconds(120)) {
            (report: DestinationReport) in
            let kept = report.keepDays.map { "for \($0.counted("day"))" } ?? "until it is resumed"
            return "paused \(report.name): samples are kept \(kept)"
        }
    }
}

struct DestinationResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Continues a delivery that was paused.",
        discussion: "Example: edge-gateway destination resume influx")

    @OptionGroup var destination: NamedDestination

    func run() async throws {
        try await destination.ask("/v1/destinations/resume", patience: .seconds(120)) {
            (report: DestinationReport) in
            "\(report.name) delivers again; \(report.pending.counted("sample waits", "samples wait"))"
        }
    }
}

struct DestinationRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Ends the delivery to a destination for good, and deletes its secrets.",
        discussion: """
            The destination keeps the samples that it has. Other destinations are not affected. \
            Without --undelivered the command refuses while samples wait for this destination, and \
            while it cannot end a view that the destination gives to others, such as a shared heart \
            rate. The command does not remove a destination that is or was a strap's own: \
            `edge-gateway erase` removes it with the samples that were recorded for it.

            Example: edge-gateway destination remove influx
            """)

    @Argument(help: "The destination's name.", completion: .destinationName)
    var name: String
    @Flag(
        help:
            "Give up samples that are not delivered there yet, and leave views that cannot be ended."
    )
    var undelivered = false
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = try daemon.client()
        let name = try await client.destination(name, takesParts: !yes).name
        try await Terminal.confirm("Remove the destination \(name)?", yes)
        let report: DestinationReport = try await client.post(
            "/v1/destinations/remove",
            DestinationRemoveRequest(name: name, undelivered: undelivered), timeout: .seconds(600))
        let waiting = report.pending + report.dead
        let given = waiting > 0 ? "; \(waiting.counted("sample was", "samples were")) given up" : ""
        try daemon.show(
            report,
            "removed \(report.name), which has \(report.delivered.counted("sample"))\(given)")
    }
}
