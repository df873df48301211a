import Glibc

/// Ports of this machine's loopback.
public enum FreePort {
    /// One that was free a moment ago.
    ///
    /// - Throws: ``SystemFault``, when there is none.
    public static func anywhere() throws -> Int {
        guard let port = taken(0) else { throw SystemFault("there is no free port on 127.0.0.1") }
        return Int(port)
    }

    /// `wanted` if no other program has it, else one that the kernel chooses; nil if there is none.
    public static func near(_ wanted: UInt16) -> UInt16? { taken(wanted) ?? taken(0) }

    /// Binds a port for a moment.
    private static func taken(_ port: UInt16) -> UInt16? {
        let descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_port = port.bigEndian
        place.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { place in
                // A listener that has just ended leaves connections behind; its port is free.
                var yes: Int32 = 1
                setsockopt(
                    descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
                guard bind(descriptor, place, length) == 0,
                    getsockname(descriptor, place, &length) == 0
                else { return nil }
                return UInt16(bigEndian: pointer.pointee.sin_port)
            }
        }
    }
}
