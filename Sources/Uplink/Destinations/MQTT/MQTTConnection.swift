import Basics
import CMosquitto
import COpenSSL
import Dispatch
import Foundation

/// How a broker is reached.
struct BrokerSettings: Sendable, Hashable {
    var address: ServerAddress
    var version: MQTTVersion
    var clientID: String
    var user: String?
    var password: Secret?
    /// Authorities, client certificate, timeouts, and whether plain text is acceptable.
    var network: CurlSettings
    /// The message that the broker publishes when the connection breaks.
    var will: MQTTMessage?
    /// The largest packet that the broker may send, in bytes; nil: any. It needs MQTT 5.
    var packetBytesMax: UInt32?
}

/// A version of the protocol.
enum MQTTVersion: String, Sendable, CaseIterable {
    case five = "5"
    case threeOneOne = "3.1.1"
}

/// A connection to a broker, through libmosquitto: opened when it is needed, and opened anew after it
/// broke. Its calls wait for the network, on a thread on which nothing but brokers is waited for.
actor MQTTConnection {
    /// Hundreds of brokers must not need hundreds of threads; a broker that hangs keeps few others waiting.
    private static let threads = TaskThreads(label: "mqtt", most: 32)
    private let thread = MQTTConnection.threads.next()
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    private let settings: BrokerSettings
    private var client: MosquittoClient?
    private var number = 0

    init(_ settings: BrokerSettings) { self.settings = settings }

    /// Opens the connection, if there is none. Returns the number of the connection, which tells a new one
    /// from the one before, or why there is none.
    func open() async -> Result<Int, MQTTEnd> {
        if let client {
            client.look()
            if client.session.end == nil { return .success(number) }
            self.client = nil
        }
        guard settings.address.isAllowed(settings.network.plainHTTP) else {
            return .failure(MQTTEnd(.fault(.plainHTTPRefused)))
        }
        let client = MosquittoClient.connect(settings)
        if let end = client.session.end { return .failure(MQTTEnd(end)) }
        number += 1
        self.client = client
        return .success(number)
    }

    /// Publishes messages over the open connection and waits for the answers.
    func publish(_ messages: [MQTTMessage]) async -> MQTTOutcome {
        guard let client else {
            return MQTTOutcome(
                codes: messages.map { _ in nil }, wasSent: false, end: .fault(.connect))
        }
        client.publish(messages, for: settings.network.totalTimeout)
        let session = client.session
        if session.end != nil { self.client = nil }
        return MQTTOutcome(codes: session.codes, wasSent: session.sent > 0, end: session.end)
    }

    /// Reads what the broker says and sends signs of life. Returns why the connection is over, if it is.
    func tend() async -> MQTTSession.End? {
        guard let client else { return nil }
        client.look()
        guard let end = client.session.end else { return nil }
        self.client = nil
        return end
    }

    /// The message that the broker retains under a topic; nil if it does not say so within a moment. It waits that
    /// long for one that is final.
    func retained(_ topic: String, isFinal: @Sendable ([UInt8]) -> Bool) async -> [UInt8]? {
        guard let client else { return nil }
        let found = Received()
        client.received = { [topic] message in
            if message.topic == topic { found.payload = message.payload }
        }
        defer { client.received = nil }
        client.subscribe(topic, for: settings.network.connectTimeout)
        let end = ContinuousClock.now + Self.retainedTimeout
        client.listen { found.payload.map(isFinal) ?? false || ContinuousClock.now >= end }
        return found.payload
    }

    private final class Received {
        var payload: [UInt8]?
    }

    /// A retained message follows the answer to the subscription at once.
    private static let retainedTimeout = Duration.seconds(1)

    /// Ends the connection, if there is one; the broker then publishes the will.
    func close() async { client = nil }
}

/// Why there is no connection.
struct MQTTEnd: Error {
    let end: MQTTSession.End

    init(_ end: MQTTSession.End) { self.end = end }
}

/// libmosquitto's client of one connection. Whoever calls it waits.
final class MosquittoClient {
    private(set) var session = MQTTSession()
    /// Gets each message that the broker sends.
    var received: ((MQTTMessage) -> Void)?
    private let pointer: OpaquePointer?
    private let version: MQTTVersion
    private let security: BrokerTrust?
    /// Whether only addresses of IPv4 were tried.
    let isIPv4: Bool

    /// Seconds without a packet after which the library sends a sign of life. A broker waits half as long
    /// again before it takes the client for gone.
    static let keepAlive: Int32 = 60
    /// How often a wait looks whether it was cancelled.
    static let slice: Int32 = 200
    /// Packets read at a time while nothing is waited for.
    static let lookMax = 32

    /// Connects, and waits until the broker answers or the connection is over. A broker that cannot be reached at its
    /// host's first address is tried at one of IPv4.
    static func connect(_ settings: BrokerSettings) -> MosquittoClient {
        let client = MosquittoClient(settings)
        client.run(for: settings.network.connectTimeout) { $0.state != .opening }
        switch client.session.end {
        case .fault(.connect), .fault(.timeout): break
        default: return client
        }
        guard settings.address.hasAddressesOfBothKinds() else { return client }
        let second = MosquittoClient(settings, isIPv4: true)
        second.run(for: settings.network.connectTimeout) { $0.state != .opening }
        return second
    }

    /// Begins to connect.
    init(_ settings: BrokerSettings, isIPv4: Bool = false) {
        self.isIPv4 = isIPv4
        version = settings.version
        pointer = cmosquitto_load() ? cmosquitto_new(settings.clientID, true, nil) : nil
        security =
            settings.address.isSecure ? BrokerTrust(settings.network, settings.address.host) : nil
        guard let pointer else {
            session.note(.failed(.connect))
            return
        }
        cmosquitto_user_data_set(pointer, Unmanaged.passUnretained(self).toOpaque())
        listen(pointer)
        let isSet = configure(pointer, settings)
        guard isSet else {
            session.note(.failed(security?.fault ?? .malformedRequest))
            return
        }
        let (host, port) = (settings.address.host, Int32(settings.address.port))
        // The library sends properties only when it waits for the connection, for as long as the kernel does:
        // the caller has found the broker to answer.
        let code =
            settings.packetBytesMax.map {
                cmosquitto_connect_with_packet_max(
                    pointer, host, port, Self.keepAlive, isIPv4, $0)
            } ?? cmosquitto_connect_async(pointer, host, port, Self.keepAlive, isIPv4)
        if code != 0 { fail(code, errno) }
    }

    deinit {
        // Without a DISCONNECT: that would keep the broker from publishing the will.
        if let pointer { cmosquitto_destroy(pointer) }
    }

    private func configure(_ pointer: OpaquePointer, _ settings: BrokerSettings) -> Bool {
        var codes = [
            cmosquitto_int_option(
                pointer, MOSQ_OPT_PROTOCOL_VERSION,
                settings.version == .five ? MQTT_PROTOCOL_V5 : MQTT_PROTOCOL_V311),
            cmosquitto_int_option(pointer, MOSQ_OPT_TCP_NODELAY, 1),
        ]
        if let user = settings.user {
            codes.append(cmosquitto_username_pw_set(pointer, user, settings.password?.revealed))
        }
        if let will = settings.will {
            codes.append(
                cmosquitto_will_set(
                    pointer, will.topic, Int32(will.payload.count), will.payload, 1, will.isRetained
                ))
        }
        if let security {
            guard let context = security.context else { return false }
            codes.append(
                cmosquitto_void_option(
                    pointer, MOSQ_OPT_SSL_CTX, UnsafeMutableRawPointer(context)))
            codes.append(cmosquitto_int_option(pointer, MOSQ_OPT_SSL_CTX_WITH_DEFAULTS, 0))
        }
        return codes.allSatisfy { $0 == 0 }
    }

    private func listen(_ pointer: OpaquePointer) {
        cmosquitto_on_connect(pointer) { _, context, code, _, _ in
            MosquittoClient.at(context)?.answered(Int(code))
        }
        cmosquitto_on_publish(pointer) { _, context, id, code, _ in
            MosquittoClient.at(context)?.session.note(.acknowledged(id: id, code: Int(code)))
        }
        cmosquitto_on_subscribe(pointer) { _, context, id, count, codes, _ in
            let code = codes.flatMap { count > 0 ? Int($0[0]) : nil } ?? 128
            MosquittoClient.at(context)?.session.note(.acknowledged(id: id, code: code))
        }
        cmosquitto_on_message(pointer) { _, context, message, _ in
            guard let client = MosquittoClient.at(context), let message = message?.pointee,
                let topic = message.topic, let received = client.received
            else { return }
            let payload = UnsafeRawBufferPointer(
                start: message.payload, count: Int(message.payloadlen))
            received(
                MQTTMessage(
                    topic: String(cString: topic), payload: Array(payload),
                    isRetained: message.retain))
        }
        cmosquitto_on_disconnect(pointer) { _, context, code, _ in
            // Below 128 it is an error of the library's own, which the loop returns too.
            guard code >= 128 else { return }
            MosquittoClient.at(context)?.session.note(.dismissed(code: Int(code)))
        }
    }

    /// The library's context, which lives as long as the library's client.
    private static func at(_ context: UnsafeMutableRawPointer?) -> MosquittoClient? {
        context.map { Unmanaged<MosquittoClient>.fromOpaque($0).takeUnretainedValue() }
    }

    private func answered(_ code: Int) {
        // A broker that does not know MQTT 5 refuses it with the older number.
        let isOld = version == .threeOneOne || code < 128
        session.note(.answered(code: isOld ? MQTTReason(returnCode: code).code : code))
    }

    // MARK: - Waiting

    /// Lets the library read and write until `isDone`; afterwards the connection is over.
    func run(for limit: Duration, until isDone: (MQTTSession) -> Bool) {
        let end = ContinuousClock.now + limit
        while !isDone(session), session.end == nil {
            if Task.isCancelled { return session.note(.failed(.cancelled)) }
            let left = end - .now
            guard left > .zero else { return session.note(.failed(.timeout)) }
            step(min(Self.slice, Int32(left / .milliseconds(1)) + 1))
        }
    }

    /// Tells the broker that it is over, which then publishes no will.
    func leave() {
        guard let pointer else { return }
        _ = cmosquitto_disconnect(pointer)
    }

    /// Reads what is there and sends what is due.
    func look() {
        for _ in 0..<Self.lookMax where session.end == nil { step(0) }
    }

    private func step(_ milliseconds: Int32) {
        errno = 0
        let code = cmosquitto_loop(pointer, milliseconds, 1)
        if code != 0 { fail(code, errno) }
    }

    // MARK: - Subscribing

    /// Subscribes to a filter and waits for the answer; ``received`` then gets the messages.
    func subscribe(_ filter: String, for limit: Duration) {
        session.begin(count: 1)
        guard session.end == nil else { return }
        var id: Int32 = 0
        // The last state counts, and a message that is not acknowledged cannot hold up the others.
        let code = cmosquitto_subscribe(pointer, &id, filter, 0)
        if code == 0 { session.send(0, id: id) } else { fail(code, errno) }
        run(for: limit) { $0.isSettled }
        if case let code?? = session.codes.first, code >= 128 {
            session.note(.refused(MQTTReason(.suback, code)))
        }
    }

    /// Reads what comes until `isDone`, or the connection is over.
    func listen(until isDone: () -> Bool) {
        while session.end == nil, !Task.isCancelled, !isDone() { step(Self.slice) }
    }

    // MARK: - Publishing

    /// Publishes messages and waits until each is answered, or the connection is over.
    func publish(_ messages: [MQTTMessage], for limit: Duration) {
        session.begin(count: messages.count)
        for (index, message) in messages.enumerated() where session.end == nil {
            var id: Int32 = 0
            let code = cmosquitto_publish(
                pointer, &id, message.topic, Int32(message.payload.count), message.payload, 1,
                message.isRetained)
            switch mosq_err_t(rawValue: mosq_err_t.RawValue(code)) {
            case MOSQ_ERR_SUCCESS: session.send(index, id: id)
            case MOSQ_ERR_OVERSIZE_PACKET, MOSQ_ERR_PAYLOAD_SIZE: session.refuse(index, code: 149)
            case MOSQ_ERR_RETAIN_NOT_SUPPORTED: session.refuse(index, code: 154)
            case MOSQ_ERR_QOS_NOT_SUPPORTED: session.refuse(index, code: 155)
            default: fail(code, errno)
            }
        }
        run(for: limit) { $0.isSettled }
    }

    // MARK: - Faults

    private func fail(_ code: Int32, _ number: Int32) {
        let isOpen = session.state == .open
        let fault: TransportFault =
            switch mosq_err_t(rawValue: mosq_err_t.RawValue(code)) {
            case MOSQ_ERR_EAI, MOSQ_ERR_LOOKUP: .dns
            case MOSQ_ERR_TLS, MOSQ_ERR_TLS_HANDSHAKE: security?.fault ?? .cut
            case _ where !isOpen && Self.unreachable.contains(number): .connect
            case _ where security?.fault != nil: security?.fault ?? .cut
            default: .cut
            }
        session.note(.failed(fault))
    }

    private static let unreachable: Set<Int32> = [
        ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EADDRNOTAVAIL, EACCES, EPERM,
    ]
}

/// Whom a client of a broker trusts, and why it did not trust this one.
final class BrokerTrust {
    /// libssl's settings; nil if they cannot be made.
    private(set) var context: OpaquePointer?
    /// The fault in the way of a connection; a failed handshake, until more is known.
    private(set) var fault = TransportFault.tls(.handshake)

    init(_ network: CurlSettings, _ host: String) {
        guard let context = SSL_CTX_new(TLS_client_method()) else { return }
        self.context = context
        let isLoaded =
            network.authorityFile.map { SSL_CTX_load_verify_file(context, $0) }
            ?? SSL_CTX_set_default_verify_paths(context)
        guard isLoaded == 1, copenssl_require_tls_1_2(context) == 1 else {
            refuse(.authorityFile)
            return
        }
        if let file = network.clientCertificateFile {
            guard SSL_CTX_use_certificate_chain_file(context, file) == 1,
                SSL_CTX_use_PrivateKey_file(
                    context, network.clientKeyFile ?? file, SSL_FILETYPE_PEM) == 1
            else {
                refuse(.clientCertificate)
                return
            }
        }
        let expected = SSL_CTX_get0_param(context)
        guard
            X509_VERIFY_PARAM_set1_ip_asc(expected, host) == 1
                || X509_VERIFY_PARAM_set1_host(expected, host, 0) == 1
        else {
            refuse(.wrongHost)
            return
        }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        SSL_CTX_set_cert_verify_callback(
            context,
            { store, trust in
                let isValid = X509_verify_cert(store)
                if isValid != 1, let trust {
                    let number = Int(X509_STORE_CTX_get_error(store))
                    Unmanaged<BrokerTrust>.fromOpaque(trust).takeUnretainedValue().fault =
                        .tls(TLSCause(verification: number))
                }
                return isValid
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit { if let context { SSL_CTX_free(context) } }

    private func refuse(_ cause: TLSCause) {
        fault = .tls(cause)
        SSL_CTX_free(context)
        context = nil
    }
}
