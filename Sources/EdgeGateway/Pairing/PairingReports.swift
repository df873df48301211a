// Pairing's part of the JSON contract (docs/api.yaml).

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
    /// Notifications lost on the air since the daemon started, estimated from the RR intervals.
    var lostFrames: Int?
    var enrollment: String?
    /// Whom it is paired for, where the enrollment has several patients.
    var patient: String?
    /// How much of this UTC day there is data for, as of a minute ago at most; left out where nothing
    /// was to be recorded.
    var coverageTodayPercent: Double?
    var stored: Int
    var pending: Int
}

extension SensorReport {
    /// The enrollment that its samples go to, with the patient where it has several.
    var destination: String? {
        enrollment.map { name in patient.map { "\(name), patient \($0)" } ?? name }
    }
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

/// The findings of `pair`.
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

/// `POST /v1/scan`
struct ScanRequest: Codable { var seconds: Int }
/// `POST /v1/pair`
struct PairRequest: Codable {
    var address: String
    var enrollment: String?
    var patient: String?
    /// The names of destinations that the samples go to as well.
    var destinations: [String]?
    /// The exchange's device id, for a practitioner's enrollment that has none yet.
    var device: String?
    var name: String?
    /// The six digits that the sensor shows, if they are known beforehand.
    var passkey: Int?
    /// Meanwhile the client polls `POST /v1/pairing/question` and answers the questions there.
    var attended: Bool?
}
/// `POST /v1/pairing/question`: addresses are in no path.
struct PairingQuestionRequest: Codable { var address: String }
/// The answer: what a sensor that is being paired asks for.
struct PairingReport: Codable, Equatable {
    /// `enter-passkey` (the sensor shows it), `type-passkey` (into the sensor) or `confirm-passkey`;
    /// nil while the sensor asks nothing.
    var question: String?
    /// Six digits, where the question has some.
    var passkey: String?
    /// The present step of the link to the sensor, in words; nil without a link.
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
