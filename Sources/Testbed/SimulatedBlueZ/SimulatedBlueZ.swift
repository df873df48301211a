import Basics
import BlueZ

/// bluetoothd and a radio full of straps, on a private bus.
///
/// It owns `org.bluez` through a connection like any other service, so a client cannot tell it from
/// the real one by D-Bus means. Everything it does is decided by `BluetoothWorld`, a value; this
/// actor lends it the bus and the time.
public actor SimulatedBlueZ {
    /// How time passes.
    public enum Pace: Sendable {
        /// With the clock, times this factor; 1 is real time.
        case realTime(speed: Double)
        /// With the clock of a gateway whose time runs fast.
        case following(FastClock)
        /// Only by `advance(by:)`.
        case stepped
    }

    /// How bluetoothd ends.
    public enum Ending: Sendable, Hashable {
        /// As by a crash: its name goes without a word.
        case killed
        /// As by `systemctl stop`: its objects go first.
        case stopped
    }

    /// How long to wait before messages are offered to a full connection again.
    private static let fullPause = Duration.milliseconds(1)
    /// How long bluetoothd waits for an agent.
    private static let agentDeadline = Duration.seconds(60)
    /// How often a bluetoothd without a bus looks for it.
    private static let busPause = Duration.milliseconds(50)
    /// Bounds of a timer: what is due within a millisecond is done together, and what is
    /// due later than in an hour is checked again then.
    private static let timerPause = Duration.milliseconds(1)...Duration.seconds(3600)
    /// How many actions the world makes up for in one go. A machine that is too slow for the speed
    /// asked for slows the world down, and does not fall behind ever further.
    private static let catchUpActionsMax = 2000

    let address: String
    let pace: Pace
    var world: BluetoothWorld
    /// The time by the pace's clock up to which the world has been brought.
    private var caughtUp: Duration
    private var connection: DBusConnection?
    private var wantsDaemon = false
    private var waiting: [DBusMessage] = []
    private var isSending = false
    private var timer: Task<Void, Never>?
    private var timerDue: WorldTime?
    private var waiters:
        [UInt64: (isMet: Condition, continuation: CheckedContinuation<Bool, Never>)] =
            [:]
    private var waiterNumber: UInt64 = 0

    /// Something about the simulation that can be waited for.
    public typealias Condition = @Sendable (isolated SimulatedBlueZ) -> Bool

    private init(address: String, world: BluetoothWorld, pace: Pace) {
        self.address = address
        self.world = world
        self.pace = pace
        caughtUp = pace.now
    }

    /// Starts bluetoothd on a bus.
    ///
    /// - Parameters:
    ///   - bus: where `org.bluez` is to be; the name must be free there.
    ///   - adapters: the controllers that are plugged in.
    ///   - straps: the sensors in the room.
    ///   - habits: how it all behaves.
    ///   - pace: how time passes.
    ///   - sendsFrames: whether straps send of their own accord, or only by `emit`.
    ///   - seed: for what is left to chance.
    public static func start(
        on bus: PrivateBus, adapters: [SimulatedAdapter] = [SimulatedAdapter()],
        straps: [SimulatedStrap] = [], habits: BlueZHabits = BlueZHabits(),
        pace: Pace = .realTime(speed: 1), sendsFrames: Bool = true, seed: UInt64 = 1
    ) async throws(DBusFault) -> SimulatedBlueZ {
        let world = BluetoothWorld(
            adapters: adapters, straps: straps, habits: habits, sendsFrames: sendsFrames,
            seed: seed)
        let bluez = SimulatedBlueZ(address: bus.address, world: world, pace: pace)
        try await bluez.setDaemon(running: true)
        return bluez
    }

    // MARK: bluetoothd

    /// Starts bluetoothd again, or ends it. Links, sessions and strangers do not outlive it; bonds
    /// and trust do.
    public func setDaemon(running: Bool, by ending: Ending = .killed) async throws(DBusFault) {
        wantsDaemon = running
        if running {
            try await startDaemon()
        } else {
            endDaemon(gracefully: ending == .stopped)
        }
    }

    /// Ends the simulation.
    public func stop() {
        wantsDaemon = false
        endDaemon(gracefully: false)
        timer?.cancel()
        timer = nil
        for waiter in waiters.values { waiter.continuation.resume(returning: false) }
        waiters = [:]
    }

    private func startDaemon() async throws(DBusFault) {
        guard connection == nil else { return }
        let connection = try await DBusConnection.open(address: address)
        try await connection.addMatch(
            "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged'")
        guard wantsDaemon, self.connection == nil else { return connection.close() }
        self.connection = connection
        let incoming = connection.incoming()
        Task { [weak self] in
            for await batch in incoming { await self?.receive(batch) }
            await self?.connectionEnded(connection)
        }
        catchUp()
        world.start()
        do {
            try await connection.requestName(BlueZName.service)
        } catch {
            endDaemon(gracefully: false)
            throw error
        }
        flush()
    }

    private func endDaemon(gracefully: Bool) {
        catchUp()
        world.end(gracefully: gracefully)
        flush()
        connection?.close()
        connection = nil
        waiting = []
    }

    /// The bus went away under bluetoothd, which then ends; systemd starts it again, and again.
    private func connectionEnded(_ connection: DBusConnection) async {
        guard self.connection === connection else { return }
        self.connection = nil
        waiting = []
        catchUp()
        world.end(gracefully: false)
        flush()
        while wantsDaemon, self.connection == nil {
            do {
                try await startDaemon()
            } catch {
                // No bus yet.
                try? await Task.sleep(for: Self.busPause)
            }
        }
    }

    // MARK: In and out

    private func receive(_ batch: [DBusMessage]) {
        catchUp()
        for message in batch { world.receive(message) }
        flush()
    }

    /// Sends what the world has to say, sets the timer, and wakes those whose condition is met.
    func flush() {
        let messages = world.takeOutbox()
        if connection != nil { waiting += messages }
        sendWaiting()
        setTimer()
        for (number, waiter) in waiters where waiter.isMet(self) {
            waiters[number] = nil
            waiter.continuation.resume(returning: true)
        }
    }

    private func sendWaiting() {
        guard !isSending, let connection else { return }
        var sent = 0
        while sent < waiting.count, send(waiting[sent], over: connection) { sent += 1 }
        waiting.removeFirst(sent)
        guard !waiting.isEmpty else { return }
        isSending = true
        Task { [weak self] in
            try? await Task.sleep(for: Self.fullPause)
            await self?.sendAgain()
        }
    }

    /// Sends a message; an agent's answer to a call comes back to the world.
    private func send(_ message: DBusMessage, over connection: DBusConnection) -> Bool {
        guard message.kind == .call else { return connection.send(message) }
        Task { [weak self] in
            let answer = try? await connection.request(message, deadline: Self.agentDeadline)
            await self?.agentAnswered(message.serial, answer?.body)
        }
        return true
    }

    private func agentAnswered(_ number: UInt32, _ body: [DBusValue]?) {
        catchUp()
        world.agentAnswered(number, body)
        flush()
    }

    private func sendAgain() {
        isSending = false
        sendWaiting()
    }

    // MARK: Time

    /// Moves simulated time on, at the pace `stepped`.
    public func advance(by duration: Duration) {
        world.uptime = Uptime.now()
        world.advance(to: world.now + duration)
        flush()
    }

    /// Brings the world to the present.
    func catchUp() {
        world.uptime = Uptime.now()
        if case .stepped = pace { return }
        let (now, before) = (pace.now, caughtUp)
        caughtUp = now
        world.advance(
            to: world.now + (now - before) * pace.factor,
            actionsMax: Self.catchUpActionsMax)
    }

    private func setTimer() {
        let speed = pace.speed
        guard speed > 0 else { return }
        // One that goes off too early does no harm.
        guard let due = world.nextDue, timerDue.map({ due < $0 }) ?? true else { return }
        timer?.cancel()
        timerDue = due
        let pause = (due - world.now) / speed + Agenda<Never>.step
        let bounds = Self.timerPause
        timer = Task { [weak self] in
            try? await Task.sleep(
                for: min(max(pause, bounds.lowerBound), bounds.upperBound))
            if Task.isCancelled { return }
            await self?.timerFired()
        }
    }

    private func timerFired() {
        timerDue = nil
        catchUp()
        flush()
    }

    // MARK: Waiting

    /// Waits until something is true of the simulation, without polling.
    ///
    /// - Returns: false when the time was over first.
    @discardableResult
    public func wait(
        atMost limit: Duration = .seconds(120), until condition: @escaping Condition
    ) async -> Bool {
        if condition(self) { return true }
        waiterNumber += 1
        let number = waiterNumber
        let alarm = Task { [weak self] in
            try? await Task.sleep(for: limit)
            await self?.giveUp(number)
        }
        defer { alarm.cancel() }
        return await withCheckedContinuation {
            waiters[number] = (condition, $0)
        }
    }

    private func giveUp(_ number: UInt64) {
        waiters.removeValue(forKey: number)?.continuation.resume(returning: false)
    }
}

extension SimulatedBlueZ.Pace {
    /// The time by its clock.
    fileprivate var now: Duration {
        guard case .following(let clock) = self else { return Uptime.now() - .zero }
        return clock.now - FastClock.epoch
    }

    /// The length of a second of its clock in the world.
    fileprivate var factor: Double {
        guard case .realTime(let speed) = self else { return 1 }
        return speed
    }

    /// Seconds of the world in one of an idle host; 0 when none pass by themselves.
    fileprivate var speed: Double {
        switch self {
        case .realTime(let speed): speed
        case .following(let clock): Double(clock.speed)
        case .stepped: 0
        }
    }
}
