/// Why a connection to a NATS server is not there, or did not do its work. Carries no key and no subject.
enum NATSFault: Error, Hashable, Sendable {
    /// libnats is not installed.
    case noLibrary
    /// No server takes a connection.
    case connect
    /// The server's certificate is not trusted, or it speaks no TLS; in the library's words.
    case tls(String)
    /// Plain text to a host that is not loopback, without the switch that allows it.
    case plainRefused
    /// The server does not know the key, or no longer.
    case refused
    /// The server knows the key, and does not let it send or hear this.
    case forbidden
    /// A file of certificates cannot be read.
    case certificateFile
    /// The connection ended.
    case cut
    /// The message is larger than the server takes.
    case tooLarge
}

extension NATSFault: CustomStringConvertible {
    /// A description of the event for a technician.
    var description: String {
        switch self {
        case .noLibrary: "libnats is not installed on this machine"
        case .connect: "no NATS server takes a connection"
        case .tls(let words): "no trusted connection to the NATS server: \(words)"
        case .plainRefused: "a connection without TLS is refused to any host but this one"
        case .refused: "the NATS server does not take this key"
        case .forbidden: "the NATS server does not let this key send here"
        case .certificateFile: "the file of authorities or the client certificate cannot be read"
        case .cut: "the connection to the NATS server ended"
        case .tooLarge: "the message is larger than the NATS server takes"
        }
    }
}
