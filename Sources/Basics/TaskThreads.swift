import Synchronization

/// A few threads for many actors that block now and then. Each actor keeps the thread that it was given, which ends with
/// the last of its actors.
///
/// As long as there never were more actors than threads, none waits for another.
public final class TaskThreads: Sendable {
    private struct Given {
        weak var thread: TaskThread?
    }

    private struct State {
        /// The one that was given longest ago is the first.
        var threads: [Given] = []
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
            state.threads.removeAll { $0.thread == nil }
            var thread: TaskThread?
            if state.threads.count == most { thread = state.threads.removeFirst().thread }
            let given = thread ?? TaskThread(label: label)
            state.threads.append(Given(thread: given))
            return given
        }
    }
}
