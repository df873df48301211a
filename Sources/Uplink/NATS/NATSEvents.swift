import Synchronization

/// The key by which the library's threads know a connection: a number, so that one that calls late finds nothing
/// instead of freed memory.
enum NATSRegistry {
    private struct State {
        var next: UInt = 1
        var known: [UInt: NATSEvents] = [:]
    }

    private static let state = Mutex(State())

    static func add(_ events: NATSEvents) -> UInt {
        state.withLock { state in
            defer { state.next += 1 }
            state.known[state.next] = events
            return state.next
        }
    }

    static func remove(_ token: UInt) { _ = state.withLock { $0.known.removeValue(forKey: token) } }

    static func at(_ context: UnsafeMutableRawPointer?) -> NATSEvents? {
        let token = UInt(bitPattern: context)
        return state.withLock { $0.known[token] }
    }
}

/// The events of one connection, and the tasks that wait for them.
final class NATSEvents: Sendable {
    private struct State {
        var number: UInt64 = 0
        var waiting: [UInt64: CheckedContinuation<NATSOutcome, Never>] = [:]
        var handler: (@Sendable (NATSMessage) -> Void)?
        var ending: CheckedContinuation<Void, Never>?
        var isCancelled = false
        var hasEnded = false
        var isSignatureLost = false
    }

    let key: NKey
    private let state = Mutex(State())

    init(key: NKey) { self.key = key }

    var hasEnded: Bool { state.withLock { $0.hasEnded } }

    /// Whether the library could not have sent the signature that the server wanted.
    var isSignatureLost: Bool { state.withLock { $0.isSignatureLost } }

    func loseSignature() { state.withLock { $0.isSignatureLost = true } }

    func nextNumber() -> UInt64 {
        state.withLock {
            $0.number += 1
            return $0.number
        }
    }

    func wait(for number: UInt64, _ continuation: CheckedContinuation<NATSOutcome, Never>) {
        let isOver = state.withLock { state in
            if !state.hasEnded { state.waiting[number] = continuation }
            return state.hasEnded
        }
        if isOver { continuation.resume(returning: .notSent(.cut)) }
    }

    /// Ends a request, unless it has ended.
    func end(_ number: UInt64, _ outcome: NATSOutcome) {
        let waiting = state.withLock { $0.waiting.removeValue(forKey: number) }
        waiting?.resume(returning: outcome)
    }

    func serve(_ handler: @escaping @Sendable (NATSMessage) -> Void) {
        state.withLock { $0.handler = handler }
    }

    func came(_ message: NATSMessage) {
        let handler = state.withLock { $0.handler }
        handler?(message)
    }

    /// The server has taken no request that waits now: it says at once what it does not let through.
    func forbidden() {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            return state.waiting.values.map(\.self)
        }
        for continuation in waiting { continuation.resume(returning: .notSent(.forbidden)) }
    }

    /// The connection is over: what was sent may have arrived.
    func closed() {
        let (waiting, ending) = state.withLock { state in
            defer { (state.waiting, state.ending) = ([:], nil) }
            state.hasEnded = true
            return (state.waiting.values.map(\.self), state.ending)
        }
        for continuation in waiting { continuation.resume(returning: .unanswered(.cut)) }
        ending?.resume()
    }

    func waitForEnd(_ continuation: CheckedContinuation<Void, Never>) {
        let isOver = state.withLock { state in
            let isOver = state.hasEnded || state.isCancelled || state.ending != nil
            if !isOver { state.ending = continuation }
            return isOver
        }
        if isOver { continuation.resume() }
    }

    /// Whoever waits for the end does so no longer.
    func forgetEnd() {
        let ending = state.withLock { state in
            defer { state.ending = nil }
            state.isCancelled = true
            return state.ending
        }
        ending?.resume()
    }
}
