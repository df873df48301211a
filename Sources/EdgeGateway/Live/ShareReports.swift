import Foundation

/// `POST /v1/share`
struct ShareRequest: Codable {
    /// One sensor only; all if left out.
    var address: String?
    /// How long it lasts.
    var hours: Int
}
/// The link that `share` and `enroll --web` hand out. The link is a secret.
struct ShareReport: Codable, Equatable {
    var link: String
    var expires: Date
    /// The page listens where only this machine can reach it.
    var loopbackOnly: Bool
}
/// `POST /v1/share/stop`
struct ShareStopReport: Codable, Equatable { var stopped: Int }
