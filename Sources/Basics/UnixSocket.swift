#if canImport(Glibc)
    import Glibc
#endif

/// Addresses of Unix sockets.
public enum UnixSocket {
    /// Calls `body` with the address of a socket, as bind(2), connect(2) and sendto(2) want it.
    ///
    /// - Parameters:
    ///   - path: where the socket is; of an abstract one a NUL and its name.
    ///   - body: takes the address and its length.
    /// - Returns: what `body` returns, such as -1; -1 with `ENAMETOOLONG` if the path does not fit an address.
    public static func withAddress<Answer: SignedInteger>(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Answer
    ) -> Answer {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let name = Array(path.utf8)
        guard name.count < MemoryLayout.size(ofValue: address.sun_path) else {
            errno = ENAMETOOLONG
            return -1
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
        }
    }
}
