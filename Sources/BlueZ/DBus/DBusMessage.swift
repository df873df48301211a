import Basics

/// One D-Bus message, sent or received.
///
/// Source: D-Bus Specification, "Message Protocol".
public struct DBusMessage: Sendable, Hashable {
    /// The four kinds of message, and what the connection itself tells.
    public enum Kind: Sendable, Hashable {
        case call, reply, error, signal
        /// All that had come when this was asked for precedes it (`BusConnection.catchUp`); `serial` is the number
        /// that it was asked with.
        case caughtUp
    }

    /// The kind of message.
    public var kind: Kind
    /// The object that it is to, or from; nil for a reply.
    public var path: String?
    /// The interface of `member`.
    public var interface: String?
    /// The method or signal; nil for a reply.
    public var member: String?
    /// The unique name of the sender; set by the bus, ignored when sending.
    public var sender: String?
    /// A bus name. A signal without one is a broadcast.
    public var destination: String?
    /// The sender's number for this message; set when it is received or sent.
    public var serial: UInt32 = 0
    /// The serial of the call that this reply or error answers.
    public var replySerial: UInt32?
    /// Of an error: its name, such as `org.bluez.Error.Failed`.
    public var errorName: String?
    /// Its arguments, in order.
    public var body: [DBusValue]
    /// The caller wants no answer.
    public var isReplyUnwanted = false
    /// When the message was taken from the bus.
    public var arrivedAt = Uptime.zero
    /// The order of arrival on its connection; orders signals against replies.
    public var arrival: UInt64 = 0

    /// Makes a message of any kind; see the static functions for the common ones.
    public init(
        kind: Kind, path: String? = nil, interface: String? = nil, member: String? = nil,
        destination: String? = nil, replySerial: UInt32? = nil, errorName: String? = nil,
        body: [DBusValue] = []
    ) {
        self.kind = kind
        self.path = path
        self.interface = interface
        self.member = member
        self.destination = destination
        self.replySerial = replySerial
        self.errorName = errorName
        self.body = body
    }

    /// Tells that all before it has been handed over.
    public static func caughtUp(_ number: UInt32) -> DBusMessage {
        var message = DBusMessage(kind: .caughtUp)
        message.serial = number
        return message
    }

    /// The answer to a received call.
    public static func reply(to call: DBusMessage, body: [DBusValue] = []) -> DBusMessage {
        DBusMessage(
            kind: .reply, destination: call.sender, replySerial: call.serial, body: body)
    }

    /// The error answer to a received call.
    public static func error(to call: DBusMessage, _ fault: DBusFault) -> DBusMessage {
        DBusMessage(
            kind: .error, destination: call.sender, replySerial: call.serial,
            errorName: fault.name, body: fault.text.isEmpty ? [] : [.string(fault.text)])
    }

    /// The error answer to a call for a method that is not served here.
    public static func unknownMethod(_ call: DBusMessage) -> DBusMessage {
        .error(
            to: call,
            DBusFault(
                name: DBusFault.unknownMethod,
                text: (call.interface ?? "") + "." + (call.member ?? "") + " is not known here"))
    }

    /// The fault that an error message stands for.
    var fault: DBusFault {
        DBusFault(name: errorName ?? "", text: body.first?.text ?? "")
    }
}
