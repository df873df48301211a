import ArgumentParser
import Foundation

struct ShareCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "share",
        abstract: "Makes a link that shows heart rates and nothing else.",
        discussion: """
            Until the link ends, anyone who has it sees the rates, but no patient, address, \
            enrollment or name of a strap. A link to one strap ends when somebody else wears it. The \
            live page must be on (page.listen).

            Examples:
              edge-gateway share
              edge-gateway share --strap "bed 4" --for 2h
              edge-gateway share --stop
            """)

    @OptionGroup var chosen: StrapOption
    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "How long the link lasts, 1h to 31d (default: 24h).", valueName: "span"))
    var span: WrittenSpan?
    @Flag(help: "Revoke all links.")
    var stop = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard !stop || (chosen.strap == nil && span == nil) else {
            throw ValidationError("--stop revokes all links; leave --strap and --for out")
        }
        _ = try span?.hours(of: "--for")
    }

    func run() async throws {
        if stop {
            let report: ShareStopReport = try await daemon.client().post(
                "/v1/share/stop", [String: String](), timeout: .seconds(10))
            return try daemon.show(
                report,
                report.stopped == 0 ? "there were no links" : "ended \(report.stopped)")
        }
        let client = try daemon.client()
        var address: String?
        if let strap = chosen.strap { address = try await client.strap(strap).address }
        let report: ShareReport = try await client.post(
            "/v1/share", ShareRequest(address: address, hours: try span?.hours(of: "--for") ?? 24),
            timeout: .seconds(10))
        if daemon.json { return try Terminal.printJSON(report) }
        Self.show(report)
        Terminal.print(
            "until \(daemon.times.sentence(report.expires)); edge-gateway share --stop ends it")
    }

    /// The link, and its QR code on a terminal, for a phone's camera.
    static func show(_ report: ShareReport) {
        if isatty(STDOUT_FILENO) == 1, let lines = QRPicture.lines(report.link) {
            Terminal.print(lines.joined(separator: "\n"))
        }
        Terminal.print(report.link)
        if report.loopbackOnly {
            Terminal.complain(
                "this link works on this machine only: page.listen is a loopback address\n"
                    + "  for other devices set page.listen to an address of this machine, set "
                    + "page.token_file, and restart the daemon")
        }
    }
}
