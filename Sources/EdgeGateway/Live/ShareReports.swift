import Foundation

/// `POST /v1/share`
struct ShareRequest: Codable {
    /// One sensor only; all if left out.
    var address: String?
    /// How long it lasts.
    var hours: Int
}
/// What `share` and `enroll --web` hand out. The link is a secret.
struct ShareReport: Codable, Equatable {
    var link: String
    var expires: Date
    /// The page listens where only this machine can reach it.
    var loopbackOnly: Bool
}
/// `POST /v1/share/stop`
struct ShareStopReport: Codable, Equatable { var stopped: Int }
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
