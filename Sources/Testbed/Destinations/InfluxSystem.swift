import Foundation

/// InfluxDB 1.6 from Debian.
public struct InfluxSystem: DestinationSystem {
    public let kind = "influx"
    public let title = "InfluxDB"
    public let settings: [String: String]
    private let host: SystemHost
    private let address: String

    /// Starts a server with a database.
    public static func start() async throws -> InfluxSystem {
        let needs = ["/usr/bin/influxd", "/usr/bin/curl"]
        return try await SystemHost.start("influx", needs: needs) { host in
            let port = try FreePort.anywhere()
            let configuration = """
                bind-address = "127.0.0.1:0"
                reporting-disabled = true
                [meta]
                  dir = "\(host.directory)/meta"
                [data]
                  dir = "\(host.directory)/data"
                  wal-dir = "\(host.directory)/wal"
                [http]
                  bind-address = "127.0.0.1:\(port)"
                  log-enabled = false
                """
            let path = try host.write(configuration, to: "influx.conf")
            try await host.launch("/usr/bin/influxd", ["-config", path])
            let address = "http://127.0.0.1:\(port)"
            try await host.wait(for: "\(address)/ping")
            try await host.post("\(address)/query?q=CREATE%20DATABASE%20ward")
            return InfluxSystem(host: host, address: address)
        }
    }

    private init(host: SystemHost, address: String) {
        self.host = host
        self.address = address
        settings = ["url": address, "database": "ward"]
    }

    private struct Answer: Decodable {
        struct Result: Decodable {
            struct Series: Decodable { var values: [[Value]] }
            var series: [Series]?
        }
        enum Value: Decodable {
            case number(Double), other

            init(from decoder: any Decoder) throws {
                let number = try? decoder.singleValueContainer().decode(Double.self)
                self = number.map { .number($0) } ?? .other
            }
        }
        var results: [Result]
    }

    public func counts() async throws -> (stored: Int, repeated: Int) {
        (try await count("bpm", of: "heart_rate"), 0)
    }

    public func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        (
            try await count("seconds", of: "heart_rate_gap"),
            try await count("expected", of: "heart_rate_coverage")
        )
    }

    private func count(_ field: String, of measurement: String) async throws -> Int {
        let body = try await host.get(
            "\(address)/query?db=ward&q=SELECT%20count(\(field))%20FROM%20\(measurement)")
        let answer = try JSONDecoder().decode(Answer.self, from: body)
        guard case .number(let count)? = answer.results.first?.series?.first?.values.first?.last
        else { return 0 }
        return Int(count)
    }

    public func stop() async { await host.stop() }
}
