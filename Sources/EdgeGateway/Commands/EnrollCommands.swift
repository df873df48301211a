import ArgumentParser
import Foundation

struct EnrollCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enroll", abstract: "Redeems an invitation link of the exchange.",
        discussion: """
            The link is a credential: whoever has it can upload as this patient. Give `-` to read \
            it from standard input, so that it stays out of the shell's history.

            Example: edge-gateway enroll - < link.txt
            """)

    /// A link is a few hundred characters; more is not a link.
    private static let linkBytesMax = 4096

    @Argument(help: "The invitation link, or - for standard input.")
    var link: String
    @Option(help: "Name for this enrollment (default: e1, e2, …).")
    var name: String?
    @Option(help: "The exchange's device id, when several fit.")
    var device: String?
    @Option(help: "raw (one data point a frame), 10s or 60s (averages); default: raw.")
    var resolution: String?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        var text = link
        if link == "-" {
            let data = try FileHandle.standardInput.read(upToCount: Self.linkBytesMax) ?? Data()
            text = String(decoding: data, as: UTF8.self)
        }
        text = text.trimmingCharacters(in: .whitespacesAndNewlines)
        let report: EnrollmentReport = try await daemon.client().post(
            "/v1/enroll",
            EnrollRequest(link: text, name: name, device: device, resolution: resolution),
            secondsMax: 300)
        if daemon.json { return try Terminal.printJSON(report) }
        print("enrolled as \(report.name) at \(report.exchange)")
        if let held = report.held {
            print("  held: \(held)")
        } else {
            print("  delivers \(report.code); next: edge-gateway scan")
        }
    }
}

struct EnrollmentsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enrollments", abstract: "Lists the enrollments and their delivery.",
        discussion: "Example: edge-gateway enrollments --json")

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let enrollments: [EnrollmentReport] = try await daemon.client().get("/v1/enrollments")
        if daemon.json { return try Terminal.printJSON(enrollments) }
        if enrollments.isEmpty { return print("no enrollments yet: edge-gateway enroll LINK") }
        print(Self.table(enrollments))
    }

    static func table(_ enrollments: [EnrollmentReport]) -> String {
        Terminal.table(
            ["NAME", "STATE", "DELIVERED", "UNSENT", "DEAD", "LAST", "EXCHANGE"],
            enrollments.map {
                [
                    $0.name, $0.held ?? $0.state, String($0.delivered), String($0.pending),
                    String($0.dead),
                    $0.lastDelivery.map { Terminal.age(-$0.timeIntervalSinceNow) } ?? "-",
                    $0.exchange,
                ]
            })
    }
}
