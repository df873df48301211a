import Basics
import CCurl

/// One mail by SMTP through libcurl, on a thread of its own: mails are rare.
actor MailTransfer {
    private let thread = TaskThread(label: "mail")
    nonisolated var unownedExecutor: UnownedSerialExecutor { thread.asUnownedSerialExecutor() }

    private let server: MailServer
    private let login: Login?
    private let settings: CurlSettings

    /// The answers of a server along the way.
    private static let answerBytesMax = 64 << 10

    init(server: MailServer, login: Login?, settings: CurlSettings) {
        self.server = server
        self.login = login
        self.settings = settings
    }

    /// Sends a mail once. Cancelling the task aborts it within about a second.
    nonisolated func send(
        _ mail: [UInt8], from: MailAddress, to: [MailAddress]
    ) async throws(AlertFault) {
        let cancelled = CurlCancellation()
        let result = await withTaskCancellationHandler {
            await perform(mail, from, to, cancelled)
        } onCancel: {
            cancelled.set()
        }
        try result.get()
    }

    private func perform(
        _ mail: [UInt8], _ from: MailAddress, _ to: [MailAddress], _ cancelled: CurlCancellation
    ) -> Result<Void, AlertFault> {
        transfer(mail, from, to, cancelled)
    }

    /// Outside the actor's isolation: within it the compiler refuses libcurl's pointers in the closures below.
    private nonisolated func transfer(
        _ mail: [UInt8], _ from: MailAddress, _ to: [MailAddress], _ cancelled: CurlCancellation
    ) -> Result<Void, AlertFault> {
        guard CurlTransfer.ready, let easy = curl_easy_init() else {
            return .failure(AlertFault("\(TransportFault.connect)"))
        }
        defer { curl_easy_cleanup(easy) }
        let inflow = CurlInflow(cancelled: cancelled, bytesMax: Self.answerBytesMax)
        var recipients: UnsafeMutablePointer<curl_slist>?
        for address in to { recipients = curl_slist_append(recipients, address.text) ?? recipients }
        defer { curl_slist_free_all(recipients) }
        return mail.withUnsafeBytes { bytes in
            let outflow = CurlOutflow(bytes, isInTime: { !cancelled.isSet })
            // The context pointers are used inside curl_easy_perform only, during which both live.
            return withExtendedLifetime((inflow, outflow)) {
                var option = CurlOptions(easy)
                option.setConnection(settings)
                configure(&option, from, recipients)
                option.check(
                    ccurl_set_upload_callback(
                        easy, giveBody, Unmanaged.passUnretained(outflow).toOpaque(),
                        curl_off_t(bytes.count)))
                let context = Unmanaged.passUnretained(inflow).toOpaque()
                option.check(ccurl_set_body_callback(easy, takeBody, context))
                option.check(ccurl_set_progress_callback(easy, checkProgress, context))
                guard option.allSet else {
                    return .failure(AlertFault("the mail cannot be written as SMTP"))
                }
                let code = curl_easy_perform(easy)
                return code == CURLE_OK ? .success(()) : .failure(fault(easy, code))
            }
        }
    }

    private nonisolated func configure(
        _ option: inout CurlOptions, _ from: MailAddress,
        _ recipients: UnsafeMutablePointer<curl_slist>?
    ) {
        option.set(CURLOPT_URL, "\(server)")
        option.set(CURLOPT_PROTOCOLS_STR, server.isImplicit ? "smtps" : "smtp")
        option.set(CURLOPT_TIMEOUT_MS, settings.totalTimeout)
        option.set(
            CURLOPT_USE_SSL,
            server.isPlain ? Int(CURLUSESSL_NONE.rawValue) : Int(CURLUSESSL_ALL.rawValue))
        option.set(CURLOPT_MAIL_FROM, from.text)
        option.check(ccurl_set_list(option.easy, CURLOPT_MAIL_RCPT, recipients))
        option.set(CURLOPT_USERNAME, login?.name)
        option.set(CURLOPT_PASSWORD, login?.password.revealed)
        if server.origin.isLoopback {
            option.set(CURLOPT_NOPROXY, "*")
        } else if let proxy = settings.proxy {
            option.set(CURLOPT_PROXY, proxy)
            option.set(CURLOPT_HTTPPROXYTUNNEL, 1)
        }
    }

    /// The event. The server's words are not in it: servers quote addresses.
    private nonisolated func fault(_ easy: UnsafeMutableRawPointer, _ code: CURLcode) -> AlertFault
    {
        var status = 0
        _ = ccurl_get_long(easy, CURLINFO_RESPONSE_CODE, &status)
        switch code {
        case CURLE_LOGIN_DENIED:
            return AlertFault("\(server) refuses the user or the password")
        case CURLE_USE_SSL_FAILED:
            return AlertFault("\(server) offers no TLS; nothing was sent")
        case CURLE_OPERATION_TIMEDOUT: return AlertFault("\(TransportFault.timeout)")
        case _ where status >= 400:
            return AlertFault(
                "\(server) answers \(status) to the sender, a recipient or the mail"
                    + (status < 500 ? "" : ": look at from, to and the account"))
        default:
            let fault = CurlFault(easy, code, isTooLarge: false, isSecure: server.isImplicit).fault
            return AlertFault(fault.description(at: server.origin.host))
        }
    }
}
