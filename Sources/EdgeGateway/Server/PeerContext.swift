import Foundation
import Glibc
import Hummingbird
import NIOCore
import Synchronization

/// A request and the connection it came over.
struct PeerContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}

/// The process at the other end of a Unix socket, as the kernel names it (unix(7), SO_PEERCRED).
struct Peer: Sendable, Equatable {
    let user: uid_t
    let group: gid_t

    init(user: uid_t, group: gid_t) {
        self.user = user
        self.group = group
    }

    /// Nil unless the connection is one of a Unix socket.
    init?(of channel: any Channel) async {
        guard let options = channel as? any SocketOptionProvider,
            let credentials: Credentials = try? await options.unsafeGetSocketOption(
                level: .socket, name: .init(rawValue: SO_PEERCRED)
            ).get()
        else { return nil }
        self.init(user: credentials.user, group: credentials.group)
    }

    /// The same, on the connection's own event loop, where the answer is there at once.
    static func ofSocket(_ channel: any Channel) -> Peer? {
        guard let options = channel as? any SocketOptionProvider else { return nil }
        let answer: EventLoopFuture<Credentials> = options.unsafeGetSocketOption(
            level: .socket, name: .init(rawValue: SO_PEERCRED))
        var peer: Peer?
        answer.assumeIsolated().whenSuccess { peer = Peer(user: $0.user, group: $0.group) }
        return peer
    }

    /// `struct ucred` of unix(7), which glibc shows to GNU programs only.
    private struct Credentials {
        var process: pid_t
        var user: uid_t
        var group: gid_t
    }

    /// Whether this user belongs to a group, by the machine's own books.
    func isMember(of name: String) -> Bool { Self.books.withLock { _ in belongs(to: name) } }

    /// getgrnam(3) and getpwuid(3) answer in a buffer of the whole process, and connections are answered at once: one
    /// user was judged by another's name.
    private static let books = Mutex<Void>(())

    private func belongs(to name: String) -> Bool {
        guard let wanted = getgrnam(name)?.pointee.gr_gid else { return false }
        if group == wanted { return true }
        guard let entry = getpwuid(user) else { return false }
        var count = Self.groupsMax
        var groups = [gid_t](repeating: 0, count: Int(count))
        guard getgrouplist(entry.pointee.pw_name, entry.pointee.pw_gid, &groups, &count) >= 0
        else { return false }
        return groups.prefix(Int(count)).contains(wanted)
    }

    /// The kernel's own bound on the groups of a process (NGROUPS_MAX).
    private static let groupsMax: Int32 = 65_536
}

/// The users who may change something over the control socket. The mode of the socket file decides who may use it at
/// all.
struct ChangePolicy: Sendable {
    /// Members of this group may; nil: every user of the socket.
    let group: String?

    func mayChange(_ peer: Peer?) -> Bool {
        guard let group else { return true }
        guard let peer else { return false }
        return peer.user == 0 || peer.user == getuid() || peer.isMember(of: group)
    }
}
