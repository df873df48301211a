import BlueZ

// What a service needs of its connection to a bus beside what a client needs.

extension DBusConnection {
    /// Asks for a well-known name, which this connection then owns.
    ///
    /// - Throws: `LimitsExceeded` with the bus's code if another connection owns it.
    public func requestName(_ name: String) async throws(DBusFault) {
        // 4: do not queue for it. Answers 1 (now the owner) and 4 (was already) are good.
        let answer = try await call(
            destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus", member: "RequestName",
            arguments: [.string(name), .uint32(4)], deadline: .seconds(10))
        let code = answer.first?.integer ?? 0
        guard code == 1 || code == 4 else {
            throw DBusFault(
                name: DBusFault.limitsExceeded, text: "the name \(name) is taken (\(code))")
        }
    }
}

extension DBusMessage {
    /// A signal, broadcast unless it has a destination.
    public static func signal(
        path: String, interface: String, member: String, destination: String? = nil,
        body: [DBusValue] = []
    ) -> DBusMessage {
        DBusMessage(
            kind: .signal, path: path, interface: interface, member: member,
            destination: destination, body: body)
    }
}
