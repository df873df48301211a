import Glibc

/// Ports of this machine's loopback.
public enum FreePort {
    /// Below the ports from which the kernel chooses one for an outgoing connection: none of those takes a port
    /// between its choice here and its use by a server.
    private static let range: ClosedRange<UInt16> = 10_240...32_767
    /// How many ports are tried. So many that are taken are a fault.
    private static let triesMax = 100

    /// One that was free a moment ago.
    ///
    /// - Throws: ``SystemFault``, when there is none.
    public static func anywhere() throws -> Int {
        for _ in 0..<triesMax {
            let port = UInt16.random(in: range)
            if isFree(port) { return Int(port) }
        }
        throw SystemFault("there is no free port on 127.0.0.1")
    }

    /// `wanted` if it is free, else another port; nil if no port is free.
    public static func near(_ wanted: UInt16) -> UInt16? {
        isFree(wanted) ? wanted : (try? anywhere()).map { UInt16($0) }
    }

    /// Binds a port for a moment.
    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_port = port.bigEndian
        place.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        return withUnsafeMutablePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { place in
                // A listener that has just ended leaves connections behind; its port is free.
                var yes: Int32 = 1
                setsockopt(
                    descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
                return bind(descriptor, place, length) == 0
            }
        }
    }
}
