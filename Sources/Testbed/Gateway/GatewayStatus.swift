import Foundation

/// The output of `edge-gateway status --json`, as far as the testbed looks at it (docs/api.yaml).
///
/// Read on its own, not shared with the product: a field that the product renames must be noticed.
public struct GatewayStatus: Decodable, Sendable {
    /// A known sensor.
    public struct Sensor: Decodable, Sendable {
        /// Its Bluetooth address.
        public var address: String
        /// The name that people gave it.
        public var name: String
        /// Where its link is.
        public var link: String
        /// The last rate.
        public var bpm: Int?
        /// Samples in the store so far.
        public var stored: Int
        /// Of these, not yet delivered, held ones included.
        public var pending: Int
    }

    /// A destination beside the enrollments, with its own books.
    public struct Destination: Decodable, Sendable {
        /// The name it was added under.
        public var name: String
        /// Why its delivery is held, if it is.
        public var held: String?
        /// Samples that wait, held ones included.
        public var pending: Int
        /// Samples it has.
        public var delivered: Int
        /// Samples refused for good.
        public var dead: Int
        /// Samples withheld from it, by reason.
        public var dropped: [String: Int]
    }

    /// Where every frame is.
    public struct Balance: Decodable, Sendable, Equatable {
        /// Frames taken over.
        public var received: Int
        /// Samples in the store.
        public var stored: Int
        /// Frames that could not be decoded.
        public var undecodable: Int
        /// Frames neither disk nor memory could take.
        public var refused: [String: Int]
        /// Copies of frames that were passed over.
        public var doubled: Int
        /// Samples the exchange has.
        public var delivered: Int
        /// Samples that wait.
        public var pending: Int
        /// Samples that wait for a person.
        public var held: [String: Int]
        /// Samples refused for good.
        public var dead: Int
        /// Samples withheld by policy.
        public var dropped: [String: Int]
        /// Frames in memory.
        public var buffered: Int
        /// Whether both sums hold.
        public var balanced: Bool

        /// Samples that are neither delivered, dead nor dropped.
        public var unsent: Int { pending + held.values.reduce(0, +) }
        /// The two equations of the balance, recomputed here.
        public var addsUp: Bool {
            received == stored + undecodable + refused.values.reduce(0, +) + doubled
                && stored == delivered + unsent + dead + dropped.values.reduce(0, +)
        }
    }

    /// A condition that keeps it from being well.
    public struct Health: Decodable, Sendable {
        /// Stable name.
        public var name: String
        /// When it began, RFC 3339.
        public var since: String
        /// The message, for people.
        public var message: String
        /// The remedy.
        public var advice: String
    }

    /// Whether nothing needs a person.
    public var well: Bool
    /// The items that do.
    public var health: [Health]
    /// Known sensors.
    public var sensors: [Sensor]
    /// Destinations that were added.
    public var destinations: [Destination]
    /// Where every frame is.
    public var balance: Balance
}

extension GatewayProcess {
    /// How long the daemon may take to answer at its socket; a last resort.
    private static let answerPatience = Duration.seconds(60)

    /// Asks the daemon how it is, through the real command.
    public nonisolated func status() async throws -> GatewayStatus {
        let outcome = try await command(["status", "--json"])
        guard outcome.status <= 1 else {
            throw Fault(description: "status: \(outcome.complaint)")
        }
        return try Self.status(outcome.output)
    }

    /// The same by the request that the command makes. Who waits for something asks many times a second, and the
    /// start of a process takes more of the processor than everything else in the test.
    public nonisolated func polledStatus() async throws -> GatewayStatus {
        let answer = try await answer()
        guard answer.hasPrefix("HTTP/1.1 200 "), let head = answer.range(of: "\r\n\r\n") else {
            throw Fault(description: "/v1/status: \(answer.isEmpty ? "no answer" : answer)")
        }
        return try Self.status(String(answer[head.upperBound...]))
    }

    /// The daemon's answer at its socket; empty if there is none.
    nonisolated func answer() async throws -> String {
        let client = SlowClient(environment["EDGE_GATEWAY_SOCKET"] ?? "")
        client.send("GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        let deadline = ContinuousClock.now + Self.answerPatience
        while true {
            let text = client.received()
            // Refused, or answered whole.
            let isOver = client.isAtEnd || client.isCutOff()
            if isOver || ContinuousClock.now >= deadline { return text }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    private static func status(_ json: String) throws -> GatewayStatus {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(GatewayStatus.self, from: Data(json.utf8))
    }
}
