/// Why no answer came. Carries no address, path, token or body, so it may be logged and shown.
public enum TransportFault: Error, Hashable, Sendable {
    /// The server's name has no address, or no name server answered.
    case dns
    /// No connection: refused, unreachable, or none within the connect timeout.
    case connect
    /// The proxy could not be reached or refused.
    case proxy
    /// The TLS handshake failed; nothing of the request was sent.
    case tls(TLSCause)
    /// Plain http to a host that is not loopback, without the switch that allows it.
    case plainHTTPRefused
    /// The request cannot be written down as HTTP, for instance a line break in a header.
    case malformedRequest
    /// The request was broken off before it was whole: ``HTTPRequest/isInTime`` said no.
    case tooLate
    /// The request may have been sent and no whole answer came in time.
    case timeout
    /// The connection broke, or what came was not HTTP, after the request may have been sent.
    case cut
    /// The answer was larger than the cap; the rest was not read.
    case bodyTooLarge
    /// The waiting task was cancelled, or the transport closed.
    case cancelled

    /// Whether the server cannot have acted on the request.
    ///
    /// When this is false the outcome is unknown: the server may still be working on the request,
    /// and the same samples must not be sent again at once.
    public var certainlyNotSent: Bool {
        switch self {
        case .dns, .connect, .proxy, .tls, .plainHTTPRefused, .malformedRequest, .tooLate: true
        case .timeout, .cut, .bodyTooLarge, .cancelled: false
        }
    }
}

/// The fault of a TLS handshake.
public enum TLSCause: Hashable, Sendable {
    /// The server's certificate is past its end.
    case expired
    /// The server's certificate begins later than this machine's clock.
    case notYetValid
    /// The server's certificate is self-signed.
    case selfSigned
    /// The certificate's issuer is not among the trusted authorities.
    case unknownIssuer
    /// The certificate belongs to another host name.
    case wrongHost
    /// The certificate was revoked.
    case revoked
    /// The certificate failed verification for another reason (OpenSSL's `X509_V_ERR` number).
    case refused(Int)
    /// The configured CA file cannot be read.
    case authorityFile
    /// The configured client certificate or its key cannot be read or was refused.
    case clientCertificate
    /// No common protocol (TLS 1.2 is the floor), or the peer does not speak TLS.
    case handshake
}

extension TransportFault: CustomStringConvertible {
    /// A description of the event for a technician.
    public var description: String {
        switch self {
        case .dns: "the server's name could not be resolved"
        case .connect: "no connection to the server"
        case .proxy: "no way through the proxy"
        case .tls(let cause): "no trusted connection: \(cause)"
        case .plainHTTPRefused: "plain http is refused to any host but this one"
        case .malformedRequest: "the request cannot be written as HTTP"
        case .tooLate: "it was too late to send the request"
        case .timeout: "no answer in time"
        case .cut: "the connection broke before the answer was complete"
        case .bodyTooLarge: "the answer was too large"
        case .cancelled: "cancelled"
        }
    }
}

extension TLSCause: CustomStringConvertible {
    /// The fault, and the place to look at.
    public var description: String {
        switch self {
        case .expired:
            "the server's certificate has expired (or this machine's clock is ahead; check the date)"
        case .notYetValid:
            "the server's certificate is not valid yet (most likely this machine's clock is behind; "
                + "check the date)"
        case .selfSigned: "the server's certificate is self-signed"
        case .unknownIssuer:
            "the server's certificate is from an authority this machine does not trust"
        case .wrongHost: "the server's certificate belongs to another host name"
        case .revoked: "the server's certificate was revoked"
        case .refused(let number): "the server's certificate was refused (X509 error \(number))"
        case .authorityFile: "the configured CA file cannot be read"
        case .clientCertificate: "the client certificate or its key cannot be used"
        case .handshake: "the TLS handshake failed (TLS 1.2 or later is required)"
        }
    }
}

extension TransportFault {
    /// A description of the event, with the name of the host where it helps.
    public func description(at host: String) -> String {
        switch self {
        case .dns: "the server's name \(host) could not be resolved"
        case .connect: "no connection to the server \(host)"
        default: description
        }
    }
}
