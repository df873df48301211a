@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency

#if canImport(Glibc)
    import Glibc
#endif

/// Runs all tasks of a program that prefer no executor, in place of Dispatch.
public enum SharedThreads {
    /// Call it before the first task of the program is made.
    public static func install() { _createExecutors(factory: Factory.self) }

    private struct Factory: ExecutorFactory {
        static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
        static let defaultExecutor: any TaskExecutor = SharedExecutor()
    }
}

private final class SharedExecutor: TaskExecutor, SchedulingExecutor {
    private let threads = JobThreads(label: "tasks", threadsMax: threadsMax)

    /// One that waits for a disk must not hold up all; more than this have nothing to do.
    private static var threadsMax: Int { max(2, min(4, sysconf(Int32(_SC_NPROCESSORS_ONLN)))) }

    func enqueue(_ job: consuming ExecutorJob) { threads.run(job, by: NoExecutor.shared) }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C
    ) {
        threads.run(job, at: instant, tolerance: tolerance, clock: clock)
    }
}
