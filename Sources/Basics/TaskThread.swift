#if compiler(>=6.3)
    @_spi(ExperimentalScheduling) import _Concurrency
#endif

/// Runs the tasks that prefer it one after the other, and the actors without an executor of their own that these
/// call. Tasks that hand work to each other wake a thread of Swift's shared pool each time; here they wake none.
public final class TaskThread: TaskExecutor, JobRunner {
    fileprivate let threads: JobThreads

    init(_ threads: JobThreads) { self.threads = threads }

    /// - Parameter label: what a debugger shows, of which the kernel keeps 15 bytes.
    public convenience init(label: String) {
        self.init(JobThreads(label: label, threadsMax: 1))
    }

    deinit { threads.end() }

    /// Runs the job after those before it.
    public func enqueue(_ job: consuming ExecutorJob) { threads.run(UnownedJob(job), by: self) }

    func run(_ job: UnownedJob) { job.runSynchronously(on: asUnownedTaskExecutor()) }
}

#if compiler(>=6.3)
    @_spi(ExperimentalScheduling) extension TaskThread: SchedulingExecutor {
        /// Runs the job when its time has come, for `Task.sleep`.
        public func enqueue<C: Clock>(
            _ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C
        ) {
            threads.run(job, at: instant, tolerance: tolerance, clock: clock)
        }
    }
#endif
