import Basics

/// Who waits until all that had come when they asked has been taken.
struct CatchUpWaiters {
    /// Gets whether it has been.
    typealias Continuation = CheckedContinuation<Bool, Never>

    private var waiters: [(number: UInt32, continuation: Continuation)] = []
    /// The highest number answered: the answer may come before the one who waits for it is here.
    private var answered: UInt32 = 0

    mutating func add(_ continuation: Continuation, _ number: UInt32) {
        guard number > answered else { return continuation.resume(returning: true) }
        waiters.append((number, continuation))
    }

    /// The question with this number is answered, and all before it are.
    mutating func answer(_ number: UInt32) {
        answered = max(answered, number)
        let done = waiters.filter { $0.number <= answered }
        waiters.removeAll { $0.number <= answered }
        for waiter in done { waiter.continuation.resume(returning: true) }
    }

    /// This question is not waited for any longer.
    mutating func giveUp(_ number: UInt32) {
        guard let index = waiters.firstIndex(where: { $0.number == number }) else { return }
        waiters.remove(at: index).continuation.resume(returning: false)
    }
}
