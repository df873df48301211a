import Basics
import ArgumentParser
import Foundation

struct QueueReleaseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
        abstract: "Sets the time of a boot with an untrusted clock, so that its samples are sent.",
        discussion: """
            Without options it lists such boots. With --boot, give either the time at which the \
            boot's first frame arrived (--at), or by how many seconds UTC was ahead of the uptime \
            (--offset). This cannot be undone: the samples keep these times.

            Examples:
              edge-gateway queue release
              edge-gateway queue release --boot ID --at "2026-12-01 08:30:00"
            """)

    @Option(
        help: ArgumentHelp(
            "The boot's name in the list, or the beginning of it.", valueName: "id"))
    var boot: String?
    @Option(
        help: ArgumentHelp("UTC minus uptime, in seconds since 1970.", valueName: "seconds"))
    var offset: Double?
    @Option(
        help: ArgumentHelp(
            "When the boot's first frame came, \(WrittenTime.help).", valueName: "time"))
    var at: WrittenTime?
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard (boot != nil) == (offset != nil || at != nil), offset == nil || at == nil else {
            throw ValidationError("give --boot with either --at or --offset, or no option to list")
        }
        if let offset, !(0...253_402_300_799).contains(offset) {
            throw ValidationError("--offset is in seconds since 1970")
        }
    }

    func run() async throws {
        let client = try daemon.client()
        let boots: [BootReport] = try await client.get("/v1/queue/boots")
        guard let name = boot else {
            return try daemon.show(boots, QueueText.boots(boots, daemon.times))
        }
        let fitting = boots.filter { $0.boot.hasPrefix(name) }
        guard let boot = fitting.first, fitting.count == 1 else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "\(fitting.count) boots with an unknown clock match that name\n"
                    + "  edge-gateway queue release lists them")
        }
        let offset =
            offset ?? (at?.date(daemon.times).timeIntervalSince1970 ?? 0) - boot.firstUptime
        try await Terminal.confirm(Self.question(boot, offset, daemon.times), yes)
        let report: SampleCountReport = try await client.post(
            "/v1/queue/release", ReleaseRequest(boot: boot.boot, offset: offset),
            timeout: .seconds(60))
        try daemon.show(
            report,
            "\(report.samples.counted("sample now has its time", "samples now have their times"))")
    }

    /// The samples that will be sent and their times, and whether these fit all other facts.
    static func question(
        _ boot: BootReport, _ offset: Double, _ times: LocalTimes
    ) -> String {
        func time(_ uptime: Double) -> String {
            times.sentence(Date(timeIntervalSince1970: offset + uptime))
        }
        var text =
            "\(boot.held.counted("sample")) will be sent with times from\n"
            + "\(time(boot.firstUptime)) to \(time(boot.lastUptime)).\n"
        if offset < boot.earliestOffset {
            text += "That is earlier than samples that came before them!\n"
        } else if let latest = boot.latestOffset, offset > latest {
            text += "That is later than samples that came after them!\n"
        }
        return text + "This cannot be undone. Continue?"
    }
}
