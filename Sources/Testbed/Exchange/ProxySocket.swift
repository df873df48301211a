import Foundation
import Glibc

/// A connected socket, read and written by a thread that may block.
struct ProxySocket {
    private let descriptor: Int32

    /// No peer in a test is silent for longer; after that the connection counts as over.
    private static let silenceSecondsMax = 20

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
        var limit = timeval(tv_sec: Self.silenceSecondsMax, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    /// Connects to a port of 127.0.0.1; nil when no server listens there.
    init?(port: Int) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(truncatingIfNeeded: port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, length) == 0
            }
        }
        guard isConnected else {
            Glibc.close(descriptor)
            return nil
        }
        self.init(descriptor)
    }

    func close() {
        Glibc.close(descriptor)
    }

    /// Writes all of it, or as much as the other side takes.
    func write(_ bytes: ArraySlice<UInt8>) {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Reads header fields, and as much body as `Content-Length` says.
    func readRequest() -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            if let start = ConnectionFault.bodyStart(of: bytes) {
                let head = String(decoding: bytes[..<start], as: UTF8.self).lowercased()
                let length = head.range(of: "content-length: ").flatMap {
                    Int(head[$0.upperBound...].prefix { $0.isNumber })
                }
                while bytes.count - start < length ?? 0, let more = read() { bytes += more }
                return bytes
            }
            guard let more = read() else { return bytes }
            bytes += more
        }
    }

    /// Reads until the other side closes.
    func readAll() -> [UInt8] {
        var bytes: [UInt8] = []
        while let more = read() { bytes += more }
        return bytes
    }

    /// Reads until the other side closes, or `other` does.
    func readAll(unlessCloses other: ProxySocket) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            var polls = [
                pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: other.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&polls, 2, Int32(Self.silenceSecondsMax * 1000)) > 0 else { return bytes }
            // An end of what the client sends, which says all at once, is its going away.
            if polls[0].revents == 0 { return bytes }
            guard let more = read() else { return bytes }
            bytes += more
        }
    }

    /// Waits until the other side closes.
    func waitForClose() {
        while read() != nil {}
    }

    private func read() -> [UInt8]? {
        let bytes = [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, count in
            count = max(recv(descriptor, buffer.baseAddress, buffer.count, 0), 0)
        }
        return bytes.isEmpty ? nil : bytes
    }
}
