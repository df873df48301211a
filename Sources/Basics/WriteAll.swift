import Glibc

/// Writes all octets to a file. Returns whether it did; else `errno` says why not.
public func writeAll(_ octets: UnsafeRawBufferPointer, to descriptor: Int32) -> Bool {
    var rest = octets
    while !rest.isEmpty {
        let count = write(descriptor, rest.baseAddress, rest.count)
        guard count > 0 else { return false }
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
    }
    return true
}
