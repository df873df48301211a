import Glibc
import Synchronization

/// Standard output and standard error, written at once. Either may be closed, full, slow or without a reader.
///
/// `print` does not say that a write failed, and `FileHandle.write` then ends the process.
enum StandardStream: Int32, CaseIterable {
    case output = 1
    case error = 2

    /// The `errno` of the first write to standard output that failed.
    private static let firstFailure = Mutex<Int32?>(nil)

    /// Why standard output is incomplete, as an `errno`; nil while it took everything.
    static var outputFailure: Int32? { firstFailure.withLock { $0 } }

    /// Writes all of it, or as much as the stream takes.
    func write(_ text: String) {
        guard let failure = failureWriting(Array(text.utf8)), self == .output else { return }
        Self.firstFailure.withLock { $0 = $0 ?? failure }
    }

    private func failureWriting(_ bytes: [UInt8]) -> Int32? {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes {
                Glibc.write(rawValue, $0.baseAddress, $0.count)
            }
            if count > 0 {
                done += count
            } else if errno == EAGAIN {
                // Whoever shares the terminal or the pipe has made it non-blocking.
                var waiting = pollfd(fd: rawValue, events: Int16(POLLOUT), revents: 0)
                poll(&waiting, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return nil
    }

    /// Gives each stream that the caller has closed a descriptor that cannot be written. Otherwise the next file or
    /// socket would get its number, and with it what is printed.
    static func reserveDescriptors() {
        for descriptor in [STDIN_FILENO] + allCases.map(\.rawValue)
        where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest free number, which is this one.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }
}
