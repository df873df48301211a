import Basics
import Foundation
import Synchronization

/// A server that deals in bytes: takes one connection after another on loopback or a Unix socket and
/// lets a script do with each what it likes.
final class RawServer: Sendable {
    /// One accepted connection.
    struct Connection {
        let descriptor: Int32

        /// The next request over it, if another comes.
        func nextRequest() -> String { RawServer.readRequest(descriptor) }

        func send(_ text: String) {
            send(Array(text.utf8))
        }

        func send(_ bytes: [UInt8]) {
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return }
                sent += count
            }
        }

        /// Waits until the other side closes.
        func waitForClose() {
            var byte: UInt8 = 0
            while recv(descriptor, &byte, 1, 0) > 0 {}
        }
    }

    typealias Script = @Sendable (Connection, String) -> Void

    let port: UInt16
    private let listener: Int32
    private let log = Mutex<[String]>([])

    /// The requests received, headers and body.
    var requests: [String] { log.withLock { $0 } }

    init(unixPath: String? = nil, script: @escaping Script) throws {
        let (listener, port): (Int32, UInt16) =
            if let unixPath { (try Self.listen(path: unixPath), 0) } else { try Loopback.listen() }
        self.listener = listener
        self.port = port
        let thread = Thread { [self] in
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { return }
                let request = Self.readRequest(descriptor)
                log.withLock { $0.append(request) }
                script(Connection(descriptor: descriptor), request)
                close(descriptor)
            }
        }
        thread.start()
    }

    /// Ends the thread, which holds on to the server until then.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
    }

    deinit {
        close(listener)
    }

    private static func listen(path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard UnixSocket.withAddress(path, { bind(descriptor, $0, $1) }) == 0,
            Glibc.listen(descriptor, 8) == 0
        else { throw CocoaError(.fileReadUnknown) }
        return descriptor
    }

    /// Reads headers, and as much body as Content-Length says.
    private static func readRequest(_ descriptor: Int32) -> String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let text = String(decoding: bytes, as: UTF8.self)
            if let end = text.range(of: "\r\n\r\n") {
                let length = text.range(of: "Content-Length: ").flatMap {
                    Int(text[$0.upperBound...].prefix { $0.isNumber })
                }
                if text[end.upperBound...].utf8.count >= length ?? 0 { return text }
            }
            let count = recv(descriptor, &chunk, chunk.count, 0)
            guard count > 0 else { return text }
            bytes += chunk[..<count]
        }
    }
}
