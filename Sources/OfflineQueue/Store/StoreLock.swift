import Foundation

/// Keeps a second process out of a store: an exclusive flock(2) on a file beside it.
///
/// On a file beside it, because closing any descriptor of the database itself would release
/// SQLite's own locks on it (fcntl(2)). The kernel releases it when the process ends in any way.
final class StoreLock: Sendable {
    private let descriptor: Int32

    init(_ storePath: String) throws(QueueError) {
        let path = storePath + ".lock"
        var opened = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        // A disk that cannot be written to can still lock what is there.
        if opened < 0, errno == EROFS { opened = Glibc.open(path, O_RDONLY | O_CLOEXEC) }
        guard opened >= 0 else { throw QueueError(errno: errno, "create lock file") }
        // Only now is there something for `deinit` to close: it runs also when this throws, if nothing is left to
        // be set, and what is closed twice may by then be another's descriptor.
        descriptor = opened
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            guard code == EWOULDBLOCK else { throw QueueError(errno: code, "lock store") }
            throw QueueError(.inUse, "lock store", "another process has this store open")
        }
    }

    deinit {
        // A child that is just being started has the descriptor too, and with it the lock.
        flock(descriptor, LOCK_UN)
        _ = Glibc.close(descriptor)
    }
}
