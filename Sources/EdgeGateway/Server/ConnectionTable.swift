import Glibc

/// Who is at the other end of a connection, as far as the kernel says.
enum ConnectionPeer: Hashable, Sendable {
    /// A user of this machine, at a Unix socket.
    case user(uid_t)
    /// An address; of IPv6 the first 64 bits, which are one network.
    case address(String)
    case unknown
}

/// The connections of one server, and which one has to go when there are too many.
///
/// A new connection is always accepted. If there are too many, another one is closed: one of the same peer, if
/// that has more than its share, else one of the peer with the most connections. Of these, the oldest without a
/// complete request is closed first, and one that is being answered last. So a client that sends nothing, or a
/// byte a second, does not keep others out, and a new connection has time to send a request.
struct ConnectionTable {
    /// The activity of a connection.
    enum Phase: Sendable {
        case waiting
        case reading
        case answering
    }

    private struct Entry {
        let peer: ConnectionPeer
        var phase = Phase.waiting
        /// When it connected, was answered, or had sent a whole request; grows with each such event.
        var since: Int

        /// The least is given up first.
        var rank: (Int, Int) { (phase == .answering ? 1 : 0, since) }
    }

    let countMax: Int
    let perPeerMax: Int
    private var entries: [Int: Entry] = [:]
    private var perPeer: [ConnectionPeer: Int] = [:]
    private var clock = 0

    /// - Parameters:
    ///   - countMax: connections at a time.
    ///   - perPeerMax: of these, how many one peer may have.
    init(countMax: Int, perPeerMax: Int) {
        self.countMax = countMax
        self.perPeerMax = perPeerMax
    }

    var count: Int { entries.count }

    /// Adds a connection; `id` is new.
    ///
    /// - Returns: the connection that has to be closed, if any; it is no longer in the table.
    mutating func add(_ id: Int, of peer: ConnectionPeer) -> Int? {
        clock += 1
        entries[id] = Entry(peer: peer, since: clock)
        perPeer[peer, default: 0] += 1
        let crowded: ConnectionPeer
        if perPeer[peer, default: 0] > perPeerMax {
            crowded = peer
        } else if entries.count > countMax {
            // Among equals it is the newcomer's own place that is given up.
            let most = perPeer.values.max() ?? 0
            crowded =
                perPeer[peer] == most ? peer : perPeer.first { $0.value == most }?.key ?? peer
        } else {
            return nil
        }
        let victim =
            entries.filter { $0.key != id && $0.value.peer == crowded }
            .min { $0.value.rank < $1.value.rank }?.key ?? id
        remove(victim)
        return victim
    }

    /// A connection goes on to something else.
    mutating func note(_ id: Int, _ phase: Phase) {
        guard let entry = entries[id], entry.phase != phase else { return }
        entries[id]?.phase = phase
        // The first byte of a request does not reset the age.
        guard phase != .reading else { return }
        clock += 1
        entries[id]?.since = clock
    }

    mutating func remove(_ id: Int) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        let left = perPeer[entry.peer, default: 1] - 1
        perPeer[entry.peer] = left > 0 ? left : nil
    }
}
