import CGlibc
import Synchronization

#if canImport(Glibc)
    import Glibc
#endif

/// A thread that runs tasks which prefer it, and actors whose executor it is, one job after the other.
///
/// Swift's shared pool wakes a thread for each job and several for each timer. This thread waits for jobs and for the
/// next end of a sleep in one call, and a job that a job brings about runs after it without a wake-up. An actor that
/// blocks, on a disk for example, runs on another one than those that must not wait.
public final class TaskThread: TaskExecutor, SerialExecutor {
    private let loop: Loop

    /// - Parameter label: what a debugger shows, of which the kernel keeps 15 bytes.
    public init(label: String) { loop = Loop(label: label) }

    deinit { loop.end() }

    /// The machine's clock. Its sleeps end on this thread.
    public var clock: UptimeClock {
        UptimeClock(now: { .now() }, sleep: { [loop] in await loop.sleep($0, tolerance: $1) })
    }

    /// Runs the job after those before it.
    public func enqueue(_ job: consuming ExecutorJob) { loop.add(UnownedJob(job), for: self) }

    fileprivate func run(_ job: UnownedJob) {
        job.runSynchronously(
            isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
    }
}

/// The state that the thread shares with others. It outlives its executor until the last job and sleep have ended.
private final class Loop: Sendable {
    private struct Job {
        let job: UnownedJob
        /// Kept, so that it is there while its job runs.
        let executor: TaskThread
    }

    private struct Sleeper {
        let number: UInt64
        let due: Uptime
        /// Until then it waits for others, so that one wake-up ends several sleeps.
        let latest: Uptime
        let continuation: CheckedContinuation<Void, Never>
    }

    private enum Step { case go, wait(until: Uptime?), end }

    private struct State {
        var jobs: [Job] = []
        /// In no order: there are tens.
        var sleepers: [Sleeper] = []
        var lastNumber: UInt64 = 0
        /// The thread waits, and nobody has woken it.
        var isWaiting = false
        var isEnding = false

        mutating func next(_ jobs: inout [Job], _ due: inout [Sleeper]) -> Step {
            isWaiting = false
            swap(&jobs, &self.jobs)
            if !sleepers.isEmpty {
                let now = Uptime.now()
                let place = sleepers.partition { $0.due <= now }
                due = sleepers[place...].sorted { $0.due < $1.due }
                sleepers.removeSubrange(place...)
            }
            guard jobs.isEmpty, due.isEmpty else { return .go }
            if isEnding, sleepers.isEmpty { return .end }
            isWaiting = true
            return .wait(until: sleepers.map(\.latest).min())
        }
    }

    /// Until the machine may have a thread to spare, in microseconds.
    private static let shortagePause: UInt32 = 100_000

    private let state = Mutex(State())
    /// An eventfd(2) that ends the thread's wait.
    private let waker = eventfd(0, Int32(EFD_CLOEXEC))

    init(label: String) {
        precondition(waker >= 0, "no file descriptor is left for a thread")
        while case .failure = OwnThread.start(label, { [self] in run() }) {
            // Nobody would ever run what is to run here.
            usleep(Self.shortagePause)
        }
    }

    deinit { close(waker) }

    func add(_ job: UnownedJob, for executor: TaskThread) {
        change { $0.jobs.append(Job(job: job, executor: executor)) }
    }

    func end() { change { $0.isEnding = true } }

    func sleep(_ duration: Duration, tolerance: Duration) async {
        let due = Uptime.now() + duration
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let sleeper = Sleeper(
                    number: number, due: due, latest: due + tolerance, continuation: continuation)
                change { $0.sleepers.append(sleeper) }
                // The handler may have run before there was anything to cancel.
                if Task.isCancelled { cancel(number) }
            }
        } onCancel: {
            cancel(number)
        }
    }

    private func cancel(_ number: UInt64) {
        let sleeper = state.withLock { state in
            state.sleepers.firstIndex { $0.number == number }.map { state.sleepers.remove(at: $0) }
        }
        sleeper?.continuation.resume()
    }

    private func change(_ body: (inout State) -> Void) {
        let wasWaiting = state.withLock { state in
            body(&state)
            defer { state.isWaiting = false }
            return state.isWaiting
        }
        if wasWaiting { eventfd_write(waker, 1) }
    }

    private func run() {
        var jobs: [Job] = []
        var due: [Sleeper] = []
        while true {
            let step = state.withLock { $0.next(&jobs, &due) }
            for sleeper in due { sleeper.continuation.resume() }
            for job in jobs { job.executor.run(job.job) }
            due.removeAll()
            jobs.removeAll(keepingCapacity: true)
            switch step {
            case .go: continue
            case .wait(let latest): wait(until: latest)
            case .end: return
            }
        }
    }

    private func wait(until latest: Uptime?) {
        var polled = pollfd(fd: waker, events: Int16(POLLIN), revents: 0)
        if let latest {
            // Rounded up, so that the thread does not wake just before its time.
            let (seconds, attoseconds) = max(.zero, latest - .now()).components
            var limit = timespec(
                tv_sec: Int(seconds),
                tv_nsec: min(Int(attoseconds / 1_000_000_000) + 1, 999_999_999))
            ppoll(&polled, 1, &limit, nil)
        } else {
            ppoll(&polled, 1, nil, nil)
        }
        var count: eventfd_t = 0
        if polled.revents != 0 { eventfd_read(waker, &count) }
    }
}
