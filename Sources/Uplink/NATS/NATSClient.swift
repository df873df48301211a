import Basics
import CNATS
import Foundation

/// libnats's client of one connection.
final class NATSClient {
    let events: NATSEvents
    /// The beginning of the subjects of this connection's answers: no other one's answer comes there.
    let inbox: String
    private let pointer: OpaquePointer
    private let token: UInt
    private var subscriptions: [OpaquePointer] = []
    private var hearsAnswers = false

    static let isLoaded = cnats_load()
    private static let wordsMax = 120
    /// One signature in 256 begins with a zero, which libnats 3.4 takes for no signature at all: the server then refuses the
    /// key. Each connection has another question to sign; four such ones in turn do not happen.
    private static let signaturesMax = 4
    /// The library gives each address of a host the time for one connection; all together may take so many times that.
    private static let ownLimits: Int64 = 2

    private init(_ pointer: OpaquePointer, _ events: NATSEvents, token: UInt, inbox: String) {
        self.pointer = pointer
        self.events = events
        self.token = token
        self.inbox = inbox
    }

    deinit {
        NATSRegistry.remove(token)
        unsubscribe()
        cnats_close(pointer)
        events.closed()
    }

    /// Connects.
    static func connect(
        to server: ServerAddress, _ settings: NATSSettings
    ) -> Result<NATSClient, NATSFault> {
        for _ in 1..<signaturesMax {
            let (result, isSignatureLost) = connectOnce(to: server, settings)
            if !isSignatureLost { return result }
        }
        return connectOnce(to: server, settings).0
    }

    private static func connectOnce(
        to server: ServerAddress, _ settings: NATSSettings
    ) -> (Result<NATSClient, NATSFault>, isSignatureLost: Bool) {
        let events = NATSEvents(key: settings.key)
        let token = NATSRegistry.add(events)
        switch connect(to: server, settings, token) {
        case .failure(let fault):
            NATSRegistry.remove(token)
            return (.failure(fault), events.isSignatureLost)
        case .success(let pointer):
            let session = String(UInt64.random(in: 0 ... .max), radix: 36)
            let inbox = "\(settings.inbox).\(session)"
            return (.success(NATSClient(pointer, events, token: token, inbox: inbox)), false)
        }
    }

    private static func connect(
        to server: ServerAddress, _ settings: NATSSettings, _ token: UInt
    ) -> Result<OpaquePointer, NATSFault> {
        var options: OpaquePointer?
        guard cnats_options_create(&options) == NATS_OK, let options else {
            return .failure(.connect)
        }
        defer { cnats_options_destroy(options) }
        let context = UnsafeMutableRawPointer(bitPattern: token)
        let network = settings.network
        let connectLimit = network.connectTimeout.microseconds / 1000
        var status = [
            cnats_options_set_server(options, server.description),
            cnats_options_set_name(options, settings.name),
            cnats_options_set_nkey(options, settings.key.publicKey, sign, context),
            cnats_options_set_patience(
                options, connectLimit, network.totalTimeout.microseconds / 1000,
                NATSConnection.pingPause.microseconds / 1000, NATSConnection.pingsOutMax),
            cnats_options_set_handlers(options, ended, failed, context),
        ]
        if server.isSecure {
            status.append(cnats_options_set_tls(options, server.host, network.authorityFile))
            if let file = network.clientCertificateFile {
                status.append(
                    cnats_options_set_client_certificate(
                        options, file, network.clientKeyFile ?? file))
            }
        }
        guard status.allSatisfy({ $0 == NATS_OK }) else { return .failure(.certificateFile) }
        var pointer: OpaquePointer?
        let code = cnats_connect(&pointer, options, server.port, ownLimits * connectLimit)
        guard code == NATS_OK, let pointer else { return .failure(fault(code)) }
        return .success(pointer)
    }

    private static func fault(_ code: natsStatus) -> NATSFault {
        switch code {
        case NATS_CONNECTION_AUTH_FAILED: .refused
        case NATS_SSL_ERROR:
            .tls(
                cnats_last_error().map {
                    String(
                        String.UnicodeScalarView(
                            String(cString: $0).unicodeScalars.prefix(wordsMax).map {
                                0x20...0x7E ~= $0.value ? $0 : "?"
                            }))
                } ?? "handshake")
        case NATS_SECURE_CONNECTION_WANTED: .tls("the server speaks no TLS")
        case NATS_SECURE_CONNECTION_REQUIRED: .tls("the server wants TLS: write tls://")
        case NATS_NOT_PERMITTED: .forbidden
        case NATS_MAX_PAYLOAD: .tooLarge
        default: .connect
        }
    }

    var isConnected: Bool { cnats_is_connected(pointer) && !events.hasEnded }

    func publish(_ payload: [UInt8], to subject: String, reply: String?) -> NATSFault? {
        let code = cnats_publish(
            pointer, subject, reply, payload, Int32(clamping: payload.count))
        return code == NATS_OK ? nil : Self.fault(code)
    }

    func subscribe(to subject: String, queue: String) -> Bool {
        hear(subject, queue: queue, Self.requests)
    }

    /// Hears the answers to requests from now on. A relay makes none.
    ///
    /// - Returns: why it cannot.
    func hearAnswers(_ patience: Duration) -> NATSFault? {
        guard !hearsAnswers else { return nil }
        guard hear("\(inbox).*", queue: nil, Self.answers) else { return .cut }
        if let fault = refusal(patience) { return fault }
        hearsAnswers = true
        return nil
    }

    /// Why the server does not let this client do what it asked for so far; nil if it does.
    ///
    /// The server complains before it answers a ping. ``failed`` may be called later than that.
    func refusal(_ patience: Duration) -> NATSFault? {
        guard flush(patience) else { return .cut }
        return cnats_is_forbidden(pointer) ? .forbidden : nil
    }

    func unsubscribe() {
        for subscription in subscriptions { cnats_unsubscribe(subscription) }
        subscriptions = []
    }

    func flush(_ patience: Duration) -> Bool {
        let code = cnats_flush(pointer, max(1, patience.microseconds / 1000))
        // To libnats a flush is done as well when the connection is lost meanwhile.
        return code == NATS_OK && isConnected
    }

    private func hear(
        _ subject: String, queue: String?, _ handler: @escaping natsMsgHandler
    ) -> Bool {
        var subscription: OpaquePointer?
        let code = cnats_subscribe(
            &subscription, pointer, subject, queue, handler,
            UnsafeMutableRawPointer(bitPattern: token))
        guard code == NATS_OK, let subscription else { return false }
        subscriptions.append(subscription)
        return true
    }

    // MARK: - What the library calls, on threads of its own

    private static var sign: natsSignatureHandler {
        { _, signature, count, nonce, context in
            guard let nonce, let signature, let count, let events = NATSRegistry.at(context),
                let signed = events.key.signature(of: Array(String(cString: nonce).utf8))
            else { return NATS_ERR }
            guard signed.first != 0 else {
                events.loseSignature()
                return NATS_ERR
            }
            guard let memory = malloc(signed.count) else { return NATS_NO_MEMORY }
            // The library frees it.
            memory.copyMemory(from: signed, byteCount: signed.count)
            signature.pointee = memory.assumingMemoryBound(to: UInt8.self)
            count.pointee = Int32(signed.count)
            return NATS_OK
        }
    }

    private static var ended: natsConnectionHandler {
        { _, context in
            NATSRegistry.at(context)?.closed()
        }
    }

    private static var failed: natsErrHandler {
        { _, _, code, context in
            if code == NATS_NOT_PERMITTED { NATSRegistry.at(context)?.forbidden() }
        }
    }

    private static var answers: natsMsgHandler {
        { _, _, message, context in
            defer { cnats_message_destroy(message) }
            guard let message, let events = NATSRegistry.at(context),
                let subject = cnats_subject(message),
                let number = String(cString: subject).split(separator: ".").last.flatMap({
                    UInt64($0)
                })
            else { return }
            events.end(
                number,
                cnats_is_no_responders(message) ? .noResponders : .answered(payload(message)))
        }
    }

    private static var requests: natsMsgHandler {
        { _, _, message, context in
            defer { cnats_message_destroy(message) }
            guard let message, let events = NATSRegistry.at(context),
                let subject = cnats_subject(message)
            else { return }
            events.came(
                NATSMessage(
                    subject: String(cString: subject),
                    reply: cnats_reply(message).map { String(cString: $0) },
                    payload: payload(message)))
        }
    }
}

/// A message's own bytes.
private func payload(_ message: OpaquePointer) -> [UInt8] {
    var count: Int32 = 0
    let bytes = cnats_bytes(message, &count)
    return Array(UnsafeRawBufferPointer(start: bytes, count: max(0, Int(count))))
}
