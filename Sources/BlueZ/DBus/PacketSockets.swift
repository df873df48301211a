import Basics
import CBlueZ

/// A socket of packets that is read beside the bus.
struct PacketSocket: Sendable {
    let descriptor: DBusDescriptor
    /// The object that it belongs to.
    let path: String
    /// Tells it from an earlier one of the same object.
    let number: UInt32
}

/// The sockets that the bus thread reads. Lives on that thread, which does nothing that could keep it
/// from reading: their writer drops packets that do not fit.
struct PacketSockets {
    /// Sockets at most; more than the straps that the adapters of a machine can carry.
    static let socketsMax = Int(CBZ_WATCHED_MAX)
    /// The longest packet taken: an attribute's value has 512 octets at most (Core 5.4 Vol 3 Part F
    /// §3.2.9). A socket that brings a longer one brings no notifications, and is closed.
    static let packetMax = 512
    /// Packets read from a socket in one turn; more than it holds.
    static let packetsPerTurnMax = 1024
    /// The length of packets by which it is found out how many fit: a frame with two or more RR intervals.
    private static let frameLength = 8

    private var sockets: [PacketSocket] = []
    private var watched: [cbz_watched] = []
    private var buffer = [UInt8](repeating: 0, count: packetMax)
    /// How many packets a socket holds before its writer drops the next one; 0: not known.
    private var room = 0

    /// Lends the sockets for a `poll`, which tells those with something to read.
    mutating func withWatched<Result>(
        _ body: (UnsafeMutablePointer<cbz_watched>?, Int) -> Result
    ) -> Result {
        watched.withUnsafeMutableBufferPointer { body($0.baseAddress, $0.count) }
    }

    /// Begins to read a socket; returns its end if there are too many.
    mutating func add(_ socket: PacketSocket) -> DBusMessage? {
        guard sockets.count < Self.socketsMax else { return Self.news(.end, of: socket) }
        if room == 0 { room = cbz_socket_room(Self.frameLength) }
        sockets.append(socket)
        watched.append(cbz_watched(descriptor: socket.descriptor.number, is_ready: true))
        return nil
    }

    /// Reads a socket to its end and closes it.
    mutating func remove(_ number: UInt32) -> [DBusMessage] {
        guard let index = sockets.firstIndex(where: { $0.number == number }) else { return [] }
        let socket = sockets[index]
        var news: [DBusMessage] = []
        _ = read(socket, into: &news)
        drop(at: index)
        return news + [Self.news(.end, of: socket)]
    }

    mutating func closeAll() {
        sockets = []
        watched = []
    }

    /// The news of the sockets: all of them, or those that the last `poll` found ready.
    mutating func read(all: Bool) -> [DBusMessage] {
        var news: [DBusMessage] = []
        for index in sockets.indices.reversed() where all || watched[index].is_ready {
            watched[index].is_ready = false
            let socket = sockets[index]
            guard !read(socket, into: &news) else { continue }
            drop(at: index)
            news.append(Self.news(.end, of: socket))
        }
        return news
    }

    private mutating func drop(at index: Int) {
        sockets.remove(at: index)
        watched.remove(at: index)
    }

    /// Takes what is in a socket; false at its end.
    private mutating func read(_ socket: PacketSocket, into news: inout [DBusMessage]) -> Bool {
        var count = 0
        defer { if room > 0, count >= room { news.append(Self.news(.full, of: socket)) } }
        while count < Self.packetsPerTurnMax {
            var length = 0
            let outcome = buffer.withUnsafeMutableBufferPointer {
                cbz_socket_read(socket.descriptor.number, $0.baseAddress, $0.count, &length)
            }
            switch outcome {
            case CBZ_PACKET:
                count += 1
                news.append(Self.news(.packet, of: socket, Array(buffer.prefix(length))))
            case CBZ_NOTHING: return true
            default: return false
            }
        }
        return true
    }

    private static func news(
        _ news: DBusMessage.SocketNews, of socket: PacketSocket, _ bytes: [UInt8]? = nil
    ) -> DBusMessage {
        var message = DBusMessage.socket(
            news, at: socket.path, number: socket.number, bytes: bytes)
        message.arrivedAt = Uptime.now()
        return message
    }
}
