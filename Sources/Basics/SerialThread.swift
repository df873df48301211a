import Dispatch

/// The executor of an actor that waits for a disk: a serial dispatch queue of its own, so that a card that
/// takes a second over one write does not hold up a thread of Swift's shared pool.
public final class SerialThread: SerialExecutor {
    private let queue: DispatchQueue
    /// Runs tasks that mostly call the actor on its thread, too: a call then wakes no other.
    public let tasks: TaskThread

    /// - Parameter label: what a debugger shows.
    public init(label: String) {
        queue = DispatchQueue(label: label)
        tasks = TaskThread(queue)
    }

    /// Runs the job after those before it.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}

/// Runs the tasks that prefer it one after the other, and the actors without an executor of their own that these
/// call. Tasks that hand work to each other wake a thread of Swift's shared pool each time; here they wake none.
public final class TaskThread: TaskExecutor {
    private let queue: DispatchQueue

    fileprivate init(_ queue: DispatchQueue) { self.queue = queue }

    /// - Parameter label: what a debugger shows.
    public convenience init(label: String) { self.init(DispatchQueue(label: label)) }

    /// Runs the job after those before it.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
