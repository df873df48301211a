import Basics
import CBlueZ

#if canImport(Glibc)
    import Glibc
#endif

/// The one thread that touches libdbus: sends what is asked, matches answers to calls, keeps their
/// deadlines, and hands everything else over in batches.
struct BusThread {
    /// Calls without an answer at most.
    static let outstandingMax = 1024
    /// The largest message taken; a larger one ends the connection, as the specification asks.
    static let messageSizeMax = 16 << 20
    /// Messages read in one turn before requests and deadlines have their turn.
    static let messagesPerTurnMax = 512
    /// In a crowd, messages that can wait are left in the socket for so long and then read
    /// together: waking up for each costs more than reading it. Their time of arrival becomes that
    /// much later, which is less than the 30 to 50 ms between two turns of a sensor's radio.
    static let lullMilliseconds: Int32 = 25
    /// Messages that come closer than this are a crowd: eight sensors that send once a second are
    /// not, and are read at once.
    static let crowd = Duration.milliseconds(50)
    /// When a message comes in the last such part of the time in which they gather, and so near to its end, all
    /// are handed over: the thread need not wake once more for it. Of eight sensors at 1 Hz one comes so soon.
    static let earlyPart = 8
    static let earlyTime = Duration.milliseconds(150)
    /// So many are handed over though their time has not come: they take memory, and a power cut loses them.
    static let gatheredMax = 256
    /// The most reads for all that has come; fewer are enough to empty the bus. Without a limit, what keeps coming
    /// could hold the thread for ever.
    static let readsMax = 1024
    /// How long a closing connection may try to send what is still queued.
    static let farewell = Duration.milliseconds(200)

    private let bus: OpaquePointer
    private let requests: BusRequests
    private let mailbox: Mailbox<DBusMessage>
    private var reader = DBusReader()
    private var outstanding: [UInt32: BusCall] = [:]
    private var arrivals: UInt64 = 0
    /// Messages that can wait, and until when they do.
    private var gathered: [DBusMessage] = []
    private var gatheredUntil = Uptime.zero
    private var gatherTime = Duration.zero
    /// When a message that can wait was read before.
    private var gatheredAt = Uptime.zero
    private var isPatient: @Sendable (DBusMessage) -> Bool = { _ in false }

    /// Starts the thread, which opens the bus and reports the result.
    static func start(
        address: String, requests: BusRequests, mailbox: Mailbox<DBusMessage>
    ) async throws(DBusFault) {
        let result: Result<Void, DBusFault> = await withCheckedContinuation { opened in
            let started = OwnThread.start("bus") { run(address, requests, mailbox, opened) }
            if case .failure(let shortage) = started {
                let fault = DBusFault(
                    name: DBusFault.limitsExceeded, text: "no thread: \(shortage.code)")
                opened.resume(returning: .failure(fault))
            }
        }
        try result.get()
    }

    private static func run(
        _ address: String, _ requests: BusRequests, _ mailbox: Mailbox<DBusMessage>,
        _ opened: CheckedContinuation<Result<Void, DBusFault>, Never>
    ) {
        var fault = cbz_fault()
        guard let bus = cbz_bus_open(address, messageSizeMax, &fault) else {
            requests.close()
            mailbox.finish()
            opened.resume(returning: .failure(DBusFault(fault)))
            return
        }
        opened.resume(returning: .success(()))
        var thread = BusThread(bus: bus, requests: requests, mailbox: mailbox)
        thread.loop()
        thread.end()
    }

    private init(bus: OpaquePointer, requests: BusRequests, mailbox: Mailbox<DBusMessage>) {
        self.bus = bus
        self.requests = requests
        self.mailbox = mailbox
    }

    private mutating func loop() {
        while true {
            let (waiting, isClosed) = requests.take()
            for request in waiting { carryOut(request) }
            let gatheredBefore = gathered.count
            let mayHaveMore = readMessages()
            let isCrowded = gathered.count > gatheredBefore && isCrowd()
            endOverdueCalls()
            if isHandOverDue(withNew: gathered.count > gatheredBefore) { handOver() }
            if isClosed || !cbz_bus_is_open(bus) { return }
            if isCrowded, !mayHaveMore, outstanding.isEmpty {
                cbz_waker_wait(requests.waker, Self.lullMilliseconds)
            }
            wait(milliseconds: mayHaveMore ? 0 : sleepMilliseconds())
        }
    }

    private func isHandOverDue(withNew: Bool) -> Bool {
        guard gathered.count < Self.gatheredMax else { return true }
        guard !gathered.isEmpty else { return false }
        let early = withNew ? min(gatherTime / Self.earlyPart, Self.earlyTime) : .zero
        return gatheredUntil <= Uptime.now() + early
    }

    /// Whether messages that can wait follow one another closely; asked when one has come.
    private mutating func isCrowd() -> Bool {
        let now = Uptime.now()
        defer { gatheredAt = now }
        return now - gatheredAt < Self.crowd
    }

    /// Fails what is outstanding, sends what it may, and lets go of the bus.
    private mutating func end() {
        readAll()
        handOver()
        requests.close()
        for request in requests.take().requests { carryOut(request) }
        let fault = DBusFault(name: DBusFault.disconnected, text: "the bus connection has ended")
        for call in outstanding.values { call.continuation.resume(returning: .failure(fault)) }
        outstanding = [:]
        let until = Uptime.now() + Self.farewell
        while cbz_bus_is_open(bus), cbz_bus_has_output(bus), Uptime.now() < until {
            wait(milliseconds: 10)
        }
        cbz_bus_close(bus)
        mailbox.finish()
    }

    /// Reads what libdbus has, and what is in its socket, which has arrived, too; libdbus reads a few kilobytes of
    /// it at a time.
    private mutating func readAll() {
        var turns = 0
        repeat {
            while readMessages() {}
            turns += 1
            // Without the waker: its signal is for the loop, which takes the requests.
        } while turns < Self.readsMax && wait(milliseconds: 0, waker: -1)
    }

    private func wait(milliseconds: Int32) {
        wait(milliseconds: milliseconds, waker: requests.waker)
    }

    /// Whether there was something before the time was over.
    @discardableResult
    private func wait(milliseconds: Int32, waker: Int32) -> Bool {
        cbz_bus_wait(bus, waker, milliseconds)
    }

    private mutating func carryOut(_ request: BusRequest) {
        switch request {
        case .send(let message):
            _ = transmit(message)
        case .gather(let time, let isPatient):
            gatherTime = time
            self.isPatient = isPatient
            if let first = gathered.first { gatheredUntil = first.arrivedAt + time }
        case .catchUp(let number):
            readAll()
            gathered.append(.caughtUp(number))
            handOver()
        case .cancel(let id):
            // Calls outstanding are few and cancelling is rare: no second index.
            guard let (serial, call) = outstanding.first(where: { $0.value.id == id }) else {
                return
            }
            outstanding[serial] = nil
            call.continuation.resume(
                returning: .failure(DBusFault(name: DBusFault.cancelled, text: "")))
        case .call(let call):
            guard outstanding.count < Self.outstandingMax else {
                let fault = DBusFault(
                    name: DBusFault.limitsExceeded, text: "too many calls without an answer")
                call.continuation.resume(returning: .failure(fault))
                return
            }
            guard let serial = transmit(call.message) else {
                let fault = DBusFault(
                    name: DBusFault.invalidArguments,
                    text: "\(call.message.member ?? "call") cannot be written as D-Bus")
                call.continuation.resume(returning: .failure(fault))
                return
            }
            outstanding[serial] = call
        }
    }

    private func transmit(_ message: DBusMessage) -> UInt32? {
        guard let raw = DBusWriter.encode(message) else { return nil }
        defer { cbz_message_free(raw) }
        let serial = cbz_bus_send(bus, raw)
        return serial == 0 ? nil : serial
    }

    /// Reads what has come; true if more may be waiting.
    private mutating func readMessages() -> Bool {
        var messages: [DBusMessage] = []
        var count = 0
        while count < Self.messagesPerTurnMax, let raw = cbz_bus_pop(bus) {
            count += 1
            let outcome = reader.read(raw, at: Uptime.now())
            cbz_message_free(raw)
            switch outcome {
            case .message(let message): messages.append(message)
            case .tooLarge(let message): refuse(message)
            case .ignored: continue
            }
        }
        take(messages)
        return count == Self.messagesPerTurnMax
    }

    /// Numbers what has come, answers calls with it and gathers the rest.
    private mutating func take(_ messages: [DBusMessage]) {
        var isUrgent = false
        for var message in messages {
            arrivals += 1
            message.arrival = arrivals
            guard !answerCall(with: message) else { continue }
            if gathered.isEmpty { gatheredUntil = message.arrivedAt + gatherTime }
            isUrgent = isUrgent || !isPatient(message)
            gathered.append(message)
        }
        if isUrgent { handOver() }
    }

    private mutating func handOver() {
        mailbox.post(gathered)
        gathered.removeAll(keepingCapacity: true)
    }

    /// Gives an answer to its call; true if the message was an answer, awaited or not.
    private mutating func answerCall(with message: DBusMessage) -> Bool {
        guard message.kind == .reply || message.kind == .error else { return false }
        guard let serial = message.replySerial,
            let call = outstanding.removeValue(forKey: serial)
        else { return true }
        let result: Result<DBusMessage, DBusFault> =
            message.kind == .reply ? .success(message) : .failure(message.fault)
        call.continuation.resume(returning: result)
        return true
    }

    /// A message over our bounds: a call that waits for this answer gets an error.
    private mutating func refuse(_ message: DBusMessage) {
        let fault = DBusFault(name: DBusFault.limitsExceeded, text: "the message is too large")
        if message.kind == .call {
            _ = transmit(.error(to: message, fault))
        } else if let serial = message.replySerial,
            let call = outstanding.removeValue(forKey: serial)
        {
            call.continuation.resume(returning: .failure(fault))
        }
    }

    private mutating func endOverdueCalls() {
        guard !outstanding.isEmpty else { return }
        let now = Uptime.now()
        for (serial, call) in outstanding where call.deadline <= now {
            outstanding[serial] = nil
            let fault = DBusFault(
                name: DBusFault.noReply,
                text: "\(call.message.member ?? "call") was not answered in time")
            call.continuation.resume(returning: .failure(fault))
        }
    }

    private func sleepMilliseconds() -> Int32 {
        var next = gathered.isEmpty ? nil : gatheredUntil
        for call in outstanding.values { next = min(next ?? call.deadline, call.deadline) }
        guard let next else { return -1 }
        let left = max(.zero, next - Uptime.now())
        // Rounded up, so that the thread does not wake just before the deadline.
        return Int32(clamping: (left + .microseconds(999)).microseconds / 1000)
    }
}

extension DBusFault {
    /// From the C layer's fixed-size texts.
    fileprivate init(_ fault: cbz_fault) {
        func text<T>(_ tuple: T) -> String {
            withUnsafeBytes(of: tuple) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        }
        self.init(name: text(fault.name), text: text(fault.text))
    }
}
