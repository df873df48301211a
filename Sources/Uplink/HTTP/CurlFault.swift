import CCurl

/// libcurl's result code, told apart by what it means for the request.
struct CurlFault {
    let fault: TransportFault

    /// - Parameters:
    ///   - isTooLarge: more came than is taken.
    ///   - isSecure: nothing is sent before a TLS handshake.
    ///   - hasBegun: some of the body is on its way. A connection that was kept has no time of its own.
    init(
        _ easy: UnsafeMutableRawPointer, _ code: CURLcode, isTooLarge: Bool, isSecure: Bool,
        hasBegun: Bool = false
    ) {
        var connected: curl_off_t = 0
        let milestone = isSecure ? CURLINFO_APPCONNECT_TIME_T : CURLINFO_CONNECT_TIME_T
        _ = ccurl_get_microseconds(easy, milestone, &connected)
        let sent = connected > 0 || hasBegun
        var tunnel = 0
        _ = ccurl_get_long(easy, CURLINFO_HTTP_CONNECTCODE, &tunnel)
        var verification = 0
        _ = ccurl_get_long(easy, CURLINFO_SSL_VERIFYRESULT, &verification)

        fault =
            switch code {
            case CURLE_URL_MALFORMAT: .malformedRequest
            case CURLE_COULDNT_RESOLVE_HOST: .dns
            case CURLE_COULDNT_RESOLVE_PROXY, CURLE_PROXY: .proxy
            case CURLE_COULDNT_CONNECT: .connect
            case CURLE_PEER_FAILED_VERIFICATION: .tls(TLSCause(verification: verification))
            case CURLE_SSL_CACERT_BADFILE: .tls(.authorityFile)
            case CURLE_SSL_CERTPROBLEM: .tls(.clientCertificate)
            case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CIPHER: .tls(.handshake)
            case CURLE_ABORTED_BY_CALLBACK: .cancelled
            case CURLE_FILESIZE_EXCEEDED: .bodyTooLarge
            case CURLE_WRITE_ERROR where isTooLarge: .bodyTooLarge
            case CURLE_OPERATION_TIMEDOUT: sent ? .timeout : .connect
            case _ where !sent && tunnel >= 300: .proxy
            default: sent ? .cut : .connect
            }
    }
}

extension TLSCause {
    /// The cause behind OpenSSL's verification result (`X509_V_ERR_…`, verify(1)).
    init(verification number: Int) {
        self =
            switch number {
            // libcurl checks the host name itself, before it asks for the result, which is 1 then.
            case 0, 1, 62, 64: .wrongHost
            case 9: .notYetValid
            case 10: .expired
            case 18: .selfSigned
            case 2, 19, 20, 21: .unknownIssuer
            case 23: .revoked
            default: .refused(number)
            }
    }
}
