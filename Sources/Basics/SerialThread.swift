import Dispatch

/// The executor of an actor that waits for a disk: a serial dispatch queue of its own, so that a card that
/// takes a second over one write does not hold up a thread of Swift's shared pool.
public final class SerialThread: SerialExecutor {
    private let queue: DispatchQueue

    /// - Parameter label: what a debugger shows.
    public init(label: String) { queue = DispatchQueue(label: label) }

    /// Runs the job after those before it.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}
