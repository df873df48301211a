/// A server that sends its clients elsewhere (RFC 9110 §15.4). Nothing is sent there: a body, a token or a patient's
/// data belong to the server that a person named. Of its `Location` only scheme, host and port are kept.
public struct Redirect: Sendable, Hashable {
    /// The status of the answer.
    public var status: Int
    /// Where it sends clients; nil if it does not say so in a way that is understood.
    public var target: Origin?
    /// Whether that is the server itself, by another path.
    public var isWithin = false

    /// Reads a redirect by `origin` from its answer; nil if the answer is not one.
    public init?(_ answer: HTTPAnswer, of origin: Origin) {
        guard 300..<400 ~= answer.status else { return nil }
        status = answer.status
        guard let location = answer.fields["location"] else { return }
        // A relative reference stays with the server, but for one that begins with a host (RFC 3986 §4.2).
        if location.hasPrefix("//") {
            target = Origin("\(origin.scheme.rawValue):\(location)")
        } else if location.prefix(while: { !"/?#".contains($0) }).contains(":") {
            target = Origin(location)
        } else {
            target = origin
        }
        isWithin = target?.isSame(as: origin) ?? false
    }

    /// A server that answered with this status and gave this address, or none.
    init(status: Int, target: Origin?) {
        self.status = status
        self.target = target
    }

    /// The remedy, for a person.
    ///
    /// - Parameter setting: how the address is set.
    public func advice(_ setting: (Origin) -> String) -> String {
        guard let target, !isWithin else {
            return
                "ask the server's operator which address clients are to use; look for a proxy on the way"
        }
        return
            "if that is the server's new address: \(setting(target)); a portal of the network that wants a "
            + "sign-in redirects, too"
    }
}

extension Redirect {
    /// The remedy where an exchange redirects that patients are enrolled at: what waits goes to the new address.
    public var enrollAdvice: String {
        advice {
            "edge-gateway enroll LINK --moved NAME with an invitation from there, or for a practitioner "
                + "enroll --practitioner-key-file FILE --exchange \($0) --moved NAME"
        }
    }
}

extension Redirect: CustomStringConvertible {
    /// Such as "answers HTTP 301, a redirect to https://new.example:8443".
    public var description: String {
        let place =
            isWithin
            ? "another path of its own"
            : target.map { "\($0)" } ?? "an address that it does not give"
        return "answers HTTP \(status), a redirect to \(place)"
    }
}
