import ArgumentParser
import Foundation
import OfflineQueue

struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "Lists deliveries, or heart rates by the hour.",
        discussion: """
            Without options it lists the latest deliveries. With --hours it lists the \
            heart rate of each hour, as far as the store still has the samples: delivered ones stay \
            for a day (storage.keep_delivered_hours).

            Examples:
              edge-gateway history
              edge-gateway history --destination influx --limit 100
              edge-gateway history --hours --last 6 --sensor C0:00:00:00:00:01
            """)

    @Flag(help: "List the heart rate of each hour.")
    var hours = false
    @Option(
        help: ArgumentHelp(
            "With --hours: how many hours, the current one included, 1 to 48. (default: 24)",
            valueName: "hours"))
    var last: Int?
    @Option(
        help: ArgumentHelp("With --hours: only this sensor.", valueName: "address"),
        completion: .sensorAddress)
    var sensor: String?
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
        guard (1...SampleQueue.historyHoursMax).contains(last ?? 24) else {
            throw ValidationError("--last takes 1 to \(SampleQueue.historyHoursMax)")
        }
        if hours {
            guard destination == nil, limit == nil else {
                throw ValidationError(
                    "--destination and --limit list deliveries; leave --hours out")
            }
        } else {
            guard last == nil, sensor == nil else {
                throw ValidationError(
                    "--last and --sensor list heart rates by the hour; add --hours")
            }
        }
    }

    func run() async throws {
        let client = try daemon.client()
        guard hours else {
            var path = "/v1/history?limit=\(limit ?? 20)"
            if let destination {
                path += "&destination=\(try await client.destinationID(destination))"
            }
            let report: HistoryReport = try await client.get(path)
            if daemon.json { return try Terminal.printJSON(report) }
            Terminal.print(QueueText.uploads(report))
            // A request counts as delivered while the RR intervals in it are refused.
            let enrollments: [EnrollmentReport] = try await client.get("/v1/enrollments")
            for enrollment in enrollments
            where report.uploads.contains(where: { $0.enrollment == enrollment.name }) {
                for line in EnrollmentsCommand.refusals(enrollment) { Terminal.print(line) }
            }
            return
        }
        var path = "/v1/history/hours?hours=\(last ?? 24)"
        if let sensor { path += "&sensor=\(try await client.sensorID(sensor))" }
        let report: [HourReport] = try await client.get(path, timeout: .seconds(60))
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(QueueText.hours(report))
    }
}
