#if canImport(Glibc)
    import Glibc
#endif

/// A file descriptor that came with a message or is to go with one: closed with its last reference.
public final class DBusDescriptor: Sendable, Hashable {
    /// The descriptor. Valid as long as this object is.
    public let number: Int32

    /// Takes ownership of a descriptor; nil if the number is negative.
    public init?(owning number: Int32) {
        guard number >= 0 else { return nil }
        self.number = number
    }

    deinit {
        close(number)
    }

    public static func == (one: DBusDescriptor, other: DBusDescriptor) -> Bool { one === other }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
