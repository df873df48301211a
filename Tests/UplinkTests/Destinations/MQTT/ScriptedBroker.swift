import Foundation
import Synchronization

/// A broker that says what a script wants: takes one connection after another on 127.0.0.1 and gives the script
/// each packet.
final class ScriptedBroker: Sendable {
    /// One packet of a client: its type in the upper half of `head`, and what follows the length.
    struct Packet: Sendable {
        var head: UInt8
        var body: [UInt8]

        /// The identifier of a PUBLISH of quality of service 1.
        var identifier: [UInt8] {
            let topic = Int(body[0]) << 8 | Int(body[1])
            return Array(body[(2 + topic)..<(4 + topic)])
        }
    }

    enum Answer: Sendable {
        case bytes([UInt8])
        case silence
        case close
    }

    static let connect: UInt8 = 1
    static let publish: UInt8 = 3

    /// CONNACK of MQTT 5 with a reason code.
    static func connack(_ code: UInt8 = 0) -> Answer { .bytes([0x20, 0x03, 0x00, code, 0x00]) }
    /// PUBACK of MQTT 5 with a reason code.
    static func puback(_ packet: Packet, _ code: UInt8 = 0) -> Answer {
        .bytes([0x40, 0x03] + packet.identifier + [code])
    }

    let port: UInt16
    private let listener: Int32
    private let counts = Mutex((connections: 0, publishes: 0))

    /// How many connections came.
    var connections: Int { counts.withLock { $0.connections } }
    /// How many messages came.
    var publishes: Int { counts.withLock { $0.publishes } }

    init(script: @escaping @Sendable (Packet) -> Answer) throws {
        let (descriptor, port) = try Loopback.listen()
        listener = descriptor
        self.port = port
        Thread { [self] in
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0 else { return }
                counts.withLock { $0.connections += 1 }
                serve(client, script)
                close(client)
            }
        }.start()
    }

    /// Ends the thread, which holds on to the broker until then.
    func stop() { shutdown(listener, Int32(SHUT_RDWR)) }

    deinit { close(listener) }

    private func serve(_ client: Int32, _ script: (Packet) -> Answer) {
        while let packet = Self.read(client) {
            if packet.head >> 4 == Self.publish { counts.withLock { $0.publishes += 1 } }
            switch script(packet) {
            case .silence: break
            case .close: return
            case .bytes(let bytes):
                _ = bytes.withUnsafeBytes {
                    send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
            }
        }
    }

    private static func read(_ client: Int32) -> Packet? {
        guard let head = read(client, 1)?.first else { return nil }
        var length = 0
        for place in 0..<4 {
            guard let byte = read(client, 1)?.first else { return nil }
            length |= Int(byte & 0x7F) << (7 * place)
            if byte < 0x80 { break }
        }
        return read(client, length).map { Packet(head: head, body: $0) }
    }

    private static func read(_ client: Int32, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let got = bytes.withUnsafeMutableBytes {
                recv(client, $0.baseAddress?.advanced(by: filled), count - filled, 0)
            }
            guard got > 0 else { return nil }
            filled += got
        }
        return bytes
    }
}
