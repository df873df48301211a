import Synchronization

/// A few threads for many actors that block now and then. Each actor keeps the thread that it was given.
///
/// As long as there are no more actors than threads, none waits for another.
public final class TaskThreads: Sendable {
    private struct State {
        var threads: [TaskThread] = []
        var given = 0
    }

    private let label: String
    private let most: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - label: as ``TaskThread/init(label:)`` has it.
    ///   - most: threads there are at most; each is made when it is first needed.
    public init(label: String, most: Int) {
        self.label = label
        self.most = max(1, most)
    }

    /// The thread for one more actor.
    public func next() -> TaskThread {
        state.withLock { state in
            defer { state.given += 1 }
            if state.threads.count < most {
                state.threads.append(TaskThread(label: label))
            }
            return state.threads[state.given % state.threads.count]
        }
    }
}
