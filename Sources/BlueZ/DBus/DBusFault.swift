/// The failure of a D-Bus call: the error's name and text, kept as they came.
public struct DBusFault: Error, Sendable, Hashable, CustomStringConvertible {
    /// The D-Bus error name, such as `org.bluez.Error.Failed`.
    public let name: String
    /// The text that came with it, such as `le-connection-abort-by-local`. May be empty.
    public let text: String

    /// Makes a fault from an error's name and text.
    public init(name: String, text: String = "") {
        self.name = name
        self.text = text
    }

    /// The name, and the text if there is one.
    public var description: String { text.isEmpty ? name : name + ": " + text }

    /// No answer within the call's deadline: ours, or the bus daemon's own.
    public static let noReply = "org.freedesktop.DBus.Error.NoReply"
    /// The bus is gone; everything outstanding ended with it.
    public static let disconnected = "org.freedesktop.DBus.Error.Disconnected"
    /// A bound was reached: calls outstanding, messages waiting, or the size of an answer.
    public static let limitsExceeded = "org.freedesktop.DBus.Error.LimitsExceeded"
    /// The bus does not let this user call that service.
    public static let accessDenied = "org.freedesktop.DBus.Error.AccessDenied"
    /// A name, path or value that D-Bus does not allow was to be sent.
    public static let invalidArguments = "org.freedesktop.DBus.Error.InvalidArgs"
    /// A call for a method that the service does not have.
    public static let unknownMethod = "org.freedesktop.DBus.Error.UnknownMethod"
    /// The task that waited was cancelled.
    public static let cancelled = "edgegateway.Error.Cancelled"
    /// The answer belongs to an older connection number: the daemon was replaced meanwhile.
    public static let stale = "edgegateway.Error.Stale"
}
