import ArgumentParser
import Basics
import Foundation
import Uplink

struct AlertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "alert",
        abstract: "Sends messages when the gateway is not well.",
        discussion: """
            An alert sends the items that `status` lists by mail, to a phone or to a webhook: their \
            names, since when they last, and what to do. It sends no heart rates, no patients and no \
            addresses. A sign of life is a call to an address while heartbeats flow, so that \
            somebody else notices a dead gateway.

            Examples:
              edge-gateway alert kinds
              edge-gateway alert add ntfy url=https://ntfy.sh/TOPIC
              edge-gateway alert add mail server=smtps://mail.example from=gw@mail.example \\
                to=ward@mail.example user=gw@mail.example password=-
              edge-gateway alert add sign-of-life url=https://hc-ping.com/UUID
            """,
        subcommands: [
            AlertKindsCommand.self, AlertAddCommand.self, AlertListCommand.self,
            AlertTestCommand.self, AlertPauseCommand.self, AlertResumeCommand.self,
            AlertRemoveCommand.self,
        ])
}

struct AlertKindsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kinds", abstract: "Lists the kinds of alerts with their settings.",
        discussion: "Example: edge-gateway alert kinds mail")

    @Argument(help: "Only the settings of this kind.")
    var kind: String?
    @Flag(help: "Print JSON instead of text.")
    var json = false

    func run() throws {
        let kinds = try CommandFailure.ofProblem { () throws(DestinationProblem) in
            try kind.map { kind throws(DestinationProblem) in [try AlertRegistry.kind(kind)] }
                ?? AlertRegistry.kinds
        }
        if json { return try Terminal.printJSON(kinds.map { AlertKindReport($0) }) }
        Terminal.print(kinds.map(Self.text).joined(separator: "\n\n"))
    }

    private static func text(_ kind: any AlertKind.Type) -> String {
        (["\(kind.name): \(kind.summary)"] + kind.fields.map(\.text)).joined(separator: "\n")
    }
}

struct AlertAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Adds an alert, or gives one new settings.",
        discussion: """
            The gateway sends a test first, and stores nothing if that does not work. `alert kinds \
            KIND` lists the settings. Give passwords, tokens and keys as `name=@FILE`, or as \
            `name=-`: the command then asks for it, or reads it from standard input.

            Examples:
              edge-gateway alert add ntfy url=@/root/ntfy.url --errors-after 10m
              edge-gateway alert add mail server=smtp://mail.example from=gw@mail.example \\
                to=ward@mail.example user=gw password=@/root/mail.password
              edge-gateway alert add webhook url=https://host.example/alerts \\
                secret=@/root/hook.key
              edge-gateway alert add sign-of-life url=- \\
                failure=https://hc-ping.com/UUID/fail every=5m
            """)

    /// A server of mail may take its time.
    private static let timeout = Duration.seconds(120)

    @Argument(help: "The kind: mail, webhook, ntfy or sign-of-life.")
    var kind: String
    @Argument(
        help: ArgumentHelp("A setting: name=value, name=@FILE or name=-.", valueName: "setting"))
    var settings: [String] = []
    @Option(help: "The name of this alert (default: its kind).")
    var name: String?
    @Option(
        help: ArgumentHelp(
            "Send a message once an error has lasted so long, such as 90s, 10m or 1h (default: 5m).",
            valueName: "span"))
    var errorsAfter: WrittenSpan?
    @Option(
        help: ArgumentHelp(
            "Send a message once a warning has lasted so long (default: 60m).", valueName: "span"))
    var warningsAfter: WrittenSpan?
    @Flag(help: "Put the names that people gave to straps into the messages.")
    var strapNames = false
    @Flag(help: "Give the alert of this name these settings instead of its own.")
    var replace = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        try GivenSettings.validate(settings)
        let isPlain = errorsAfter == nil && warningsAfter == nil && !strapNames
        guard isPlain || kind != SignOfLife.name else {
            throw ValidationError(
                "a sign of life names nothing and waits for nothing: leave --strap-names, --errors-after and "
                    + "--warnings-after out")
        }
        let fields = AlertRegistry.kinds.first { $0.name == kind }?.fields
        for field in fields ?? []
        where field.isSecret && !["url", "failure"].contains(field.name) {
            let isTyped = settings.contains {
                $0.hasPrefix("\(field.name)=") && !$0.hasPrefix("\(field.name)=@")
                    && $0 != "\(field.name)=-"
            }
            guard !isTyped else {
                throw ValidationError(
                    "\(field.name) would be in the shell's history and in the list of processes: give "
                        + "\(field.name)=@FILE or \(field.name)=-")
            }
        }
    }

    func run() async throws {
        let request = AlertAddRequest(
            kind: kind, settings: try await GivenSettings.values(settings), name: name,
            errorsAfter: errorsAfter?.seconds, warningsAfter: warningsAfter?.seconds,
            strapNames: strapNames ? true : nil, replace: replace ? true : nil)
        let client = try daemon.client()
        if strapNames {
            Terminal.complain(
                "warning: the names of straps leave this machine; a strap that is called as its wearer says "
                    + "who is monitored to everybody on the way")
        }
        let report: AlertReport = try await ProgressLine.during("sending a test") {
            try await client.post("/v1/alerts", request, timeout: Self.timeout)
        }
        try daemon.show(report, AlertText.added(report))
    }
}

struct AlertListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Lists the alerts, and what could not be sent.",
        discussion: "Example: edge-gateway alert list --json")

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let alerts: [AlertReport] = try await daemon.client().get("/v1/alerts")
        try daemon.show(
            alerts,
            alerts.isEmpty
                ? "no alerts yet: edge-gateway alert kinds lists what there is"
                : AlertText.table(alerts, daemon.times))
    }
}

/// An alert that the daemon is asked about.
struct NamedAlert: ParsableArguments {
    @Argument(help: "The alert's name.", completion: .alertName)
    var name: String
    @OptionGroup var daemon: DaemonOptions

    /// Asks the daemon and prints what it answers, as JSON or in words.
    func ask(
        _ path: String, patience: Duration = .seconds(30), _ words: (AlertReport) -> String
    ) async throws {
        let client = try daemon.client()
        let name = try await client.alert(name)
        try await send(client, path, name, patience: patience, words)
    }

    /// The same for one that is known by its name.
    func send(
        _ client: ControlClient, _ path: String, _ name: String,
        patience: Duration = .seconds(30), _ words: (AlertReport) -> String
    ) async throws {
        let report: AlertReport = try await client.post(
            path, AlertRequest(name: name), timeout: patience)
        try daemon.show(report, words(report))
    }
}

struct AlertTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test", abstract: "Sends a test, or gives a sign of life.",
        discussion: """
            Exits with 1 if the receiver did not accept it. Ask the people who should get it whether \
            it arrived.

            Example: edge-gateway alert test mail
            """)

    @OptionGroup var alert: NamedAlert

    func run() async throws {
        try await alert.ask("/v1/alerts/test", patience: .seconds(120)) {
            "\($0.name) works: \($0.place) took the test"
        }
    }
}

struct AlertPauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Sends nothing until the alert is resumed.",
        discussion: "Example: edge-gateway alert pause mail")

    @OptionGroup var alert: NamedAlert

    func run() async throws {
        try await alert.ask("/v1/alerts/pause") {
            "paused \($0.name): it sends nothing until edge-gateway alert resume \($0.name.shellWord)"
        }
    }
}

struct AlertResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Continues an alert that was paused.",
        discussion: "Example: edge-gateway alert resume mail")

    @OptionGroup var alert: NamedAlert

    func run() async throws {
        try await alert.ask("/v1/alerts/resume") { "\($0.name) sends again" }
    }
}

struct AlertRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Removes an alert, and deletes its secrets.",
        discussion: "Example: edge-gateway alert remove mail")

    @OptionGroup var alert: NamedAlert
    @Flag(help: "Do not ask for confirmation.")
    var yes = false

    func run() async throws {
        let client = try alert.daemon.client()
        let name = try await client.alert(alert.name, takesParts: !yes)
        try await Terminal.confirm("Remove the alert \(name)?", yes)
        try await alert.send(client, "/v1/alerts/remove", name) { "removed \($0.name)" }
    }
}
