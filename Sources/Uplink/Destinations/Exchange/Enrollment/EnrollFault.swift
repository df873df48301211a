/// Why an enrollment failed. Nothing was stored. Carries no link, token or patient.
public enum EnrollFault: Error, Hashable, Sendable {
    /// The text is no invitation link.
    case link(InvitationLink.Fault)
    /// The link names no server and none was given.
    case noServer
    /// The link is of an older kind that needs a client identifier and verifier from the operator.
    case needsClient
    /// The exchange has no such invitation.
    case unknown
    /// The invitation was cancelled.
    case cancelled
    /// The invitation was never redeemed while it was valid.
    case expired
    /// A newer invitation replaced it, or it was first redeemed too long ago.
    case superseded
    /// The exchange does not take the code, the client identifier or the verifier.
    case refused
    /// The practitioner key is not known to the exchange, or is not one.
    case keyRefused
    /// The server answers, but not as an exchange does.
    case notAnExchange
    /// The server does not answer under this host name.
    case hostNotAccepted
    /// The server redirects elsewhere; nothing was sent there.
    case redirected(Redirect)
    /// The exchange answered with an error of its own; try again later.
    case serverTrouble(status: Int?)
    /// The exchange's answer could not be understood.
    case unreadable
    /// The account behind the invitation is no patient.
    case notAPatient
    /// No study of this patient asks for heart rate.
    case heartRateNotAsked
    /// The exchange could not be reached.
    case transport(TransportFault)
}

extension EnrollFault: CustomStringConvertible {
    /// The event and the remedy, for a technician.
    public var description: String {
        switch self {
        case .link(let fault): "\(fault)"
        case .noServer: "the link names no exchange; give its address as well"
        case .needsClient:
            "this is a link of an older exchange; its client identifier and code verifier are needed"
        case .unknown:
            "the exchange does not know this invitation; check that the link was copied whole, or "
                + "ask for a new one"
        case .cancelled: "this invitation was cancelled; ask for a new one"
        case .expired: "this invitation has expired without being used; ask for a new one"
        case .superseded:
            "this invitation was used before, or a newer one has replaced it; use the newest link or "
                + "ask for a new one"
        case .refused:
            "the exchange no longer takes this invitation: it was used or has expired; ask for a new one"
        case .keyRefused:
            "the exchange refused the practitioner key; check that it was copied whole"
        case .notAnExchange: "the server is not a JupyterHealth Exchange, or is too old"
        case .hostNotAccepted:
            "the server answers HTTP 400 to everything: most likely the exchange does not accept this "
                + "host name; use the address under which people open it, or have its operator add the "
                + "name (ALLOWED_HOSTS)"
        case .redirected(let redirect):
            "the server \(redirect), which is not followed; "
                + redirect.advice {
                    "have the link made for \($0), or give a key with --exchange \($0)"
                }
        case .serverTrouble(let status?) where status < 429:
            "a web page with HTTP \(status) came instead of the exchange's answer: something on the way, such as "
                + "a filter, keeps this gateway out; have its operator let the gateway through"
        case .serverTrouble(let status):
            "the exchange is in trouble\(status.map { " (HTTP \($0))" } ?? ""); try again in a few minutes"
        case .unreadable: "the exchange's answer could not be understood"
        case .notAPatient: "the account behind this invitation is not a patient's"
        case .heartRateNotAsked:
            "no study of this patient collects heart rate; ask the study's staff to add it"
        case .transport(let fault): "the exchange could not be reached: \(fault)"
        }
    }
}
