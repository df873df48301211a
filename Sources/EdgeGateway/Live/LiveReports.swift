import Foundation
import Health
import Uplink

// The reports for the live page. They never hold a patient or an address: a person who looks over a nurse's
// shoulder learns a name that a technician chose, and a heart rate.

/// A strap while one person wears it.
struct WornStrap: Codable, Hashable {
    var sensor: Int64
    var assignment: Int64
}

/// How much a viewer may see.
enum ViewerScope: Equatable, Sendable {
    /// The whole page.
    case full
    /// Heart rates only: of one strap while that person wears it, or of all straps.
    case share(WornStrap?)

    var name: String { self == .full ? "full" : "share" }

    /// Whether this viewer may see anything of a strap while a person wears it; nil: nobody does.
    func covers(_ worn: WornStrap?) -> Bool {
        if case .share(let only?) = self { only == worn } else { true }
    }
}

/// `event: straps`
struct LiveReport: Codable, Equatable {
    /// The time of this report, to the millisecond, since the page counts ages from it.
    var at: MillisecondTime
    /// `full` or `share`.
    var scope: String
    var straps: [LiveStrap]
}

/// A destination beside the straps' own, as the page shows it.
struct LiveDestination: Codable, Equatable {
    var name: String
    var kind: String
    /// `active`, `paused` or `enroll-again`.
    var state: String
    /// Why nothing is delivered, for a person, if it is held or has failed for some time.
    var trouble: String?
    var pending: Int
    var delivered: Int
    var dead: Int
    var lastDelivery: Date?

    init(_ report: DestinationReport) {
        name = report.name
        kind = report.kind
        state = report.state
        trouble =
            report.held.map { HoldReason(rawValue: $0)?.meaning ?? $0 } ?? report.fault
            ?? report.health?.first.map { HealthName(rawValue: $0)?.meaning ?? $0 }
        pending = report.pending
        delivered = report.delivered
        dead = report.dead
        lastDelivery = report.lastDelivery
    }
}

/// `event: gateway`
struct LiveGatewayReport: Codable, Equatable {
    var well: Bool
    var health: [HealthItem]
    var pending: Int
    var held: Int
    var dead: Int
    var delivered: Int
    var oldestUnsent: Date?
    var lastDelivery: Date?
    var clockTrusted: Bool
    var destinations: [LiveDestination]
    /// The next thing to do on a gateway that is not set up yet.
    var nextStep: NextStep?

    /// Messages name straps and enrollments; a strap without a name, its address, is masked.
    init(_ status: StatusReport) {
        well = status.well
        health = status.health(masking: { text, sensor in
            text.replacing(sensor.address, with: "…" + sensor.address.suffix(5))
        }).map(\.item)
        pending = status.balance.pending
        held = status.balance.held.values.reduce(0, +)
        dead = status.balance.dead
        delivered = status.balance.delivered
        oldestUnsent = status.oldestUnsent
        lastDelivery = status.enrollments.compactMap(\.lastDelivery).max()
        clockTrusted = status.clockTrusted
        destinations = status.destinations.map(LiveDestination.init)
        nextStep = status.nextStep
    }
}

/// `GET /v1/live/history`
struct LiveHistoryReport: Codable, Equatable {
    /// One column of the chart.
    struct Point: Codable, Equatable {
        var at: Date
        var low: Int
        var mean: Double
        var high: Int
        var count: Int
    }
    /// Time without samples.
    struct Silence: Codable, Equatable {
        var from: Date
        /// Left out while it goes on.
        var until: Date?
        /// Left out for those who may only see heart rates.
        var cause: String?
    }

    var sensor: Int64
    var from: Date
    var until: Date
    var bucketSeconds: Int
    var points: [Point]
    var gaps: [Silence]
}
