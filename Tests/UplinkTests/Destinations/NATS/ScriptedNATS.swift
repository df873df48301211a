import Foundation
import Synchronization

/// A NATS server of one user, which behaves as nats-server does until the script wants something else, on
/// 127.0.0.1.
final class ScriptedNATS: Sendable {
    /// What happens on a connection.
    enum Script {
        /// The question that the client has to sign; what comes after is as usual.
        case question(String)
        /// It wants TLS, and then says nothing any more.
        case silentHandshake
        /// It does not answer the first ping.
        case silentAfterwards
        /// It reads nothing after the first message.
        case readsNothing
    }

    /// What the client signs where the script says nothing else.
    static let question = "ScriptedServers"

    let port: UInt16
    private let listener: Int32
    private let count = Mutex(0)

    /// How many connections came.
    var connections: Int { count.withLock { $0 } }

    init(script: @escaping @Sendable (_ connection: Int) -> Script) throws {
        let (descriptor, port) = try Loopback.listen()
        listener = descriptor
        self.port = port
        Thread { [self] in
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0 else { return }
                let connection = count.withLock { count in
                    defer { count += 1 }
                    return count
                }
                Thread {
                    self.serve(client, script(connection))
                    close(client)
                }.start()
            }
        }.start()
    }

    /// Ends the thread, which holds on to the server until then.
    func stop() { shutdown(listener, Int32(SHUT_RDWR)) }

    deinit { close(listener) }

    private func serve(_ client: Int32, _ script: Script) {
        var question = Self.question
        if case .question(let wanted) = script { question = wanted }
        var wantsTLS = false
        if case .silentHandshake = script { wantsTLS = true }
        say(
            client,
            #"INFO {"server_id":"S","version":"2.9.10","proto":1,"headers":true,"auth_required":true,"#
                + #""tls_required":\#(wantsTLS),"max_payload":1048576,"nonce":"\#(question)"}"#)
        guard !wantsTLS else { return waitForClose(client) }
        while let line = readLine(client) {
            if line.hasPrefix("CONNECT"), !line.contains(#""sig":""#) || line.contains(#""sig":"""#)
            {
                return say(client, "-ERR 'Authorization Violation'")
            }
            if line == "PING" {
                if case .silentAfterwards = script { return waitForClose(client) }
                say(client, "PONG")
            }
            if line.hasPrefix("PUB"), case .readsNothing = script { return waitForHangup(client) }
        }
    }

    private func say(_ client: Int32, _ line: String) {
        let bytes = Array("\(line)\r\n".utf8)
        _ = bytes.withUnsafeBytes {
            send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
    }

    private func readLine(_ client: Int32) -> String? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while recv(client, &byte, 1, 0) == 1 {
            if byte == 0x0A { return String(decoding: bytes.dropLast(), as: UTF8.self) }
            bytes.append(byte)
        }
        return nil
    }

    private func waitForClose(_ client: Int32) {
        var byte: UInt8 = 0
        while recv(client, &byte, 1, 0) == 1 {}
    }

    /// Waits for the client to close, and reads nothing.
    private func waitForHangup(_ client: Int32) {
        // POLLRDHUP, which Glibc's module does not have.
        var wanted = pollfd(fd: client, events: 0x2000, revents: 0)
        while poll(&wanted, 1, -1) < 0 && errno == EINTR {}
    }
}
