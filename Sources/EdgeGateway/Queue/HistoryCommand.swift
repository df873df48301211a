import ArgumentParser
import Foundation
import OfflineQueue

struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history", abstract: "Lists deliveries, or heart rates by the hour.",
        discussion: """
            Without options: the latest requests to exchanges. With --hours: the heart rate of each \
            hour, of whatever the store still has (delivered samples stay for a day).

            Examples: edge-gateway history
                      edge-gateway history --hours --last 6 --sensor C0:00:00:00:00:01
            """)

    @Flag(help: "The heart rate of each hour.")
    var hours = false
    @Option(help: "With --hours: how many, this one included: 1 to 48.")
    var last = 24
    @Option(
        help: "With --hours: only this sensor, by its address.", completion: .sensorAddress)
    var sensor: String?
    @Option(help: "How many requests, 1 to 10000.")
    var limit = 20
    @OptionGroup var daemon: DaemonOptions

    func validate() throws {
        guard (1...SampleQueue.historyHoursMax).contains(last) else {
            throw ValidationError("--last takes 1 to \(SampleQueue.historyHoursMax)")
        }
    }

    func run() async throws {
        let client = try await daemon.client()
        guard hours else {
            let report: HistoryReport = try await client.get("/v1/history?limit=\(limit)")
            if daemon.json { return try Terminal.printJSON(report) }
            return Terminal.print(QueueText.uploads(report))
        }
        var path = "/v1/history/hours?hours=\(last)"
        if let sensor { path += "&sensor=\(try await client.sensorID(sensor))" }
        let report: [HourReport] = try await client.get(path, timeout: .seconds(60))
        if daemon.json { return try Terminal.printJSON(report) }
        Terminal.print(QueueText.hours(report))
    }
}
