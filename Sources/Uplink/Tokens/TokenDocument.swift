import Basics
import Foundation

/// The answer of a token endpoint that grants a pair (RFC 6749 §5.1; OpenID Connect; Firebase, which signs in
/// with other names than it refreshes with).
///
/// The server has used up the old refresh token by the time this is read. So whatever holds an access token is
/// taken: a member that is missing, null or of another type only counts as not said.
struct TokenDocument: Decodable {
    @IfAny private(set) var accessToken: String?
    @IfAny private(set) var idToken: String?
    @IfAny private var refreshToken: String?
    @IfAny private var expiresIn: Seconds?

    /// A number, or one in quotation marks.
    private struct Seconds: Decodable {
        var count: Double?

        init(from decoder: any Decoder) throws {
            let value = try decoder.singleValueContainer()
            count =
                try (try? value.decode(Double.self))
                ?? Double(value.decode(String.self).trimmingCharacters(in: .whitespaces))
        }
    }

    /// Longest token taken from an answer, in bytes. An exchange's have 30; signed ones that list groups and
    /// rights have some thousand.
    static let tokenBytesMax = 16_384
    /// Bounds for the lifetime a server may announce: a minute, and ten years.
    static let lifetimeRange = Duration.seconds(60)...Duration.seconds(315_360_000)

    /// The pair in an answer; nil if it grants none.
    ///
    /// - Parameters:
    ///   - access: the member that requests are authorized with.
    ///   - lifetimeDefault: assumed when the server does not say.
    static func pair(
        in answer: HTTPAnswer, _ access: KeyPath<TokenDocument, String?> = \.accessToken,
        granted: UTC, lifetimeDefault: Duration
    ) -> TokenPair? {
        guard 200..<300 ~= answer.status,
            let document = try? TokenDocument(json: answer.body),
            let token = document[keyPath: access], isBearerToken(token)
        else { return nil }
        return TokenPair(
            access: Secret(token), refresh: document.refreshToken.flatMap(refreshToken),
            granted: granted, lifetime: document.lifetime ?? lifetimeDefault)
    }

    /// How long the access token lives. Bounded before it is converted: no number of a server's may trap.
    private var lifetime: Duration? {
        guard let count = expiresIn?.count, count.isFinite, count > 0 else { return nil }
        let whole = Int64(min(count, Self.lifetimeRange.upperBound.inSeconds))
        return max(.seconds(whole), Self.lifetimeRange.lowerBound)
    }

    /// Whether a token can stand in a header field.
    private static func isBearerToken(_ text: String) -> Bool {
        1...tokenBytesMax ~= text.utf8.count && text.utf8.allSatisfy { 0x21...0x7E ~= $0 }
    }

    /// A refresh token only stands in bodies, encoded: any text will do.
    private static func refreshToken(_ text: String) -> Secret? {
        1...tokenBytesMax ~= text.utf8.count ? Secret(text) : nil
    }
}
