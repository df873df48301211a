import Basics
import OfflineQueue

/// A server that takes no token because, by its clock, the token is of the future (RFC 7519 §4.1.5, §4.1.6).
struct ClockDisagreement: Hashable {
    /// How far the server's clock is ahead of this machine's; negative if it is behind, nil if it does not tell or
    /// this machine's clock is not trusted.
    var ahead: Duration?

    /// The words of the libraries that check tokens.
    private static let words = [
        "issued at future", "issued in the future", "used too early", "not yet valid",
        "not valid yet",
        "token is not active", "(iat)", "\"iat\"", "'iat'", "iat claim", "(nbf)", "\"nbf\"",
        "'nbf'",
        "nbf claim", "before nbf", "clock skew",
    ]

    init?(_ answer: HTTPAnswer, now: ClockReading) {
        // Where a library writes the fault: in the body, or as the scheme's error (RFC 6750 §3).
        let said = ((answer.words ?? "") + " " + (answer.fields["www-authenticate"] ?? ""))
            .lowercased()
        guard Self.words.contains(where: { said.contains($0) }) else { return nil }
        if let there = answer.date.flatMap(HTTPDate.utc), let here = now.trustedWall {
            ahead = there - here
        }
    }

    static let advice =
        "set the clocks: timedatectl here; NTP on the server and on what issues its tokens"

    /// A difference that the way of the answer explains, and the whole seconds of its date.
    private static let noise = Duration.seconds(2)
}

extension ClockDisagreement: CustomStringConvertible {
    var description: String {
        let refusal = "the server takes no token yet: by its clock the token is of the future; "
        guard let ahead else { return refusal + "the clocks disagree" }
        let seconds = abs(ahead.components.seconds)
        if ahead > Self.noise {
            return refusal + "its clock is \(seconds) s ahead of this machine's"
        }
        if ahead < .zero - Self.noise {
            return refusal + "its clock is \(seconds) s behind this machine's"
        }
        return refusal
            + "it agrees with this machine's, so the clock of what issues the tokens is ahead of both"
    }
}
