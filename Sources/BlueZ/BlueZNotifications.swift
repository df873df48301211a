import Basics

/// How the notifications of a characteristic come.
public enum NotificationWay: String, Sendable, Hashable {
    /// As signals over the bus (`StartNotify`).
    case signal
    /// Over a socket of our own (`AcquireNotify`).
    case socket
}

/// A subscription to a characteristic.
struct Subscription: Sendable, Hashable {
    /// How its notifications come.
    var way: NotificationWay
    /// Why there is no socket, where one was wanted.
    var refusal: DBusFault?
}

/// Subscribing, by a socket or by signals.
///
/// A socket is released by closing it, never by `StopNotify`: after an `AcquireNotify` that failed,
/// bluetoothd before 5.84 crashes at `StopNotify`.
extension BlueZClient {
    /// The least MTU of a link (Core 5.4 Vol 3 Part F §3.2.8); `AcquireNotify` tells none below.
    static let mtuMin = 23
    /// How often, and after what pause, is tried again what bluetoothd refuses because it has not noticed
    /// yet that we closed a socket. It notices within milliseconds.
    private static let releaseAttempts = 10
    private static let releasePause = Duration.milliseconds(100)

    /// Subscribes over a socket if one is wanted and available, else by signals.
    func subscribe(
        _ characteristic: String, prefersSocket: Bool
    ) async throws(DBusFault) -> Subscription {
        var isReleasing = letGo(of: characteristic)
        var refusal: DBusFault?
        if prefersSocket {
            // Our own session by signals, which outlives a link, would keep us from the socket.
            if sessions.remove(characteristic) != nil { try? await stopNotify(characteristic) }
            do throws(DBusFault) {
                try await retried(while: isReleasing) { () async throws(DBusFault) in
                    try await self.acquireNotify(characteristic)
                }
                return Subscription(way: .socket)
            } catch {
                guard Self.hasNoSocket(error) else { throw error }
                // The socket that came was closed.
                isReleasing = isReleasing || error.name == DBusFault.badSocket
                refusal = error
            }
        }
        try await retried(while: isReleasing) { () async throws(DBusFault) in
            try await self.startNotify(characteristic)
        }
        sessions.insert(characteristic)
        return Subscription(way: .signal, refusal: refusal)
    }

    /// Ends this client's notifications.
    func unsubscribe(_ characteristic: String) async throws(DBusFault) {
        guard !letGo(of: characteristic) else { return }
        sessions.remove(characteristic)
        try await stopNotify(characteristic)
    }

    /// Closes all sockets; whether there were any.
    @discardableResult
    func letGoOfSockets() -> Bool {
        for number in sockets.values { connection.letGo(of: number) }
        defer { sockets = [:] }
        return !sockets.isEmpty
    }

    /// The news of a socket.
    func take(
        _ news: DBusMessage.SocketNews, _ message: DBusMessage, into events: inout [BlueZEvent]
    ) {
        let number = message.serial
        guard let path = message.path, openSockets.contains(number) else { return }
        switch news {
        case .packet:
            events.append(
                .notification(
                    characteristicPath: path, bytes: message.body.first?.byteArray ?? [],
                    arrivedAt: message.arrivedAt))
        case .full:
            events.append(.socketFull(characteristicPath: path))
        case .end:
            openSockets.remove(number)
            guard sockets[path] == number else { return }
            sockets[path] = nil
            events.append(.socketEnded(characteristicPath: path))
        }
    }

    private func letGo(of characteristic: String) -> Bool {
        guard let number = sockets.removeValue(forKey: characteristic) else { return false }
        connection.letGo(of: number)
        return true
    }

    private func acquireNotify(_ characteristic: String) async throws(DBusFault) {
        let answer = try await call(
            characteristic, Names.characteristic, "AcquireNotify", [.properties([:])],
            deadline: Self.attributeDeadline)
        guard answer.count == 2, let mtu = answer[1].integer, mtu >= Self.mtuMin else {
            throw DBusFault(
                name: DBusFault.badSocket, text: "AcquireNotify was answered with no MTU of a link")
        }
        let number = try connection.listen(to: answer[0], as: characteristic)
        sockets[characteristic] = number
        openSockets.insert(number)
    }

    /// Tries again what is not permitted while bluetoothd still counts a socket that we closed.
    private func retried(
        while isReleasing: Bool, _ attempt: () async throws(DBusFault) -> Void
    ) async throws(DBusFault) {
        for _ in 1..<(isReleasing ? Self.releaseAttempts : 1) {
            do throws(DBusFault) {
                return try await attempt()
            } catch {
                guard error.name == "org.bluez.Error.NotPermitted" else { throw error }
                await clock.sleep(Self.releasePause)
            }
        }
        try await attempt()
    }

    /// Whether an error says that there is no socket, and not that the link or bluetoothd is in trouble.
    private static func hasNoSocket(_ fault: DBusFault) -> Bool {
        if fault.name == DBusFault.badSocket { return true }
        return switch BlueZErrorClass(fault) {
        case .busy, .permission, .taken, .auth, .unknown: true
        // A bluetoothd before 5.46 has no such method; an object that is gone has none either.
        case .gone: true
        case .transientRadio, .notPowered, .slots, .cache, .daemon, .classic, .denied: false
        }
    }
}
