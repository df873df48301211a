/// How a `CurlTransport` reaches its server.
public struct CurlSettings: Sendable, Hashable {
    /// When plain http is acceptable. Loopback only unless the operator says otherwise.
    public var plainHTTP: Origin.PlainHTTP = .loopback
    /// A PEM file of the authorities to trust instead of the system's.
    public var authorityFile: String?
    /// A PEM file with the client certificate to show.
    public var clientCertificateFile: String?
    /// A PEM file with the client certificate's key.
    public var clientKeyFile: String?
    /// The proxy's URL; nil leaves it to the environment (`https_proxy`, `no_proxy`). Loopback
    /// hosts and Unix sockets never go through a proxy.
    public var proxy: String?
    /// Connects to this Unix socket whatever the origin's host.
    public var unixSocketPath: String?
    /// Longest wait for a connection with its TLS handshake, in milliseconds.
    public var connectTimeoutMilliseconds = CurlSettings.connectTimeoutMilliseconds
    /// Longest wait for the whole answer, connecting included, in milliseconds.
    public var totalTimeoutMilliseconds = CurlSettings.totalTimeoutMilliseconds
    /// Largest answer body read, in bytes.
    public var answerBytesMax = CurlSettings.answerBytesMax

    /// The defaults.
    public init() {}

    /// A server that has not taken a connection in 10 s is as good as away.
    public static let connectTimeoutMilliseconds = 10_000
    /// The exchange kills its own workers after 30 s; a wait beyond that, with room for proxies,
    /// means that no answer will come (docs/exchange.md).
    public static let totalTimeoutMilliseconds = 60_000
    /// 100 refusals of an old exchange with 5 KB of diagnostics each, four times over.
    public static let answerBytesMax = 2 << 20
}
