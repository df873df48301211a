import Basics
import Foundation

// The fleet's part of the JSON contract (docs/api.yaml).

/// One thing that is not well at a gateway.
struct FleetItem: Codable, Equatable, Sendable {
    /// As in `status`; or of a gateway whose state cannot be known one of ``FleetFault``.
    var name: String
    var severity: String
    var since: Date
    /// How long it has lasted, which is right also while the gateway's clock is not set.
    var seconds: Double?
    /// The event, one line.
    var detail: String
    /// The remedy, one line.
    var remedy: String
    /// The name of the strap that it is about, if it is about one.
    var sensor: String?
}

/// How many straps send.
struct FleetSensors: Codable, Equatable, Sendable {
    var paired: Int
    /// Their link is up, and a frame came a moment ago.
    var streaming: Int
    /// The names of the others.
    var silent: [String]
}

/// The samples that wait for one destination.
struct FleetBacklog: Codable, Equatable, Sendable {
    var destination: String
    var kind: String
    /// Samples that wait or are held.
    var samples: Int
}

/// `GET /v1/fleet`: one gateway for a fleet's screen. No patient, no rate, no sensor's address.
struct FleetReport: Codable, Equatable, Sendable {
    /// When this was so; left out while the gateway's clock is not set.
    var time: Date?
    var gateway: GatewayIdentity
    var version: String
    var well: Bool
    var items: [FleetItem]
    var sensors: FleetSensors
    /// Left out if nothing waits.
    var oldestUndeliveredSeconds: Double?
    var backlog: [FleetBacklog]
    /// The paired straps with their marks; left out without `fleet.secret_file`.
    var straps: [FleetStrap]?
}

extension FleetReport {
    /// The name of a strap on the fleet's screen, which shows no addresses. The label of a strap without a name ends with
    /// part of its address; such a strap is called by its number.
    static func name(of id: Int64, _ label: String, address: String) -> String {
        label.hasSuffix("…" + address.suffix(5)) ? "Strap \(id)" : label
    }

    init(_ status: StatusReport, marks: StrapMarks? = nil, at now: Date) {
        // Commands in remedies have addresses, and messages the end of one if a strap has no name.
        let items = status.health(masking: { text, sensor in
            text.replacing(sensor.address, with: "STRAP")
                .replacing("strap …" + sensor.address.suffix(5), with: sensor.fleetName)
        })
        let silent = status.sensors.filter { !$0.isStreaming }
        self.init(
            time: status.clockTrusted ? now : nil, gateway: status.gateway, version: status.version,
            well: status.well,
            items: items.map { item, sensor in
                FleetItem(
                    name: item.name, severity: item.severity, since: item.since,
                    seconds: item.seconds, detail: item.message, remedy: item.advice,
                    sensor: sensor?.fleetName)
            },
            sensors: FleetSensors(
                paired: status.sensors.count,
                streaming: status.sensors.count - silent.count,
                silent: silent.map(\.fleetName)),
            oldestUndeliveredSeconds: status.clockTrusted
                ? status.oldestUnsent.map { max(0, now.timeIntervalSince($0)) } : nil,
            backlog: status.enrollments.map {
                FleetBacklog(destination: $0.name, kind: "exchange", samples: $0.pending)
            }
                + status.destinations.map {
                    FleetBacklog(destination: $0.name, kind: $0.kind, samples: $0.pending)
                },
            straps: marks.map { marks in
                status.sensors.map {
                    FleetStrap(name: $0.fleetName, mark: marks.mark(ofAddress: $0.address))
                }
            })
    }
}

extension StatusReport {
    /// The health items with the addresses of straps masked, each with the paired strap that it is about. An item about
    /// a strap names no other strap; an item about none may name any.
    func health(
        masking mask: (String, SensorReport) -> String
    ) -> [(item: HealthItem, sensor: SensorReport?)] {
        let byNumber = Dictionary(
            sensors.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        return health.map { item in
            let sensor = item.sensor.flatMap { byNumber[$0] }
            var masked = item
            for named in sensor.map({ [$0] }) ?? sensors {
                masked.message = mask(masked.message, named)
                masked.advice = mask(masked.advice, named)
            }
            return (masked, sensor)
        }
    }
}

extension SensorReport {
    /// Its name on the fleet's screen.
    var fleetName: String { FleetReport.name(of: id, name, address: address) }

    /// Whether its link is up and a frame came a moment ago.
    var isStreaming: Bool {
        link == "streaming" && (secondsSinceFrame ?? .infinity) <= Self.freshTime.inSeconds
    }
}

/// The facts about one gateway of a fleet.
struct FleetGateway: Codable, Equatable, Sendable {
    enum State: String, Codable, Sendable {
        case well
        case notWell = "not-well"
        /// It does not answer.
        case gone
    }

    /// From the hosts file, or as the gateway calls itself, or its address.
    var name: String
    var site: String?
    var labels: [String: String]
    var version: String?
    var state: State
    var since: Date
    var items: [FleetItem]
    /// This and what follows is left out while the gateway's state cannot be known.
    var sensors: FleetSensors?
    var oldestUndeliveredSeconds: Double?
    var backlog: [FleetBacklog]?
    var straps: [FleetStrap]?
    /// Left out if it never answered.
    var lastAnswer: Date?
}

/// `fleet --json`, and `GET /v1/fleet/hosts` of the fleet's page: worst first.
struct FleetHostsReport: Codable, Equatable, Sendable {
    /// When the gateways were asked, or the broker was read.
    var time: Date
    /// True if the gateways should have been asked again by now; left out otherwise.
    var old: Bool?
    var gateways: [FleetGateway]

    /// Gone first, then those that lose data, then those that a person looks after before they do, then the others;
    /// by name among equals, so that a row stays where it was.
    init(time: Date, gateways: [FleetGateway]) {
        self.time = time
        self.gateways = gateways.sorted { one, other in
            one.rank == other.rank
                ? one.name.localizedStandardCompare(other.name) == .orderedAscending
                : one.rank < other.rank
        }
    }

    /// Whether no gateway needs a person.
    var isWell: Bool { gateways.allSatisfy { $0.state == .well } }
}

extension FleetGateway {
    fileprivate var rank: Int {
        switch state {
        case .gone: 0
        case .notWell: items.contains { $0.severity == "error" } ? 1 : 2
        case .well: 3
        }
    }
}
