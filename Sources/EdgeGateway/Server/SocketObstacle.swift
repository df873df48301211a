import Foundation
import Glibc

extension ControlClient {
    /// Why no connection to the daemon's socket is to be had, as far as this user can see.
    enum Obstacle: Equatable {
        case notRunning
        case notPermitted(SocketAccess)
        case notListening

        init(at socketPath: String) {
            if access(socketPath, W_OK) == 0 {
                self = .notListening
            } else {
                // Of a folder that this user may not look into, too.
                self = errno == EACCES ? .notPermitted(SocketAccess(socketPath)) : .notRunning
            }
        }

        var why: String {
            switch self {
            case .notRunning: "it is not running"
            case .notPermitted(let access): access.why
            case .notListening: "the daemon no longer listens there"
            }
        }

        var advice: String {
            switch self {
            case .notPermitted(let access): access.advice
            case .notRunning, .notListening:
                "start it: systemctl start edge-gateway, or edge-gateway run in another terminal; if it "
                    + "does not stay, sudo edge-gateway doctor says why"
            }
        }

        /// How a command ends that meets it.
        func failure(at socketPath: String) -> CommandFailure {
            if case .notPermitted(let access) = self {
                return CommandFailure(
                    exitCode: .notPermitted,
                    message: "the daemon's socket \(socketPath): \(access.why)\n  \(access.advice)")
            }
            return CommandFailure(
                exitCode: .daemonUnreachable,
                message: "no daemon at \(socketPath): \(why)\n  \(advice)")
        }
    }
}

/// The users who may use a socket, and the advice for a user who may not.
struct SocketAccess: Equatable {
    /// The user who asks.
    var user: String
    /// The group whose members may use it; nil: its owner alone.
    var group: String?
    /// The user was made a member after this session began.
    var isMemberByNow = false

    var why: String { "this user (\(user)) may not use it" }

    var advice: String {
        guard let group else {
            return "it belongs to another user alone: use sudo, or be that user"
        }
        return isMemberByNow
            ? "\(user) is in the group \(group) by now, but this session is not: log in again, or newgrp "
                + group
            : "sudo adduser \(user) \(group), then log in again; or use sudo"
    }
}

extension SocketAccess {
    /// Of the socket, or of the folder that hides it.
    init(_ socketPath: String) {
        let id = geteuid()
        user = Self.name(ofUser: id) ?? String(id)
        var status = stat()
        var path = socketPath
        while stat(path, &status) != 0, path.count > 1 {
            path = URL(filePath: path).deletingLastPathComponent().path
        }
        let opens = mode_t(path == socketPath ? S_IWGRP : S_IXGRP)
        guard status.st_mode & opens != 0, status.st_gid != 0 else { return }
        group = Self.name(ofGroup: status.st_gid)
        isMemberByNow = Self.members(status.st_gid).contains(user)
    }

    private static func name(ofUser id: uid_t) -> String? {
        getpwuid(id).map { String(cString: $0.pointee.pw_name) }
    }

    private static func name(ofGroup id: gid_t) -> String? {
        getgrgid(id).map { String(cString: $0.pointee.gr_name) }
    }

    private static func members(_ id: gid_t) -> [String] {
        var names: [String] = []
        var next = getgrgid(id).flatMap(\.pointee.gr_mem)
        while let name = next?.pointee {
            names.append(String(cString: name))
            next = next?.advanced(by: 1)
        }
        return names
    }
}
