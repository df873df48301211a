#if canImport(Glibc)
    import Glibc
#endif
#if compiler(>=6.3)
    @_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency
#else
    import CTaskHooks
#endif

/// The threads of all tasks of a program that prefer no executor, in place of Dispatch's.
public enum SharedThreads {
    /// One that waits for a disk must not hold up all; more than this have nothing to do.
    private static let threadsMax = max(2, min(4, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    fileprivate static let threads = JobThreads(label: "tasks", threadsMax: threadsMax)

    #if compiler(>=6.3)
        /// Call it before the first task of the program is made.
        public static func install() { _createExecutors(factory: Factory.self) }

        private struct Factory: ExecutorFactory {
            static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
            static let defaultExecutor: any TaskExecutor = SharedExecutor()
        }
    #else
        /// Call it before the first task of the program is made.
        public static func install() { cth_install(runNow, runLater) }
    #endif
}

#if compiler(>=6.3)
    private final class SharedExecutor: TaskExecutor, SchedulingExecutor {
        func enqueue(_ job: consuming ExecutorJob) { SharedThreads.threads.run(UnownedJob(job)) }

        func enqueue<C: Clock>(
            _ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C
        ) {
            SharedThreads.threads.run(job, at: instant, tolerance: tolerance, clock: clock)
        }
    }
#else
    private func runNow(_ job: UnsafeMutableRawPointer?) {
        guard let job else { return }
        SharedThreads.threads.run(unsafeBitCast(job, to: UnownedJob.self))
    }

    private func runLater(
        _ job: UnsafeMutableRawPointer?, _ seconds: Int64, _ nanoseconds: Int64,
        _ toleranceSeconds: Int64, _ toleranceNanoseconds: Int64, _ clock: Int32
    ) {
        guard let job else { return }
        let time = Duration.seconds(seconds) + .nanoseconds(nanoseconds)
        let tolerance = Duration.seconds(toleranceSeconds) + .nanoseconds(toleranceNanoseconds)
        SharedThreads.threads.run(
            unsafeBitCast(job, to: UnownedJob.self), at: .now() + left(to: time, clock),
            tolerance: max(.zero, tolerance))
    }

    private func left(to time: Duration, _ clock: Int32) -> Duration {
        guard clock != CTH_FROM_NOW else { return time }
        var now = timespec()
        clock_gettime(clock == CTH_SUSPENDING ? CLOCK_MONOTONIC : CLOCK_BOOTTIME, &now)
        return time - .seconds(now.tv_sec) - .nanoseconds(now.tv_nsec)
    }
#endif
