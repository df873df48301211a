import ArgumentParser
import Foundation
import OfflineQueue

struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "Lists deliveries, or heart rates by the hour.",
        discussion: """
            Without options it lists the latest deliveries. With --hours it lists the heart rate of \
            each of the last 24 hours, or of up to 48 (--last, --since; not --day, --until). It knows only hours whose samples the store \
            still has: delivered ones stay for a day (storage.keep_delivered_hours).

            Examples:
              edge-gateway history
              edge-gateway history --destination influx --limit 100
              edge-gateway history --last 2d
              edge-gateway history --hours --last 6h --strap "bed 4"
            """)

    @Flag(help: "List the heart rate of each hour.")
    var hours = false
    @OptionGroup var range: TimeRange
    @OptionGroup var chosen: StrapOption
    @Option(
        help: ArgumentHelp("Only the deliveries to this destination.", valueName: "name"),
        completion: .destinationName)
    var destination: String?
    @Option(
        help: ArgumentHelp(
            "How many deliveries to list, 1 to 10000. (default: 20)", valueName: "count"))
    var limit: Int?
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        if hours {
            guard destination == nil, limit == nil else {
                throw ValidationError(
                    "--destination and --limit list deliveries; leave --hours out")
            }
            guard !range.hasEnd else {
                throw ValidationError("--hours goes up to now: it takes no --until and no --day")
            }
        } else {
            guard chosen.strap == nil else {
                throw ValidationError("--strap lists heart rates by the hour; add --hours")
            }
        }
    }

    func run() async throws {
        let client = try daemon.client()
        guard hours else {
            var path = "/v1/history?limit=\(limit ?? 20)" + (try range.query(daemon.times))
            if let destination {
                path += "&destination=\(try await client.destination(destination).id)"
            }
            let report: HistoryReport = try await client.get(path)
            if daemon.json { return try Terminal.printJSON(report) }
            Terminal.print(QueueText.uploads(report, daemon.times))
            // A request counts as delivered while the RR intervals in it are refused.
            let enrollments: [EnrollmentReport] = try await client.get("/v1/enrollments")
            for enrollment in enrollments
            where report.uploads.contains(where: { $0.enrollment == enrollment.name }) {
                for line in EnrollmentsCommand.refusals(enrollment) { Terminal.print(line) }
            }
            return
        }
        var path = "/v1/history/hours?hours=\(try hourCount())"
        if let strap = chosen.strap {
            path += "&sensor=\(try await client.strap(strap, includingForgotten: true).id)"
        }
        let report: [HourReport] = try await client.get(path, timeout: .seconds(60))
        try daemon.show(report, QueueText.hours(report, daemon.times))
    }

    /// How many hours back, the current one included.
    private func hourCount() throws -> Int {
        let now = Date()
        guard let since = try range.instants(now: now, daemon.times).since else { return 24 }
        guard since <= now else { throw ValidationError("--since is in the future") }
        func hour(_ date: Date) -> Double { (date.timeIntervalSince1970 / 3_600).rounded(.down) }
        let (hours, most) = (
            Int(bounding: hour(now) - hour(since)) + 1, SampleQueue.historyHoursMax
        )
        // The first one of so many hours is not whole.
        if hours == most + 1, now.timeIntervalSince(since) <= Double(most) * 3_600 { return most }
        guard hours <= most else {
            throw ValidationError("--hours goes \(most) hours back at most: --last \(most)h")
        }
        return hours
    }
}
