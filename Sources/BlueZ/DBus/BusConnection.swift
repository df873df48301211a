/// The part that a client needs of its connection to a message bus: `DBusConnection`, or a bus in memory
/// under a clock of its own.
public protocol BusConnection: Sendable {
    /// Calls a method and returns the whole answer, which tells when it arrived among the signals.
    /// After `deadline` the call fails with `DBusFault.noReply`.
    func request(_ message: DBusMessage, deadline: Duration) async throws(DBusFault) -> DBusMessage

    /// Sends a signal, a reply or an error; does not wait. False if it was not queued.
    @discardableResult
    func send(_ message: DBusMessage) -> Bool

    /// Asks the bus for the messages that match a rule, such as `type='signal',path='/org/bluez'`.
    func addMatch(_ rule: String) async throws(DBusFault)

    /// Everything that is not an answer to one of our calls. For one consumer; ends with the bus.
    func incoming() -> AsyncStream<[DBusMessage]>

    /// Lets patient messages gather for a while before they are handed over together.
    func gather(for pause: Duration, where isPatient: @escaping @Sendable (DBusMessage) -> Bool)

    /// Hands over at once all that has come by now, and after it a message of the kind `caughtUp` with this number.
    /// That never comes where the connection has ended.
    func catchUp(number: UInt32)

    /// Incoming messages dropped because their consumer was too slow.
    var incomingLost: UInt64 { get }

    /// Ends the connection, fails what is outstanding, ends `incoming()`.
    func close()
}

extension BusConnection {
    /// Who owns a well-known name; nil if no program does.
    func owner(of name: String) async throws(DBusFault) -> String? {
        do throws(DBusFault) {
            let answer = try await request(
                DBusMessage(
                    kind: .call, path: "/org/freedesktop/DBus", interface: Names.bus,
                    member: "GetNameOwner", destination: Names.bus, body: [.string(name)]),
                deadline: DBusConnection.busCallDeadline)
            return answer.body.first?.text
        } catch {
            if error.name == "org.freedesktop.DBus.Error.NameHasNoOwner" { return nil }
            throw error
        }
    }
}
