import Foundation
import HTTPTypes

// The JSON of the control API and of every `--json` output: one set of types, so that they cannot
// drift apart. Fields are a stable contract (docs/json.md): new ones may appear, none changes.

/// What a command or an API call can say went wrong.
struct ProblemReport: Codable, Error, Equatable {
    /// The stable name of a ``ProblemCode``, such as `no-adapter`.
    var code: String
    /// What happened, one line.
    var message: String
    /// What to do about it, one line.
    var advice: String

    init(code: ProblemCode, message: String, advice: String) {
        self.code = code.rawValue
        self.message = message
        self.advice = advice
    }

    /// The status that goes with the code. A report of a newer daemon may have a code that is not known here.
    var httpStatus: HTTPResponse.Status { ProblemCode(rawValue: code)?.status ?? .conflict }
}

/// A condition that keeps the gateway from being well.
struct HealthItem: Codable, Equatable {
    /// Stable name, such as `radio-off`.
    var name: String
    /// `error`: heartbeats are lost or do not arrive; `warning`: a person acts before they stop.
    var severity: String
    var since: Date
    var message: String
    var advice: String
}

/// A known sensor and its link.
struct SensorReport: Codable, Equatable {
    var id: Int64
    var address: String
    var name: String
    /// absent, seen, connecting, resolving, subscribing, streaming or suspended.
    var link: String
    /// Why the link is not streaming, when there is something to say.
    var linkDetail: String?
    var bpm: Int?
    /// nil: the sensor does not report skin contact.
    var contact: Bool?
    var secondsSinceFrame: Double?
    var batteryPercent: Int?
    /// Notifications lost on the way since the daemon started, estimated from the RR intervals.
    var lostFrames: Int?
    var enrollment: String?
    /// How much of this UTC day there is data for, as of a minute ago at most; left out where nothing
    /// was to be recorded.
    var coverageTodayPercent: Double?
    var stored: Int
    var pending: Int
}

/// A heart-rate sensor heard by `scan`.
struct SightingReport: Codable, Equatable {
    var address: String
    var name: String
    var rssi: Int?
    /// The gateway records this sensor already.
    var known: Bool
    var connected: Bool
    var bonded: Bool
}

/// What `pair` found out.
struct PairReport: Codable, Equatable {
    var sensor: SensorReport
    var bodyLocation: String?
    var manufacturer: String?
    var model: String?
    var firmware: String?
    /// The first measured rate: the proof of life.
    var firstBpm: Int?
    /// Advice that does not keep the sensor from recording, such as to moisten the electrodes.
    var notes: [String]
}

/// An enrollment with one exchange.
struct EnrollmentReport: Codable, Equatable {
    var name: String
    /// `invitation`, `practitioner-key` or `file`.
    var kind: String
    var exchange: String
    var patient: String?
    var device: String?
    var code: String
    /// `raw`, `10s` or `60s`.
    var resolution: String
    /// `active` or `enroll-again`.
    var state: String
    /// Why its delivery is held, if it is.
    var held: String?
    /// How many patients' samples are held while the others' go on, by reason.
    var heldPatients: [String: Int]?
    var pending: Int
    var delivered: Int
    var dead: Int
    var lastDelivery: Date?
    /// When the token in use ends; it is renewed at half its life. Left out where none is needed.
    var tokenExpires: Date?
}

/// Where every frame is. Two sums must hold: received = stored + undecodable + refused + doubled, and
/// stored = delivered + pending + held + dead + dropped.
struct BalanceReport: Codable, Equatable {
    var received: Int
    var stored: Int
    var undecodable: Int
    /// Frames that neither disk nor memory could take, by reason.
    var refused: [String: Int]
    /// Copies of frames, passed over: another program listens to the strap as well.
    var doubled = 0
    var delivered: Int
    var pending: Int
    /// By reason.
    var held: [String: Int]
    var dead: Int
    /// By policy that dropped them.
    var dropped: [String: Int]
    /// Frames in memory that the next commit writes; in none of the figures above.
    var buffered: Int
    var balanced: Bool
}

/// The whole state on one page.
struct StatusReport: Codable, Equatable {
    var version: String
    var well: Bool
    var health: [HealthItem]
    var uptimeSeconds: Double
    var clockTrusted: Bool
    var sensors: [SensorReport]
    var enrollments: [EnrollmentReport]
    var balance: BalanceReport
    var oldestUnsent: Date?
}

/// `POST /v1/scan`
struct ScanRequest: Codable { var seconds: Int }
/// `POST /v1/pair`
struct PairRequest: Codable {
    var address: String
    var enrollment: String?
    var patient: String?
    /// The exchange's device id, for a practitioner's enrollment that has none yet.
    var device: String?
    var name: String?
    /// The six digits that the sensor shows, if they are known beforehand.
    var passkey: Int?
    /// Somebody asks `POST /v1/pairing/question` meanwhile and answers what is asked there.
    var attended: Bool?
}
/// `POST /v1/pairing/question`: addresses are in no path.
struct PairingQuestionRequest: Codable { var address: String }
/// The answer: what a sensor that is being paired asks for.
struct PairingReport: Codable, Equatable {
    /// `enter-passkey` (the sensor shows it), `type-passkey` (into the sensor) or `confirm-passkey`;
    /// nil when nothing is asked.
    var question: String?
    /// Six digits, where the question has some.
    var passkey: String?
    /// What the link to the sensor is at, in words for a person; nil when there is none.
    var step: String?
}
/// `POST /v1/pairing/answer`: what the technician says.
struct PairingAnswerRequest: Codable {
    var address: String
    var passkey: Int?
    var agreed: Bool?
}
/// `POST /v1/forget`
struct ForgetRequest: Codable { var address: String }
/// `POST /v1/enroll`
struct EnrollRequest: Codable {
    /// An invitation link.
    var link: String?
    /// The base64 of `client id:client secret`; needs `exchange`.
    var practitionerKey: String?
    /// The absolute path of a file to deliver into.
    var file: String?
    /// The exchange's address, for a key and for links that name none.
    var exchange: String?
    /// For links of exchanges before v0.0.9: the OAuth client and its code verifier.
    var clientID: String?
    var verifier: String?
    var name: String?
    /// The exchange's device id, when several fit.
    var device: String?
    /// `raw`, `10s` or `60s`; what there was, or `raw`, if left out.
    var resolution: String?

    // The coder's way with capitals in a row would make it client_i_d.
    enum CodingKeys: String, CodingKey {
        case link, practitionerKey, file, exchange, verifier, name, device, resolution
        case clientID = "clientId"
    }
}

enum ReportCoding {
    /// Snake-case keys, RFC 3339 dates, sorted so that output is the same from run to run.
    static func encoder(pretty: Bool = false) -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting =
            pretty
            ? [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
            : [.sortedKeys, .withoutEscapingSlashes]
        return encoder
    }

    static func decoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        // With a fraction of a second or without: a newer daemon may say more of a time.
        decoder.dateDecodingStrategy = .custom { decoder in
            let value = try decoder.singleValueContainer()
            let text = try value.decode(String.self)
            guard
                let date = (try? Date(text, strategy: .iso8601))
                    ?? (try? Date(text, strategy: MillisecondTime.style))
            else {
                throw DecodingError.dataCorruptedError(in: value, debugDescription: "no time")
            }
            return date
        }
        return decoder
    }
}

/// A time with its milliseconds, where a second is too coarse.
struct MillisecondTime: Codable, Equatable {
    static let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    var date: Date

    init(_ date: Date) { self.date = date }

    init(from decoder: any Decoder) throws {
        date = try decoder.singleValueContainer().decode(Date.self)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(date.formatted(Self.style))
    }
}

extension Date {
    init(microseconds: Int64) {
        self.init(timeIntervalSince1970: Double(microseconds) / 1_000_000)
    }
}
