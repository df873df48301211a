import Basics
import BlueZ
import Synchronization

/// The simulated bluetoothd on a bus in memory, for a client in the same process: no dbus-daemon, no
/// threads, and no time but the one that its owner moves on. A day passes in seconds.
public final class MemoryBus: Sendable {
    private static let busName = "org.freedesktop.DBus"
    private static let daemonName = ":1.0"

    private struct Waiting {
        var deadline: WorldTime
        var continuation: CheckedContinuation<Result<DBusMessage, DBusFault>, Never>
    }

    private struct Client {
        var inbox: AsyncStream<[DBusMessage]>.Continuation
        var isPatient: (@Sendable (DBusMessage) -> Bool)?
        var gatherTime = Duration.zero
        var gathered: [DBusMessage] = []
        var gatheredSince: WorldTime?
        var waiting: [UInt32: Waiting] = [:]
        var serial: UInt32 = 0
        var arrivals: UInt64 = 0
    }

    private struct State {
        var world: BluetoothWorld
        var isUp = true
        var names = 0
        var clients: [String: Client] = [:]
        /// Whose processes were killed: nobody goes on with what they waited for.
        var killed: [Client] = []
    }

    private let state: Mutex<State>

    /// bluetoothd runs from the start, at time 0.
    public init(
        adapters: [SimulatedAdapter], straps: [SimulatedStrap],
        habits: BlueZHabits = BlueZHabits(), seed: UInt64
    ) {
        var world = BluetoothWorld(
            adapters: adapters, straps: straps, habits: habits, sendsFrames: true, seed: seed)
        world.start()
        state = Mutex(State(world: world))
    }

    // MARK: Time

    /// When something is due: in the world, for a gathering, or for a call without an answer.
    public var nextDue: WorldTime? {
        state.withLock { state in
            let clients = state.clients.values
            let gathering = clients.compactMap { client in
                client.gatheredSince.map { $0 + client.gatherTime }
            }
            let deadlines = clients.flatMap { $0.waiting.values.map(\.deadline) }
            return ([state.world.nextDue].compactMap { $0 } + gathering + deadlines).min()
        }
    }

    /// Moves the time on and does what became due.
    public func advance(to time: WorldTime) {
        change { $0.advance(to: time) }
        let overdue = state.withLock { state in
            var overdue: [CheckedContinuation<Result<DBusMessage, DBusFault>, Never>] = []
            for name in state.clients.keys {
                if let client = state.clients[name], let since = client.gatheredSince,
                    since + client.gatherTime <= time
                {
                    Self.handOver(&state, to: name, [])
                }
                for (serial, call) in state.clients[name]?.waiting ?? [:]
                where call.deadline <= time {
                    state.clients[name]?.waiting[serial] = nil
                    overdue.append(call.continuation)
                }
            }
            return overdue
        }
        for call in overdue { call.resume(returning: .failure(DBusFault(name: DBusFault.noReply))) }
    }

    // MARK: Behind the scenes

    /// Changes the world, and tells the clients what comes of it.
    func change(_ change: @Sendable (inout BluetoothWorld) -> Void) {
        let answers = state.withLock { state in
            state.world.uptime = Uptime(state.world.now)
            change(&state.world)
            state.world.uptime = Uptime(state.world.now)
            return Self.deliver(&state)
        }
        for (call, result) in answers { call.resume(returning: result) }
    }

    /// Looks at the world.
    func look<Value: Sendable>(_ look: @Sendable (BluetoothWorld) -> Value) -> Value {
        state.withLock { look($0.world) }
    }

    /// Ends bluetoothd, or starts it again.
    public func setDaemon(running: Bool) {
        let isRunning = look { $0.isRunning }
        guard running != isRunning else { return }
        change { running ? $0.start() : $0.end(gracefully: false) }
        let change = DBusMessage.signal(
            path: "/org/freedesktop/DBus", interface: Self.busName, member: "NameOwnerChanged",
            body: [
                .string("org.bluez"), .string(running ? "" : Self.daemonName),
                .string(running ? Self.daemonName : ""),
            ])
        state.withLock { state in
            for name in state.clients.keys {
                Self.handOver(&state, to: name, [Self.sent(change, by: Self.busName)])
            }
        }
    }

    /// Takes the bus away, and bluetoothd with it, or brings both back.
    public func setBus(isUp: Bool) {
        if !isUp { change { $0.end(gracefully: false) } }
        let clients = state.withLock { state in
            state.isUp = isUp
            if isUp { return [Client]() }
            defer { state.clients = [:] }
            return Array(state.clients.values)
        }
        for client in clients { Self.end(client) }
        if isUp { change { if !$0.isRunning { $0.start() } } }
    }

    // MARK: Clients

    /// A client's connection.
    ///
    /// - Throws: `DBusFault.disconnected` while there is no bus.
    public func connect() throws(DBusFault) -> any BusConnection {
        let (stream, continuation) = AsyncStream<[DBusMessage]>.makeStream()
        let name = state.withLock { state -> String? in
            guard state.isUp else { return nil }
            state.names += 1
            let name = ":1.\(state.names)"
            state.clients[name] = Client(inbox: continuation)
            return name
        }
        guard let name else { throw DBusFault(name: DBusFault.disconnected) }
        return MemoryConnection(bus: self, name: name, stream: stream)
    }

    func close(_ name: String) {
        guard let client = state.withLock({ $0.clients.removeValue(forKey: name) }) else { return }
        Self.end(client)
        tellLeft(name)
    }

    /// The clients are killed: the bus tells bluetoothd, and nothing reaches them any more.
    public func killClients() {
        let names = state.withLock { state in
            let names = state.clients.keys.sorted()
            for name in names {
                state.killed += [state.clients.removeValue(forKey: name)].compactMap { $0 }
            }
            return names
        }
        for name in names { tellLeft(name) }
    }

    private func tellLeft(_ name: String) {
        let left = DBusMessage.signal(
            path: "/org/freedesktop/DBus", interface: Self.busName, member: "NameOwnerChanged",
            body: [.string(name), .string(name), .string("")])
        change { $0.receive(left) }
    }

    private static func end(_ client: Client) {
        if !client.gathered.isEmpty { client.inbox.yield(client.gathered) }
        client.inbox.finish()
        for call in client.waiting.values {
            call.continuation.resume(returning: .failure(DBusFault(name: DBusFault.disconnected)))
        }
    }

    func gather(
        of name: String, for pause: Duration,
        _ isPatient: @escaping @Sendable (DBusMessage) -> Bool
    ) {
        state.withLock {
            $0.clients[name]?.isPatient = isPatient
            $0.clients[name]?.gatherTime = pause
        }
    }

    func catchUp(of name: String, number: UInt32) {
        state.withLock { Self.handOver(&$0, to: name, [.caughtUp(number)]) }
    }

    func request(
        _ message: DBusMessage, from name: String, deadline: Duration
    ) async -> Result<DBusMessage, DBusFault> {
        if message.destination == Self.busName { return .success(answerAsBus(message)) }
        guard look({ $0.isRunning }) else {
            return .failure(DBusFault(name: "org.freedesktop.DBus.Error.ServiceUnknown"))
        }
        return await withCheckedContinuation { continuation in
            let call = state.withLock { state -> DBusMessage? in
                guard state.clients[name] != nil else { return nil }
                state.clients[name]?.serial += 1
                var call = Self.sent(message, by: name)
                call.serial = state.clients[name]?.serial ?? 0
                let due = state.world.now + deadline
                state.clients[name]?.waiting[call.serial] = Waiting(
                    deadline: due, continuation: continuation)
                return call
            }
            guard let call else {
                continuation.resume(returning: .failure(DBusFault(name: DBusFault.disconnected)))
                return
            }
            change { $0.receive(call) }
        }
    }

    func send(_ message: DBusMessage) -> Bool {
        if let number = message.replySerial {
            change { $0.agentAnswered(number, message.kind == .reply ? message.body : nil) }
        }
        return state.withLock { $0.isUp }
    }

    private func answerAsBus(_ call: DBusMessage) -> DBusMessage {
        let body: [DBusValue] =
            call.member == "GetNameOwner" && look { $0.isRunning } ? [.string(Self.daemonName)] : []
        return DBusMessage(kind: .reply, body: body)
    }

    // MARK: Delivery

    private static func sent(_ message: DBusMessage, by sender: String) -> DBusMessage {
        var message = message
        message.sender = sender
        return message
    }

    /// Puts what the world says where it belongs, in order.
    private static func deliver(_ state: inout State) -> [(
        CheckedContinuation<Result<DBusMessage, DBusFault>, Never>, Result<DBusMessage, DBusFault>
    )] {
        var answers:
            [(
                CheckedContinuation<Result<DBusMessage, DBusFault>, Never>,
                Result<DBusMessage, DBusFault>
            )] = []
        for message in state.world.takeOutbox() {
            let message = sent(message, by: daemonName)
            switch message.kind {
            case .signal:
                for name in state.clients.keys { handOver(&state, to: name, [message]) }
            case .call:
                if let name = message.destination { handOver(&state, to: name, [message]) }
            case .caughtUp:
                if let name = message.destination { handOver(&state, to: name, [message]) }
            case .reply, .error:
                guard let name = message.destination, let serial = message.replySerial,
                    let waiting = state.clients[name]?.waiting.removeValue(forKey: serial)
                else { continue }
                let answer = stamped(message, &state, name)
                let fault = DBusFault(
                    name: message.errorName ?? "", text: message.body.first?.text ?? "")
                answers.append(
                    (
                        waiting.continuation,
                        message.kind == .reply ? .success(answer) : .failure(fault)
                    )
                )
            }
        }
        return answers
    }

    private static func stamped(
        _ message: DBusMessage, _ state: inout State, _ name: String
    ) -> DBusMessage {
        state.clients[name]?.arrivals += 1
        var message = message
        message.arrival = state.clients[name]?.arrivals ?? 0
        message.arrivedAt = Uptime(state.world.now)
        return message
    }

    /// Hands messages to a client, after those that have gathered; patient ones gather.
    private static func handOver(
        _ state: inout State, to name: String, _ messages: [DBusMessage]
    ) {
        guard state.clients[name] != nil else { return }
        let messages = messages.map { stamped($0, &state, name) }
        state.clients[name]?.gathered += messages
        if let first = messages.first, state.clients[name]?.isPatient?(first) == true {
            let since = state.clients[name]?.gatheredSince ?? state.world.now
            state.clients[name]?.gatheredSince = since
            return
        }
        state.clients[name]?.gatheredSince = nil
        let batch = state.clients[name]?.gathered ?? []
        state.clients[name]?.gathered = []
        if !batch.isEmpty { state.clients[name]?.inbox.yield(batch) }
    }
}

/// A client's connection to a `MemoryBus`.
private struct MemoryConnection: BusConnection {
    let bus: MemoryBus
    let name: String
    let stream: AsyncStream<[DBusMessage]>

    var incomingLost: UInt64 { 0 }

    func request(_ message: DBusMessage, deadline: Duration) async throws(DBusFault) -> DBusMessage
    {
        try await bus.request(message, from: name, deadline: deadline).get()
    }

    func send(_ message: DBusMessage) -> Bool { bus.send(message) }

    /// Everything comes to everybody: a client must look at what it takes anyway.
    func addMatch(_ rule: String) async throws(DBusFault) {}

    func incoming() -> AsyncStream<[DBusMessage]> { stream }

    func gather(for pause: Duration, where isPatient: @escaping @Sendable (DBusMessage) -> Bool) {
        bus.gather(of: name, for: pause, isPatient)
    }

    func catchUp(number: UInt32) { bus.catchUp(of: name, number: number) }

    func close() { bus.close(name) }
}
