import Basics

/// One adapter's radio, which can scan or connect but not well do both: a value that decides which.
///
/// One connect at a time; the scan is paused before it and taken up after it. `Key` names the sensor that
/// wants to connect.
struct AdapterRadio<Key: Hashable & Sendable>: Sendable {
    /// Between the end of a scan and a connect, so that the controller is out of scanning.
    static var pause: Duration { .milliseconds(250) }
    /// First and longest pause before a scan that could not be started is tried again.
    static var retry: Backoff { Backoff(first: .seconds(1), longest: .seconds(30)) }
    /// A scan is ended and begun anew after this time: a stalled one says it is on and hears nothing.
    static var renewal: Duration { .seconds(600) }
    /// A resting time of the queue: after this many connects without a scan, one scan period is due.
    static var connectsInRowMax: Int { 4 }
    /// The scan period that is due then.
    static var scanTurn: Duration { .seconds(2) }

    enum Event: Sendable, Hashable {
        case usable(Bool)
        case wantScan(Bool)
        /// It wants to connect; one that a person waits for goes before the others.
        case request(Key, isAwaited: Bool)
        /// Not wanted any more, granted or not.
        case withdraw(Key)
        /// The connect is over. Its key may have asked for another one meanwhile.
        case done(Key)
        case scanStarted
        case scanFailed
        case scanStopped
        /// The scan is to be begun anew, because it seems deaf or with another filter.
        case renewScan
        /// bluetoothd hangs: nothing is begun until it goes on.
        case hold(Bool)
        /// A sensor that a person waits for has not been heard: scanning goes before connecting.
        case scanFirst(Bool)
        /// Discovery ended without our doing.
        case scanLost
        case tick
    }

    enum Action: Sendable, Hashable {
        case startScan
        /// Only ever asked for while a session is ours.
        case stopScan
        case grant(Key)
    }

    enum Scan: Sendable, Hashable {
        case off
        case starting
        case on
        case stopping
    }

    private(set) var scan = Scan.off
    private(set) var holder: Key?
    private(set) var queue: [Key] = []
    /// Those in the queue that a person waits for: they are its beginning.
    private var awaited: Set<Key> = []
    private var isUsable = false
    private var isScanWanted = false
    private var isHeld = false
    private var isScanFirst = false
    /// No connect before.
    private var quietUntil = Uptime.zero
    /// No scan before.
    private var retryAt = Uptime.zero
    private var backoff = Self.retry
    private var scanningSince = Uptime.zero
    private var connectsInRow = 0

    /// When a `tick` is due, if ever.
    var nextDeadline: Uptime? {
        guard isUsable, !isHeld else { return nil }
        switch scan {
        case .off:
            if holder == nil, !queue.isEmpty, !isScanTurn { return quietUntil }
            return isScanWanted && holder == nil ? retryAt : nil
        case .on:
            return queue.isEmpty || isScanFirst
                ? scanningSince + Self.renewal
                : scanningSince + Self.scanTurn
        case .starting, .stopping: return nil
        }
    }

    private var isScanTurn: Bool {
        isScanWanted && (isScanFirst || connectsInRow >= Self.connectsInRowMax)
    }

    mutating func handle(_ event: Event, at now: Uptime) -> [Action] {
        switch event {
        case .usable(let isUsable):
            guard isUsable != self.isUsable else { return [] }
            self.isUsable = isUsable
            // Sessions and attempts ended with the adapter.
            scan = .off
            holder = nil
            queue = []
            backoff.reset()
            retryAt = .zero
            connectsInRow = 0
        case .wantScan(let isWanted):
            isScanWanted = isWanted
        case .request(let key, let isAwaited):
            enqueue(key, isAwaited: isAwaited)
        case .withdraw(let key):
            queue.removeAll { $0 == key }
            if holder == key { holder = nil }
        case .done(let key):
            if holder == key { holder = nil }
        case .scanStarted:
            guard scan == .starting else { break }
            scan = .on
            scanningSince = now
            backoff.reset()
        case .scanFailed:
            guard scan == .starting else { break }
            scan = .off
            retryAt = now + backoff.next()
            connectsInRow = 0
        case .scanStopped:
            guard scan == .stopping else { break }
            scan = .off
            quietUntil = now + Self.pause
        case .renewScan:
            guard scan == .on, !isHeld else { break }
            scan = .stopping
            return isUsable ? [.stopScan] : []
        case .hold(let isHeld):
            self.isHeld = isHeld
        case .scanFirst(let isFirst):
            isScanFirst = isFirst
        case .scanLost:
            guard scan == .on else { break }
            scan = .off
            retryAt = now + Self.retry.first
        case .tick:
            break
        }
        return decide(at: now)
    }

    private mutating func enqueue(_ key: Key, isAwaited: Bool) {
        guard !queue.contains(key) || isAwaited && !awaited.contains(key) else { return }
        queue.removeAll { $0 == key }
        awaited.formIntersection(queue)
        let place = isAwaited ? queue.prefix(while: awaited.contains).count : queue.count
        queue.insert(key, at: place)
        if isAwaited { awaited.insert(key) }
    }

    private mutating func decide(at now: Uptime) -> [Action] {
        guard isUsable, !isHeld else { return [] }
        switch scan {
        case .starting, .stopping:
            return []
        case .on:
            let isTurnOver =
                connectsInRow < Self.connectsInRowMax
                || now >= scanningSince + Self.scanTurn
            let mustYield = !queue.isEmpty && isTurnOver && !isScanFirst
            let isOld = now >= scanningSince + Self.renewal
            guard mustYield || isOld || !isScanWanted else { return [] }
            if mustYield { connectsInRow = 0 }
            scan = .stopping
            return [.stopScan]
        case .off:
            guard holder == nil else { return [] }
            if !queue.isEmpty, !isScanTurn {
                guard now >= quietUntil else { return [] }
                let next = queue.removeFirst()
                holder = next
                connectsInRow += 1
                return [.grant(next)]
            }
            guard isScanWanted, now >= retryAt else { return [] }
            scan = .starting
            return [.startScan]
        }
    }
}
