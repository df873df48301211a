/// The executor of an actor that waits for a disk: a thread of its own, so that a card that takes a second over
/// one write does not hold up a thread of Swift's shared pool.
public final class SerialThread: SerialExecutor, JobRunner {
    private let threads: JobThreads
    /// Runs tasks that mostly call the actor on its thread, too: a call then wakes no other.
    public let tasks: TaskThread

    /// - Parameter label: what a debugger shows, of which the kernel keeps 15 bytes.
    public init(label: String) {
        threads = JobThreads(label: label, threadsMax: 1)
        tasks = TaskThread(threads)
    }

    deinit { threads.end() }

    /// Runs the job after those before it.
    public func enqueue(_ job: consuming ExecutorJob) { threads.run(UnownedJob(job), by: self) }

    func run(_ job: UnownedJob) { job.runSynchronously(on: asUnownedSerialExecutor()) }
}
