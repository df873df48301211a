import Foundation
import Uplink

// The alerts' part of the JSON contract (docs/api.yaml).

/// An alert, and how its last message went.
struct AlertReport: Codable, Equatable {
    var name: String
    /// `mail`, `webhook`, `ntfy` or `sign-of-life`.
    var kind: String
    /// Where it leads, shortened: the whole address may be a key.
    var place: String
    /// `active` or `paused`.
    var state: String
    /// How many seconds an item must last before the alert sends it; left out of a sign of life.
    var errorsAfter: Int?
    var warningsAfter: Int?
    /// From one sign of life to the next, seconds.
    var every: Int?
    /// Whether the names that people gave to straps are in the messages.
    var strapNames: Bool
    /// Since when a message waits to be sent.
    var waitingSince: Date?
    /// Why the last attempt failed.
    var fault: String?
    /// When something was sent last.
    var lastSent: Date?
}

/// A kind of alert, as `alert kinds` prints it.
struct AlertKindReport: Encodable {
    var kind: String
    /// A description, one line.
    var summary: String
    var settings: [DestinationKindReport.Setting]

    init(_ kind: any AlertKind.Type) {
        self.kind = kind.name
        summary = kind.summary
        settings = kind.fields.map { DestinationKindReport.Setting($0) }
    }
}

/// `POST /v1/alerts`
struct AlertAddRequest: Codable {
    /// A kind as `alert kinds` lists them.
    var kind: String
    /// Its settings by name, secrets included.
    var settings: [String: String]
    /// The kind's name if left out.
    var name: String?
    /// Seconds; 300 if left out.
    var errorsAfter: Int?
    /// Seconds; 3,600 if left out.
    var warningsAfter: Int?
    /// Put the names that people gave to straps into the messages.
    var strapNames: Bool?
    /// Whether one of this name may get other settings than it has.
    var replace: Bool?
}

/// `POST /v1/alerts/test`, `/pause`, `/resume` and `/remove`: names are in no path.
struct AlertRequest: Codable { var name: String }

/// The message for a receiver of webhooks.
struct AlertEvent: Encodable {
    struct Item: Encodable {
        /// The health item's name.
        var name: String
        var severity: String
        /// `raised`, `over` or `still`.
        var state: String
        /// The meaning, one line.
        var meaning: String
        /// The remedy; left out when it is over.
        var advice: String?
        /// The straps that it is about, by number.
        var straps: [Int64]?
        /// The names that people gave them, if that was switched on.
        var strapNames: [String]?
        /// How many such items there are.
        var count: Int
        /// Since when, and until when; left out while the clock is not trusted.
        var since: Date?
        var until: Date?
        /// How long it has lasted.
        var seconds: Int
    }

    struct Contents: Encodable {
        /// The gateway's name.
        var gateway: String
        var items: [Item]
        /// By how many seconds the message is late, if it is.
        var lateSeconds: Int?
    }

    /// `health.changed`, or `health.test`.
    var type: String
    var timestamp: Date
    var data: Contents
}
