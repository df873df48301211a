import Foundation
import Uplink

// The destinations' part of the JSON contract (docs/api.yaml).

/// A place that samples are delivered to.
struct DestinationReport: Codable, Equatable {
    /// The store's number for it, for queries: names are in no path.
    var id: Int64
    var name: String
    /// `exchange`, or a kind as `destination kinds` lists them.
    var kind: String
    /// Where it is: an address without secrets.
    var place: String
    /// `active`, `paused` or `enroll-again`.
    var state: String
    /// Why its delivery is held, if it is.
    var held: String?
    /// The health items that keep it from delivering, as `status` lists them.
    var health: [String]?
    /// Why the last attempt delivered nothing, if that lasts.
    var fault: String?
    /// The parts that do not work there while samples are delivered: gaps that are not taken, a share.
    var partialFault: String?
    /// Whether the samples of every strap go there.
    var everyStrap: Bool
    /// How many straps that record deliver there now.
    var straps: Int
    /// After how many days what it cannot take is dropped for it; left out: never.
    var keepDays: Int?
    /// `raw`, `10s` or `60s`.
    var resolution: String
    var pending: Int
    var delivered: Int
    var dead: Int
    /// By the reason for which they were dropped.
    var dropped: [String: Int]
    var lastDelivery: Date?
}

/// A kind of destination, as `destination kinds` prints it.
struct DestinationKindReport: Encodable {
    struct Setting: Encodable {
        var name: String
        /// `required`, `optional`, `made` (by the gateway, if it is left out) or `default`.
        var need: String
        /// The value that is taken when it is left out.
        var fallback: String?
        var secret: Bool
        /// A description, one line.
        var help: String

        init(_ field: SettingField) {
            (need, fallback) =
                switch field.need {
                case .required: ("required", nil)
                case .optional: ("optional", nil)
                case .made: ("made", nil)
                case .standard(let value): ("default", value)
                }
            name = field.name
            secret = field.isSecret
            help = field.help
        }
    }

    var kind: String
    /// A description, one line.
    var summary: String
    var deliveredMeans: String
    var settings: [Setting]

    init(_ kind: any DestinationKind.Type) {
        self.kind = kind.name
        summary = kind.summary
        deliveredMeans = kind.promise.words
        settings = kind.fields.map { Setting($0) }
    }
}

/// The part that `destination show` prints beside it.
struct DestinationDetailReport: Codable, Equatable {
    var destination: DestinationReport
    /// The settings by name; a secret has the value `(set)`.
    var settings: [String: String]
    /// `durable`, `accepted` or `handed-over`, and the same in words.
    var delivered: String
    var deliveredMeans: String
    /// Whether a sample that is sent twice can be seen twice there.
    var mayRepeat: Bool
    /// The kind of the patient's name there: `none` or `id`.
    var patient: String
    /// An example of the content: one invented sample, and one gap if it takes gaps.
    var example: String
}

/// The result of trying a destination.
struct DestinationTestReport: Codable, Equatable {
    var name: String
    /// The properties that were tried and found well, a line each.
    var checked: [String]
    /// The properties that could not be tried without leaving data there, a line each.
    var unchecked: [String]
}

/// `POST /v1/destinations/compare`
struct DestinationCompareRequest: Codable {
    /// Two destinations.
    var names: [String]
    /// How many days, today included; 30 if left out.
    var days: Int?
}

/// The counts of two destinations for the samples that go to both.
struct DestinationComparisonReport: Codable, Equatable {
    /// One destination's part of a day's samples; the numbers add up to ``Day/samples``.
    struct Counts: Codable, Equatable {
        var delivered: Int
        /// Not delivered yet, held or not.
        var waiting: Int
        var refused: Int
        var dropped: Int
        /// Gone before the destination was added.
        var before: Int
    }

    struct Day: Codable, Equatable {
        /// When the day (UTC) begins; left out while the samples' clock is not known.
        var day: Date?
        /// When the last day begins, for samples that were recorded while the clock was not known.
        var until: Date?
        /// Samples that go to both.
        var samples: Int
        /// In the order of ``names``.
        var counts: [Counts]
    }

    var names: [String]
    /// Newest first.
    var days: [Day]
    /// Samples of these days that go to one of them alone, in the order of ``names``: they are not compared.
    var alone: [Int]
    /// Whether one has as many samples of each day as the other.
    var same: Bool
}

/// `POST /v1/destinations/code`
struct DestinationCodesReport: Codable, Equatable {
    /// One strap's.
    struct Code: Codable, Equatable {
        /// The strap's address.
        var strap: String
        /// The text of its QR code. Whoever reads it before it expires may pair the strap.
        var text: String
        var expires: Date
    }

    var name: String
    /// The codes of the straps that deliver there now.
    var codes: [Code]
}

/// `POST /v1/destinations`
struct DestinationAddRequest: Codable {
    /// A kind as `destination kinds` lists them.
    var kind: String
    /// Its settings by name, secrets included.
    var settings: [String: String]
    /// The kind's name if left out.
    var name: String?
    /// Take every strap that records, now and later.
    var everyStrap: Bool?
    /// The addresses of the straps to take.
    var straps: [String]?
    /// `now` (standard) or `kept`.
    var from: String?
    /// After how many days what it cannot take is dropped for it; 30 if left out, 0: never.
    var keepDays: Int?
    /// `raw`, `10s` or `60s`.
    var resolution: String?
    /// Whether one of this name may get other settings than it has.
    var replace: Bool?
}

/// The result.
struct DestinationAddReport: Codable, Equatable {
    var destination: DestinationReport
    var test: DestinationTestReport
}

/// `POST /v1/destinations/test`, `/pause`, `/resume`, `/code` and `/show`: names are in no path.
struct DestinationRequest: Codable { var name: String }

/// `POST /v1/destinations/remove`
struct DestinationRemoveRequest: Codable {
    var name: String
    /// Give up what was not delivered yet.
    var undelivered: Bool?
}

/// `POST /v1/destinations/straps`: which straps go there beside their own destination.
struct DestinationStrapsRequest: Codable {
    var name: String
    /// The addresses of straps that go there from now on.
    var add: [String]?
    /// The addresses of straps that go there no more; what waits of them is dropped for it.
    var remove: [String]?
    /// `now` (standard) or `kept`.
    var from: String?
}
