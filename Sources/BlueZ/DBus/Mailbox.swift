import Synchronization

/// A bounded box between one producer and one consumer, which takes all that has gathered at once.
///
/// A slow consumer gets larger batches, not more wake-ups; a stuck one loses the newest and the loss
/// is counted, so that memory stays bounded.
final class Mailbox<Element: Sendable>: Sendable {
    private struct State {
        var gathered: [Element] = []
        var waiter: CheckedContinuation<[Element]?, Never>?
        var isFinished = false
        var lost: UInt64 = 0
    }

    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) {
        self.capacity = capacity
    }

    /// Elements dropped because the box was full.
    var lost: UInt64 { state.withLock { $0.lost } }

    /// Puts a batch in. Elements that do not fit are dropped and counted.
    func post(_ batch: [Element]) {
        guard !batch.isEmpty else { return }
        let waiter = state.withLock { state -> CheckedContinuation<[Element]?, Never>? in
            guard !state.isFinished else { return nil }
            if let waiter = state.waiter {
                state.waiter = nil
                return waiter
            }
            let room = max(0, capacity - state.gathered.count)
            state.gathered.append(contentsOf: batch.prefix(room))
            state.lost += UInt64(max(0, batch.count - room))
            return nil
        }
        waiter?.resume(returning: batch)
    }

    /// Ends the stream: what is in the box is still delivered.
    func finish() {
        let waiter = state.withLock { state -> CheckedContinuation<[Element]?, Never>? in
            state.isFinished = true
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(returning: nil)
    }

    /// The next batch; `nil` at the end, or when the consuming task is cancelled.
    func next() async -> [Element]? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (now, displaced) = state.withLock {
                    state -> ([Element]??, CheckedContinuation<[Element]?, Never>?) in
                    if Task.isCancelled { return (.some(nil), nil) }
                    if !state.gathered.isEmpty {
                        let batch = state.gathered
                        state.gathered = []
                        return (.some(batch), nil)
                    }
                    if state.isFinished { return (.some(nil), nil) }
                    // There is one consumer; a second one takes the first one's place.
                    defer { state.waiter = continuation }
                    return (nil, state.waiter)
                }
                displaced?.resume(returning: nil)
                if let now { continuation.resume(returning: now) }
            }
        } onCancel: {
            let waiter = state.withLock { state -> CheckedContinuation<[Element]?, Never>? in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(returning: nil)
        }
    }

    /// The box as a stream, for its one consumer.
    func stream() -> AsyncStream<[Element]> {
        AsyncStream(unfolding: { await self.next() })
    }
}
