import Synchronization

/// How an asynchronous piece of work ended, for the loop that moves its time.
final class Outcome: Sendable {
    private let state = Mutex<(isDone: Bool, failure: String?)>((false, nil))

    var isDone: Bool { state.withLock { $0.isDone } }
    var failure: String? { state.withLock { $0.failure } }

    func fail(_ failure: String) async { state.withLock { $0.failure = failure } }
    func finish() async { state.withLock { $0.isDone = true } }
}
