import Basics
import CCurl
import Glibc
import Synchronization

/// One easy handle and what it takes to run a request on it. Used by one thread at a time.
final class CurlTransfer {
    private let easy: UnsafeMutableRawPointer?
    private let settings: CurlSettings

    /// Whether libcurl can be used.
    static let ready: Bool = {
        // A server that goes away while it is written to is a fault, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        return curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    }()

    /// How long after a request its connection is used again: requests that follow one another do, and servers keep one
    /// longer.
    static let keptTime = Duration.seconds(3)

    init(settings: CurlSettings) {
        self.settings = settings
        easy = Self.ready ? curl_easy_init() : nil
    }

    deinit {
        if let easy { curl_easy_cleanup(easy) }
    }

    func perform(
        _ request: HTTPRequest, _ cancelled: CurlCancellation
    ) -> Result<HTTPAnswer, TransportFault> {
        guard let easy else { return .failure(.connect) }
        guard request.isWellFormed else { return .failure(.malformedRequest) }
        guard settings.unixSocketPath != nil || request.origin.isAllowed(settings.plainHTTP) else {
            return .failure(.plainHTTPRefused)
        }
        guard request.isInTime?() ?? true else { return .failure(.tooLate) }

        curl_easy_reset(easy)
        let inflow = CurlInflow(cancelled: cancelled, bytesMax: settings.answerBytesMax)
        var headers = HeaderList(request)
        defer { headers.free() }
        // The context pointers are used inside ccurl_perform only, during which `inflow` and `outflow` live.
        let context = Unmanaged.passUnretained(inflow).toOpaque()
        return request.body.withUnsafeBytes { body in
            let isGivenOnce = request.keepsConnection || request.isInTime != nil
            let outflow = isGivenOnce ? CurlOutflow(body, isInTime: request.isInTime) : nil
            return withExtendedLifetime((inflow, outflow)) {
                guard configure(easy, request, body, outflow, headers, context) else {
                    return .failure(.malformedRequest)
                }
                let code = curl_easy_perform(easy)
                guard outflow?.isTooLate != true else { return .failure(.tooLate) }
                guard code == CURLE_OK else {
                    return .failure(
                        CurlFault(
                            easy, code, isTooLarge: inflow.overflowed,
                            isSecure: request.origin.scheme == .https,
                            hasBegun: outflow?.hasBegun ?? false
                        ).fault)
                }
                guard inflow.isHeaderComplete else { return .failure(.cut) }
                return .success(answer(easy, inflow))
            }
        }
    }

    private func configure(
        _ easy: UnsafeMutableRawPointer, _ request: HTTPRequest, _ body: UnsafeRawBufferPointer,
        _ outflow: CurlOutflow?, _ headers: HeaderList, _ context: UnsafeMutableRawPointer
    ) -> Bool {
        var option = CurlOptions(easy)
        option.set(CURLOPT_URL, request.origin.description + request.target)
        option.set(CURLOPT_PROTOCOLS_STR, request.origin.scheme.rawValue)
        option.set(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1)
        option.set(CURLOPT_FOLLOWLOCATION, 0)
        if request.keepsConnection {
            option.set(CURLOPT_MAXAGE_CONN, Int(Self.keptTime.components.seconds))
        } else {
            option.set(CURLOPT_FRESH_CONNECT, 1)
            option.set(CURLOPT_FORBID_REUSE, 1)
        }
        let timeout = settings.totalTimeout
        option.set(CURLOPT_TIMEOUT_MS, min(request.timeout ?? timeout, timeout))
        option.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        option.set(CURLOPT_USERAGENT, "edge-gateway")

        option.setConnection(settings)
        option.set(CURLOPT_SSLCERT, settings.clientCertificateFile)
        option.set(CURLOPT_SSLKEY, settings.clientKeyFile)

        option.set(CURLOPT_UNIX_SOCKET_PATH, settings.unixSocketPath)
        if settings.unixSocketPath != nil || request.origin.isLoopback {
            option.set(CURLOPT_NOPROXY, "*")
        } else {
            option.set(CURLOPT_PROXY, settings.proxy)
        }

        switch request.method {
        case .get: option.set(CURLOPT_HTTPGET, 1)
        case .delete: option.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
        case .post, .put, .patch:
            let count = curl_off_t(body.count)
            if let outflow {
                let source = Unmanaged.passUnretained(outflow).toOpaque()
                option.check(ccurl_set_post_callback(easy, giveBody, source, count))
            } else {
                option.check(ccurl_set_post_body(easy, body.baseAddress, count))
            }
            if request.method != .post {
                option.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue)
            }
        }
        option.check(ccurl_set_list(easy, CURLOPT_HTTPHEADER, headers.list))
        option.check(ccurl_set_body_callback(easy, takeBody, context))
        option.check(ccurl_set_header_callback(easy, takeHeader, context))
        option.check(ccurl_set_progress_callback(easy, checkProgress, context))
        return option.allSet
    }

    private func answer(_ easy: UnsafeMutableRawPointer, _ inflow: CurlInflow) -> HTTPAnswer {
        var status = 0
        _ = ccurl_get_long(easy, CURLINFO_RESPONSE_CODE, &status)
        return HTTPAnswer(status: status, fields: inflow.fields, body: inflow.body)
    }
}

/// Sets options and remembers whether all were taken.
struct CurlOptions {
    let easy: UnsafeMutableRawPointer
    private(set) var allSet = true

    init(_ easy: UnsafeMutableRawPointer) {
        self.easy = easy
    }

    mutating func check(_ code: CURLcode) {
        if code != CURLE_OK { allSet = false }
    }

    /// An option whose name ends in `_MS`.
    mutating func set(_ option: CURLoption, _ value: Duration) {
        set(option, Int(value.microseconds / 1000))
    }

    mutating func set(_ option: CURLoption, _ value: Int) {
        check(ccurl_set_long(easy, option, value))
    }

    /// How a server is reached, and when it is believed.
    mutating func setConnection(_ settings: CurlSettings) {
        set(CURLOPT_NOSIGNAL, 1)
        set(CURLOPT_CONNECTTIMEOUT_MS, settings.connectTimeout)
        // It does not wait for a name server that says nothing, at an end or when it is cancelled.
        set(CURLOPT_QUICK_EXIT, 1)
        set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
        set(CURLOPT_SSL_VERIFYPEER, 1)
        set(CURLOPT_SSL_VERIFYHOST, 2)
        guard let file = settings.authorityFile else { return }
        set(CURLOPT_CAINFO, file)
        // Debian's libcurl trusts a folder of the system's as well. Without one it would keep the file's content for a
        // day.
        clear(CURLOPT_CAPATH)
        set(CURLOPT_CA_CACHE_TIMEOUT, 0)
    }

    mutating func clear(_ option: CURLoption) {
        check(ccurl_set_string(easy, option, nil))
    }

    mutating func set(_ option: CURLoption, _ value: String?) {
        if let value { check(ccurl_set_string(easy, option, value)) }
    }
}

/// The request's header fields as libcurl wants them.
private struct HeaderList {
    private(set) var list: UnsafeMutablePointer<curl_slist>?

    init(_ request: HTTPRequest) {
        if !request.headers.contains(where: { $0.name == "Accept" }) {
            add("Accept: application/json")
        }
        // libcurl asks "Expect: 100-continue" of its own accord and then waits a second for
        // servers that do not answer it.
        add("Expect:")
        add(request.contentType.map { "Content-Type: \($0)" } ?? "Content-Type:")
        for header in request.headers {
            add("\(header.name): \(header.value)")
        }
    }

    private mutating func add(_ line: String) {
        list = curl_slist_append(list, line) ?? list
    }

    mutating func free() {
        curl_slist_free_all(list)
        list = nil
    }
}

extension HTTPRequest {
    /// Whether nothing in the request can break out of its line.
    var isWellFormed: Bool {
        target.utf8.first == 0x2F && target.utf8.allSatisfy { 0x21...0x7E ~= $0 }
            && (contentType ?? "").utf8.allSatisfy { 0x20...0x7E ~= $0 }
            && headers.allSatisfy { header in
                !header.name.isEmpty
                    && header.name.utf8.allSatisfy { 0x21...0x7E ~= $0 && $0 != 0x3A }
                    && header.value.utf8.allSatisfy { 0x20...0x7E ~= $0 }
            }
    }
}
