import Basics
import CBlueZ

#if canImport(Glibc)
    import Glibc
#endif

/// A private, long-lived connection to a message bus, for a client or a service.
///
/// One dedicated thread owns it. Every call has a deadline; when the bus goes away all outstanding
/// calls fail with `DBusFault.disconnected` and `incoming()` ends. Losing the bus never ends the
/// process. Dropping the last reference closes it.
public final class DBusConnection: BusConnection {
    /// The system bus, where `DBUS_SYSTEM_BUS_ADDRESS` does not name another.
    public static let systemBusAddress = "unix:path=/var/run/dbus/system_bus_socket"
    /// Incoming messages that may wait for their consumer.
    static let incomingMax = 65_536
    /// Connecting, authenticating and registering together. The bus daemon itself allows 30 s.
    static let openDeadline = Duration.seconds(10)
    /// For calls to the bus daemon, which answers at once or is in trouble.
    static let busCallDeadline = Duration.seconds(10)

    private let requests: BusRequests
    private let mailbox: Mailbox<DBusMessage>

    private init() throws(DBusFault) {
        requests = try BusRequests()
        mailbox = Mailbox(capacity: Self.incomingMax)
    }

    deinit {
        requests.close()
    }

    /// Opens a connection and registers it with the bus.
    ///
    /// - Parameter address: a D-Bus address such as `unix:path=/run/bus`; `nil` for the system bus.
    public static func open(
        address: String? = nil
    ) async throws(DBusFault) -> DBusConnection {
        let named = getenv("DBUS_SYSTEM_BUS_ADDRESS").map { String(cString: $0) }
        let address = address ?? named ?? systemBusAddress
        let connection = try DBusConnection()
        try await BusThread.start(
            address: address, requests: connection.requests, mailbox: connection.mailbox)
        _ = try await connection.callBus("Hello", [], deadline: openDeadline)
        return connection
    }

    /// Calls a method and returns the arguments of its answer.
    ///
    /// After `deadline` the call fails with `DBusFault.noReply`, and an answer that still comes is
    /// dropped. Cancelling the task does the same at once.
    public func call(
        destination: String, path: String, interface: String, member: String,
        arguments: [DBusValue] = [], deadline: Duration
    ) async throws(DBusFault) -> [DBusValue] {
        try await request(
            DBusMessage(
                kind: .call, path: path, interface: interface, member: member,
                destination: destination, body: arguments),
            deadline: deadline
        ).body
    }

    /// Calls a method and returns the whole answer, which tells when it arrived among the signals.
    public func request(
        _ message: DBusMessage, deadline: Duration
    ) async throws(DBusFault) -> DBusMessage {
        let id = requests.makeID()
        let due = Uptime.now() + deadline
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let call = BusCall(
                    id: id, message: message, deadline: due,
                    continuation: continuation)
                switch requests.post(.call(call)) {
                case nil:
                    // Cancelled before the call was queued: the handler's request came too early.
                    if Task.isCancelled { _ = requests.post(.cancel(id: id)) }
                case .closed:
                    continuation.resume(returning: .failure(Self.closedFault))
                case .full:
                    continuation.resume(returning: .failure(Self.fullFault))
                }
            }
        } onCancel: {
            _ = requests.post(.cancel(id: id))
        }
        return try result.get()
    }

    /// Sends a signal, a reply or an error; does not wait.
    ///
    /// - Returns: false if it was not queued: the bus is gone or too much is waiting. A message that
    ///   D-Bus does not allow is dropped.
    @discardableResult
    public func send(_ message: DBusMessage) -> Bool {
        requests.post(.send(message)) == nil
    }

    /// Asks the bus for the messages that match a rule, such as `type='signal',path='/org/bluez'`.
    public func addMatch(_ rule: String) async throws(DBusFault) {
        _ = try await callBus("AddMatch", [.string(rule)])
    }

    /// Everything that is not an answer to one of our calls: signals, and calls made to us, which
    /// want an answer by `send`. For one consumer; batches as they gather; ends with the bus.
    public func incoming() -> AsyncStream<[DBusMessage]> {
        mailbox.stream()
    }

    /// Lets patient messages gather for a while before they are handed over together, which spares
    /// their consumer a wake-up for each. Anything else is handed over at once, in order. The time
    /// of arrival is not touched.
    public func gather(
        for pause: Duration, where isPatient: @escaping @Sendable (DBusMessage) -> Bool
    ) {
        _ = requests.post(.gather(for: pause, isPatient: isPatient))
    }

    /// Hands over at once what has come by now. See ``BusConnection``.
    public func catchUp(number: UInt32) {
        _ = requests.post(.catchUp(number: number))
    }

    /// Incoming messages dropped because their consumer was too slow. A client that sees it grow
    /// has to read its state anew.
    public var incomingLost: UInt64 { mailbox.lost }

    /// Ends the connection: sends what is queued, fails what is outstanding, ends `incoming()`.
    public func close() {
        requests.close()
    }

    /// Calls a method of the bus daemon itself.
    func callBus(
        _ member: String, _ arguments: [DBusValue], deadline: Duration = busCallDeadline
    ) async throws(DBusFault) -> [DBusValue] {
        try await call(
            destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus", member: member, arguments: arguments,
            deadline: deadline)
    }

    private static let closedFault = DBusFault(
        name: DBusFault.disconnected, text: "the bus connection has ended")
    private static let fullFault = DBusFault(
        name: DBusFault.limitsExceeded, text: "too many requests wait for the bus")
}
