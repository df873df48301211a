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
    /// Longest wait for a connection with its TLS handshake, whole milliseconds.
    public var connectTimeout = CurlSettings.connectTimeout
    /// Longest wait for the whole answer, connecting included, whole milliseconds.
    public var totalTimeout = CurlSettings.totalTimeout
    /// Largest answer body read, in bytes.
    public var answerBytesMax = CurlSettings.answerBytesMax

    /// The defaults.
    public init() {}

    /// A server that has not taken a connection in 10 s is as good as away.
    public static let connectTimeout = Duration.seconds(10)
    /// The exchange kills its own workers after 30 s; a wait beyond that, with room for proxies,
    /// means that no answer will come (docs/develop/exchange.md).
    public static let totalTimeout = Duration.seconds(60)
    /// 100 refusals of an old exchange with 5 KB of diagnostics each, four times over.
    public static let answerBytesMax = 2 << 20
}
