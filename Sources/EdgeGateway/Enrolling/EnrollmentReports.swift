import Foundation

// Enrolling's part of the JSON contract (docs/api.yaml).

/// An enrollment with one exchange.
struct EnrollmentReport: Codable, Equatable {
    var name: String
    /// `invitation` or `practitioner-key`.
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
    /// The health items that keep it from delivering, as `status` lists them.
    var health: [String]?
    /// Why its samples are not delivered, if that lasts.
    var fault: String?
    /// The parts that do not work there while samples are delivered: RR intervals that are not sent.
    var partialFault: String?
    /// How many patients' samples are held while the others' go on, by reason.
    var heldPatients: [String: Int]?
    var pending: Int
    var delivered: Int
    var dead: Int
    var lastDelivery: Date?
    /// When the token in use ends; it is renewed at half its life. Left out where none is needed.
    var tokenExpires: Date?
    /// The exchange refuses the token, and there is no new one yet.
    var tokenRefused: Bool?
    /// The outcome of the data points of each kind, `heart-rate` and `rr-interval`, since the delivery began.
    var dataPoints: [String: DataPointsReport]?
}

/// The outcome of the data points of one kind.
struct DataPointsReport: Codable, Equatable {
    var delivered: Int
    /// Not taken, and not sent again; by reason.
    var refused: [String: Int]
}

/// `POST /v1/enroll`
struct EnrollRequest: Codable {
    /// An invitation link.
    var link: String?
    /// The base64 of `client id:client secret`; needs `exchange`.
    var practitionerKey: String?
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
    /// `same` or `other`, as ``NamedPerson`` has it.
    var person: String?
    /// The enrollment whose exchange is at this address now.
    var moved: String?

    // The coder's way with capitals in a row would make it client_i_d.
    enum CodingKeys: String, CodingKey {
        case link, practitionerKey, exchange, verifier, name, device, resolution, person, moved
        case clientID = "clientId"
    }
}
/// A person's answer for a patient's number that meant another person at the enrollment.
enum NamedPerson: String, CaseIterable {
    /// The one who was enrolled; the exchange's record of them was corrected.
    case same
    /// Somebody else.
    case other
}
/// `POST /v1/confirm-patient`
struct ConfirmPatientRequest: Codable {
    var enrollment: String
    /// One of a practitioner's patients.
    var patient: String?
}
/// `POST /v1/enroll-web`
struct WebEnrollRequest: Codable {
    var name: String?
    var resolution: String?
}
/// `GET /v1/enroll-web`
struct WebEnrollmentReport: Codable, Equatable {
    /// `waiting`, `enrolled` or `ended`.
    var state: String
    var enrollment: EnrollmentReport?
    /// Why the last link that was pasted did not do.
    var problem: ProblemReport?
}
/// `POST /v1/enroll-once`, from the phone.
struct EnrollOnceRequest: Codable {
    var code: String
    var link: String
}
struct EnrollOnceReport: Codable, Equatable {
    var name: String
    var exchange: String
}
