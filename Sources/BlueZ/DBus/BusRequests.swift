import Basics
import CBlueZ
import Synchronization

/// The requests of other threads to the bus thread.
enum BusRequest: Sendable {
    case call(BusCall)
    case cancel(id: UInt64)
    case send(DBusMessage)
    case gather(for: Duration, isPatient: @Sendable (DBusMessage) -> Bool)
    case catchUp(number: UInt32)
}

/// A method call on its way, and whom to wake with the answer.
struct BusCall: Sendable {
    let id: UInt64
    let message: DBusMessage
    let deadline: Uptime
    let continuation: CheckedContinuation<Result<DBusMessage, DBusFault>, Never>
}

/// The bounded queue into the bus thread, with the waker that ends its sleep.
final class BusRequests: Sendable {
    /// Requests waiting at most. The thread takes them all at each turn, so only a flood fills it.
    static let waitingMax = 16_384

    private struct State {
        var waiting: [BusRequest] = []
        /// Asked to end, or has ended.
        var isClosed = false
        var nextID: UInt64 = 0
    }

    private let state = Mutex(State())
    let waker: Int32

    init() throws(DBusFault) {
        waker = cbz_waker_open()
        guard waker >= 0 else {
            throw DBusFault(name: DBusFault.limitsExceeded, text: "no file descriptor is left")
        }
    }

    deinit {
        cbz_waker_close(waker)
    }

    /// Why a request was not taken.
    enum Refusal { case closed, full }

    func makeID() -> UInt64 {
        state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
    }

    /// Queues a request; returns why not, if it could not.
    func post(_ request: BusRequest) -> Refusal? {
        let (refusal, mustWake) = state.withLock { state -> (Refusal?, Bool) in
            if state.isClosed { return (.closed, false) }
            guard state.waiting.count < Self.waitingMax else { return (.full, false) }
            state.waiting.append(request)
            return (nil, state.waiting.count == 1)
        }
        if mustWake { cbz_waker_signal(waker) }
        return refusal
    }

    /// Takes everything that waits, and whether the end was asked for.
    func take() -> (requests: [BusRequest], isClosed: Bool) {
        state.withLock { state in
            let requests = state.waiting
            state.waiting = []
            return (requests, state.isClosed)
        }
    }

    /// Takes no more requests. What already waits is still carried out.
    func close() {
        state.withLock { $0.isClosed = true }
        cbz_waker_signal(waker)
    }
}
