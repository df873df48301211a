/// One HTTP request, whole in memory.
///
/// The body is always sent with `Content-Length`: the exchange reads a chunked body as an empty one
/// and answers 500.
public struct HTTPRequest: Sendable {
    /// The methods the gateway uses.
    public enum Method: String, Sendable {
        /// `GET`, without a body.
        case get = "GET"
        /// `POST`; without `body` an empty one is sent.
        case post = "POST"
        /// `PUT`, with a body as for `post`.
        case put = "PUT"
        /// `PATCH`, with a body as for `post`.
        case patch = "PATCH"
        /// `DELETE`, without a body.
        case delete = "DELETE"
    }

    /// The method.
    public var method: Method
    /// The server.
    public var origin: Origin
    /// Path and query, beginning with `/`, already percent-encoded.
    public var target: String
    /// Header fields beside `Content-Type` and `Content-Length`. Without `Accept` the request asks for JSON.
    public var headers: [(name: String, value: String)] = []
    /// The media type of `body`.
    public var contentType: String?
    /// The body.
    public var body: [UInt8]
    /// Longest wait for the whole answer; the transport's own at most, and if nil.
    public var timeout: Duration?
    /// Whether the request may still be sent; nil: it may. Asked before it begins, and for the last time when
    /// all of its body but the last byte is on its way. After a no the server has no whole request.
    public var isInTime: (@Sendable () -> Bool)?
    /// Whether it may go over the connection of the request before, if that had the same wish a moment ago. Else the
    /// connection is its own.
    public var keepsConnection = false

    /// A request of `origin` for `target`.
    public init(
        _ method: Method, _ origin: Origin, _ target: String, contentType: String? = nil,
        body: [UInt8] = []
    ) {
        self.method = method
        self.origin = origin
        self.target = target
        self.contentType = contentType
        self.body = body
    }

    /// The same request with `Authorization: Bearer`.
    public func authorized(by token: Secret) -> HTTPRequest {
        authorized("Bearer", token.revealed)
    }

    /// The same request with `Authorization: Basic` (RFC 7617).
    func authorized(by login: Login) -> HTTPRequest {
        var pair = JSONBytes()
        pair.base64(Array("\(login.name):\(login.password.revealed)".utf8))
        return authorized("Basic", String(decoding: pair.bytes, as: UTF8.self))
    }

    /// The same request with `Authorization` of some scheme.
    func authorized(_ scheme: String, _ value: String) -> HTTPRequest {
        var copy = self
        copy.headers.append(("Authorization", "\(scheme) \(value)"))
        return copy
    }
}

/// One HTTP answer, whole in memory and never larger than the transport's cap.
public struct HTTPAnswer: Sendable, Hashable {
    /// The status, 100…599.
    public var status: Int
    /// The header fields by their names in lower case, as the server wrote them: of each the last one,
    /// at most ``fieldsMax``.
    public var fields: [String: String]
    /// The body.
    public var body: [UInt8]

    /// An answer; what is left out was not in it.
    public init(
        status: Int, contentType: String? = nil, retryAfter: String? = nil, date: String? = nil,
        fields: [String: String] = [:], body: [UInt8] = []
    ) {
        self.status = status
        self.fields = fields
        self.body = body
        for (name, value) in [
            ("content-type", contentType), ("retry-after", retryAfter), ("date", date),
        ] {
            if let value { self.fields[name] = value }
        }
    }

    /// Most header fields kept of an answer. Servers behind two proxies send about twenty.
    public static let fieldsMax = 48

    /// `Content-Type` as the server wrote it.
    public var contentType: String? { fields["content-type"] }
    /// `Retry-After` as the server wrote it.
    public var retryAfter: String? { fields["retry-after"] }
    /// `Date` as the server wrote it.
    public var date: String? { fields["date"] }
}

/// Carries one request at a time to a server and brings back the answer.
public protocol HTTPTransport: Sendable {
    /// Sends `request`, once, following no redirect.
    func send(_ request: HTTPRequest) async throws(TransportFault) -> HTTPAnswer
}
