import Basics
import Foundation
import Glibc
import Synchronization

/// The place of the control socket: one daemon has it at a time.
///
/// A lock file beside the socket says that the socket is in use. A socket file is removed only under that lock, and
/// only if no daemon answers there.
final class ControlSocketPlace: Sendable {
    private struct State {
        var lock: Int32 = -1
        /// Device and file number of the socket that was bound; nil before.
        var bound: [Int]?
    }

    let path: String
    private let state = Mutex(State())

    init(_ path: String) { self.path = path }

    deinit {
        let descriptor = state.withLock { $0.lock }
        if descriptor >= 0 { Self.unlock(descriptor) }
    }

    /// Why the place cannot be had.
    enum Fault: Error, Equatable {
        /// Another daemon has it.
        case taken(String)
        /// It cannot be used now.
        case unusable(String)

        /// One line with the setting, its value and what to do.
        var reason: String {
            switch self {
            case .taken(let reason), .unusable(let reason): reason
            }
        }
    }

    /// Takes the place and removes a socket that a killed daemon left behind.
    ///
    /// - Throws: ``Fault``
    func claim() throws(Fault) {
        // The kernel takes an empty one, for a name in no directory.
        guard path.hasPrefix("/") else {
            throw .unusable(
                "socket: " + (path.isEmpty ? "it is empty" : path) + "; it must begin with /")
        }
        try takeLock()
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: path) else {
            return
        }
        guard attributes[.type] as? FileAttributeType == .typeSocket else {
            throw .unusable(
                "socket: another file is at \(path); set `socket` to another path")
        }
        guard !Self.isAnswered(path) else {
            throw .taken(
                "socket: another program answers at \(path); stop it, or set `socket` and `state` "
                    + "to places of their own")
        }
        guard unlink(path) == 0 || errno == ENOENT else {
            throw .unusable("socket: \(path) cannot be replaced: \(Self.systemWords)")
        }
    }

    /// The socket is bound now.
    func noteBound() {
        let identity = Self.identity(path)
        state.withLock { $0.bound = identity }
    }

    /// Whether the socket that was bound is still where commands look for it.
    var isThere: Bool {
        guard let bound = state.withLock({ $0.bound }) else { return true }
        return Self.identity(path) == bound
    }

    private func takeLock() throws(Fault) {
        let lockPath = path + ".lock"
        // A directory that was replaced has a new lock file: the old lock says nothing about it.
        let old = state.withLock { state in
            defer { state.lock = -1 }
            return state.lock
        }
        if old >= 0 { Self.unlock(old) }
        let descriptor = Glibc.open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw .unusable(
                errno == ENOENT
                    ? "socket: the directory of \(path) is missing; create it or set `socket`"
                    : "socket: \(lockPath) cannot be opened: \(Self.systemWords)")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw .taken(
                "socket: another daemon has \(path); stop it (systemctl stop edge-gateway), or set "
                    + "`socket` and `state` to places of their own")
        }
        state.withLock { $0.lock = descriptor }
    }

    /// A child that is just being started has the descriptor too, and with it the lock.
    private static func unlock(_ descriptor: Int32) {
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// Whether a program takes connections there.
    private static func isAnswered(_ path: String) -> Bool {
        let descriptor = Glibc.socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let result = UnixSocket.withAddress(path) { Glibc.connect(descriptor, $0, $1) }
        // EAGAIN: it listens, and more wait than it has room for.
        return result == 0 || errno == EAGAIN
    }

    private static func identity(_ path: String) -> [Int]? {
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: path) else {
            return nil
        }
        return [attributes[.systemNumber], attributes[.systemFileNumber]].compactMap { $0 as? Int }
    }

    private static var systemWords: String { String(cString: strerror(errno)) }
}
