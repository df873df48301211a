import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import OfflineQueue

/// The state of the gateway for Prometheus (text exposition format 0.0.4). Names are a stable contract
/// (docs/operate/operations.md). Sensors are distinguished by their number here, never by their address.
enum Metrics {
    private static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Prometheus sees a counter grow only if it saw it before: the first loss would raise no alarm.
    private static func zeros(_ reasons: [LossReason]) -> [String: Int] {
        Dictionary(uniqueKeysWithValues: reasons.map { ($0.rawValue, 0) })
    }

    static func response(_ metrics: CountedMetrics) async throws -> Response {
        let text = try await metrics.text()
        return Response(
            status: .ok, headers: [.contentType: contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }

    static func page(_ status: StatusReport, _ counters: RisingCounters? = nil) -> MetricsPage {
        var page = MetricsPage(counters: counters)
        page.add(
            "info", .gauge, "Which gateway this is, and the running version.",
            [(labels(of: status), 1)])
        page.add("well", .gauge, "1 if the gateway is well.", status.well ? 1 : 0)
        page.add(
            "uptime_seconds", .gauge, "Time since the daemon started.", status.uptimeSeconds)
        page.add(
            "clock_trusted", .gauge, "1 if the clock is trusted.", status.clockTrusted ? 1 : 0)
        page.add(
            "health", .gauge, "How many items of each condition are not well.",
            Dictionary(grouping: status.health, by: \.name).sorted { $0.key < $1.key }.map {
                (["condition": $0.key, "severity": $0.value[0].severity], Double($0.value.count))
            })
        addBalance(status.balance, to: &page)
        if let oldest = status.oldestUnsent {
            page.add(
                "oldest_unsent_timestamp_seconds", .gauge,
                "When the oldest sample that waits arrived.", oldest.timeIntervalSince1970)
        }
        addSensors(status.sensors, to: &page)
        addEnrollments(status.enrollments, to: &page)
        addDestinations(status.destinations, to: &page)
        return page
    }

    /// Name, site and labels, for joins with the other metrics; a label has its own name behind `label_`.
    private static func labels(of status: StatusReport) -> [String: String] {
        var labels = ["version": status.version, "name": status.gateway.name]
        labels["site"] = status.gateway.site
        for (name, value) in status.gateway.labels { labels["label_" + name] = value }
        return labels
    }

    /// received = stored + undecodable + refused + doubled; stored = delivered + pending + held + dead + dropped.
    private static func addBalance(_ balance: BalanceReport, to page: inout MetricsPage) {
        func reasons(_ counts: [String: Int]) -> [([String: String], Double)] {
            counts.sorted { $0.key < $1.key }.map { (["reason": $0.key], Double($0.value)) }
        }
        page.add(
            "frames_received_total", .counter, "Frames that arrived.", Double(balance.received))
        page.add(
            "samples_stored_total", .counter, "Frames stored as samples.",
            Double(balance.stored))
        page.add(
            "frames_undecodable_total", .counter, "Frames that cannot be decoded, and are kept.",
            Double(balance.undecodable))
        page.add(
            "frames_refused_total", .counter, "Frames lost: neither disk nor memory took them.",
            reasons(zeros(LossReason.ofRefusals).merging(balance.refused) { $1 }))
        page.add(
            "frames_doubled_total", .counter, "Copies of frames that were not stored.",
            Double(balance.doubled))
        page.add(
            "samples_delivered_total", .counter, "Samples delivered.",
            Double(balance.delivered))
        page.add("samples_pending", .gauge, "Samples that wait.", Double(balance.pending))
        page.add("samples_held", .gauge, "Samples that are held.", reasons(balance.held))
        page.add("samples_dead", .gauge, "Samples refused for good.", Double(balance.dead))
        page.add(
            "samples_dropped_total", .counter, "Samples a policy dropped.",
            reasons(zeros(LossReason.ofDrops).merging(balance.dropped) { $1 }))
        page.add(
            "samples_buffered", .gauge, "Samples in memory, not committed yet.",
            Double(balance.buffered))
        page.add("balanced", .gauge, "1 if the books balance.", balance.balanced ? 1 : 0)
    }

    private static func addSensors(_ sensors: [SensorReport], to page: inout MetricsPage) {
        func each(_ value: (SensorReport) -> Double?) -> [([String: String], Double)] {
            sensors.compactMap { sensor in value(sensor).map { (["sensor": "\(sensor.id)"], $0) } }
        }
        page.add(
            "sensor_streaming", .gauge, "1 while the link is up and frames are expected.",
            each { $0.link == "streaming" ? 1 : 0 })
        page.add(
            "sensor_seconds_since_frame", .gauge, "Age of the last frame.",
            each { $0.secondsSinceFrame })
        page.add(
            "sensor_battery_percent", .gauge, "Battery charge.",
            each { $0.batteryPercent.map(Double.init) }
        )
        page.add(
            "sensor_lost_frames_total", .counter,
            "Frames lost on the air, estimated from RR intervals.",
            each { $0.lostFrames.map(Double.init) })
        page.add(
            "sensor_samples_stored_total", .counter, "Samples stored from this sensor.",
            each { Double($0.stored) })
    }

    private static func addEnrollments(
        _ enrollments: [EnrollmentReport], to page: inout MetricsPage
    ) {
        func each(_ value: (EnrollmentReport) -> Double?) -> [([String: String], Double)] {
            enrollments.compactMap { one in value(one).map { (["enrollment": one.name], $0) } }
        }
        page.add(
            "delivery_pending", .gauge, "Samples that wait for this delivery.",
            each { Double($0.pending) })
        page.add(
            "delivery_delivered_total", .counter, "Samples that this delivery delivered.",
            each { Double($0.delivered) })
        page.add("delivery_dead", .gauge, "Samples refused for good.", each { Double($0.dead) })
        page.add(
            "delivery_held", .gauge, "1 while this delivery is held.",
            each { $0.held == nil ? 0 : 1 })
        page.add(
            "delivery_last_delivery_timestamp_seconds", .gauge,
            "When this delivery last delivered.",
            each { $0.lastDelivery?.timeIntervalSince1970 })
    }
}

extension Metrics {
    private static func addDestinations(
        _ destinations: [DestinationReport], to page: inout MetricsPage
    ) {
        func each(_ value: (DestinationReport) -> Double?) -> [([String: String], Double)] {
            destinations.compactMap { one in
                value(one).map { (["destination": one.name, "kind": one.kind], $0) }
            }
        }
        page.add(
            "destination_pending", .gauge, "Samples that wait for this destination.",
            each { Double($0.pending) })
        page.add(
            "destination_delivered_total", .counter, "Samples delivered there.",
            each { Double($0.delivered) })
        page.add(
            "destination_dead", .gauge, "Samples refused for good.", each { Double($0.dead) })
        page.add(
            "destination_dropped_total", .counter, "Samples dropped for it.",
            each { Double($0.dropped.values.reduce(0, +)) })
        page.add(
            "destination_held", .gauge, "1 while it is held or paused.",
            each { $0.held == nil && $0.state == "active" ? 0 : 1 })
        page.add(
            "destination_last_delivery_timestamp_seconds", .gauge, "When it last delivered.",
            each { $0.lastDelivery?.timeIntervalSince1970 })
    }
}

/// Prometheus text as it grows.
struct MetricsPage {
    enum Kind: String { case counter, gauge }

    /// What makes counters of figures that may fall; nil where none does.
    private(set) var counters: RisingCounters?
    private(set) var text = ""

    init(counters: RisingCounters? = nil) { self.counters = counters }

    mutating func add(_ name: String, _ kind: Kind, _ help: String, _ value: Double) {
        add(name, kind, help, [([:], value)])
    }

    mutating func add(
        _ name: String, _ kind: Kind, _ help: String, _ values: [([String: String], Double)]
    ) {
        let name = "edge_gateway_" + name
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
        for (labels, value) in values {
            let inner = labels.sorted { $0.key < $1.key }
                .map { "\($0.key)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",")
            let series = inner.isEmpty ? name : "\(name){\(inner)}"
            let shown = kind == .counter ? counters?.count(series, value) ?? value : value
            text += series
            // A whole number that a counter can be is written as one.
            text +=
                shown.rounded() == shown && abs(shown) < 9e15 ? " \(Int64(shown))\n" : " \(shown)\n"
        }
    }

    /// Names of enrollments are what a technician typed.
    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
            .replacing("\n", with: "\\n")
    }
}
