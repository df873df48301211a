#if canImport(Glibc)
    import Glibc
#endif

/// Runs a job of a task, in the context of an executor.
protocol JobRunner: AnyObject, Sendable {
    func run(_ job: UnownedJob)
}

/// Runs a job in the context of no executor: as Swift's own pool does, and as that part of a sleep has to run that
/// wakes the sleeper. Elsewhere it would be sent to the shared threads first.
final class NoExecutor: JobRunner {
    static let shared = NoExecutor()

    func run(_ job: UnownedJob) {
        // Two zeros are what Swift's ABI has for it (`SerialExecutorRef::generic`); no name is public.
        job.runSynchronously(on: unsafeBitCast((0, 0), to: UnownedSerialExecutor.self))
    }
}

/// Threads that run jobs of tasks, and wait for those whose time is to come.
///
/// Dispatch does this too, but wakes a thread for each timer that begins, three for each that is over, one for
/// each job, and one each second to look at the others. Here one thread waits for the next timer and for jobs
/// alike, and what a job brings about is run by its own thread after it.
///
/// - Important: `@unchecked Sendable`: ``state`` is read and written by who holds ``mutex`` alone; the pointers
///   never change, and live as long as the last thread.
final class JobThreads: @unchecked Sendable {
    private typealias Condition = UnsafeMutablePointer<pthread_cond_t>

    private struct Job {
        let job: UnownedJob
        /// Kept, so that it is there while its job runs.
        let runner: any JobRunner
    }

    /// A job for later.
    private struct Timer {
        let job: Job
        let due: Uptime
        /// By when it must run: until then it waits for others, so that one wake-up serves them all.
        let latest: Uptime
    }

    private struct State {
        /// So many jobs that have begun are kept in `jobs` at most: moving the others costs more than their memory.
        static let begunMax = 256

        /// Nil where one has begun: no executor may be released under the lock, which its end takes.
        var jobs: [Job?] = []
        /// The first that has not begun.
        var first = 0
        /// In no order: there are tens.
        var timers: [Timer] = []
        var threads: [pthread_t] = []
        /// A thread waits for the next timer.
        var hasWatch = false
        /// Another one looks from time to time.
        var hasLookout = false
        /// Wake-ups on their way to a thread.
        var isWatchCalled = false
        var othersCalled = 0
        var othersWaiting = 0
        var isEnding = false

        var hasJobs: Bool { first < jobs.count }

        mutating func next() -> Job? {
            guard hasJobs else { return nil }
            let next = jobs[first].take()
            first += 1
            if first == jobs.count {
                jobs.removeAll(keepingCapacity: true)
                first = 0
            } else if first == Self.begunMax {
                jobs.removeFirst(first)
                first = 0
            }
            return next
        }

        /// Makes jobs of the timers that are due.
        mutating func takeDue(_ now: Uptime) {
            guard timers.contains(where: { $0.due <= now }) else { return }
            let due = timers.filter { $0.due <= now }.sorted { $0.due < $1.due }
            timers.removeAll { $0.due <= now }
            jobs += due.map(\.job)
        }
    }

    /// Until the machine may have a thread to spare, in microseconds.
    private static let shortagePause: UInt32 = 100_000

    private let label: String
    private let threadsMax: Int
    private let lookPause: Duration
    private var state = State()
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let watchCondition = Condition.allocate(capacity: 1)
    private let othersCondition = Condition.allocate(capacity: 1)

    /// - Parameter label: what a debugger shows.
    /// - Parameter threadsMax: how many jobs run at a time, at least 1.
    /// - Parameter lookPause: how often a thread without work looks whether a busy one has left something: timers,
    ///   and what was to follow on its thread. Jobs that take so long are rare.
    init(label: String, threadsMax: Int, lookPause: Duration = .seconds(8)) {
        self.label = label
        self.threadsMax = threadsMax
        self.lookPause = lookPause
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(watchCondition, &attributes)
        pthread_cond_init(othersCondition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(othersCondition)
        pthread_cond_destroy(watchCondition)
        pthread_mutex_destroy(mutex)
        othersCondition.deallocate()
        watchCondition.deallocate()
        mutex.deallocate()
    }

    /// Runs a job as soon as a thread is free.
    func run(_ job: UnownedJob, by runner: any JobRunner = NoExecutor.shared) {
        pthread_mutex_lock(mutex)
        state.jobs.append(Job(job: job, runner: runner))
        // A thread of these takes the first itself, after the job that it runs now.
        unlock(signalling: !isOwn || state.jobs.count - state.first > 1 ? conditionToSignal() : nil)
    }

    /// Runs a job, which wakes a task that sleeps, when it is due, or up to `tolerance` later.
    func run(_ job: UnownedJob, at due: Uptime, tolerance: Duration) {
        let timer = Timer(
            job: Job(job: job, runner: NoExecutor.shared), due: due, latest: due + tolerance)
        pthread_mutex_lock(mutex)
        let isFirst = state.timers.allSatisfy { timer.latest < $0.latest }
        state.timers.append(timer)
        // A thread of these looks at the timers before it waits, unless another one waits already.
        unlock(signalling: isFirst && (!isOwn || state.hasWatch) ? conditionToSignal() : nil)
    }

    /// The same at an instant of a clock of the standard library.
    func run<C: Clock>(
        _ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C
    ) {
        // All of these have this kind of duration; other clocks sleep by themselves.
        let left = clock.now.duration(to: instant) as? Duration ?? .zero
        run(UnownedJob(job), at: .now() + left, tolerance: tolerance as? Duration ?? .zero)
    }

    /// Ends the threads when there are no more jobs and timers.
    func end() {
        pthread_mutex_lock(mutex)
        state.isEnding = true
        pthread_mutex_unlock(mutex)
        pthread_cond_broadcast(watchCondition)
        pthread_cond_broadcast(othersCondition)
    }

    // MARK: - Threads

    private var isOwn: Bool { state.threads.contains(pthread_self()) }

    /// What to signal so that another thread takes the next job; nil if none waits, or if one was started.
    private func conditionToSignal() -> Condition? {
        if state.hasWatch, !state.isWatchCalled {
            state.isWatchCalled = true
            return watchCondition
        }
        if state.othersCalled < state.othersWaiting {
            state.othersCalled += 1
            return othersCondition
        }
        if state.threads.count < threadsMax {
            // Two from the first job on: the second one looks after the first.
            let isFirst = state.threads.isEmpty
            begin()
            if isFirst, threadsMax > 1 { begin() }
        }
        return nil
    }

    /// Lets go of the lock first: a thread that wakes needs it.
    private func unlock(signalling condition: Condition?) {
        pthread_mutex_unlock(mutex)
        if let condition { pthread_cond_signal(condition) }
    }

    private func begin() {
        while true {
            switch OwnThread.start(label, { [self] in loop() }) {
            case .success(let thread): return state.threads.append(thread)
            case .failure:
                guard state.threads.isEmpty else { return }
                // Nobody would ever run what waits.
                usleep(Self.shortagePause)
            }
        }
    }

    private func loop() {
        pthread_mutex_lock(mutex)
        while true {
            if !state.timers.isEmpty { state.takeDue(.now()) }
            if state.hasJobs {
                runNext()
                pthread_mutex_lock(mutex)
            } else if state.isEnding, state.timers.isEmpty {
                break
            } else if state.hasWatch {
                waitBehindWatch()
            } else {
                keepWatch()
            }
        }
        state.threads.removeAll { $0 == pthread_self() }
        pthread_mutex_unlock(mutex)
    }

    /// Lets go of the lock.
    private func runNext() {
        let next = state.next()
        unlock(signalling: state.hasJobs ? conditionToSignal() : nil)
        if let next { next.runner.run(next.job) }
    }

    private func keepWatch() {
        state.hasWatch = true
        state.isWatchCalled = false
        let timer = state.timers.map(\.latest).min()
        // Whether it is the only one that can look after those at work.
        let isAlone = state.othersWaiting == 0 && state.threads.count > 1
        let look = isAlone ? Uptime.now() + lookPause : nil
        wait(watchCondition, until: [timer, look].compactMap(\.self).min())
        state.hasWatch = false
        state.isWatchCalled = false
    }

    private func waitBehindWatch() {
        let isLookout = !state.hasLookout
        if isLookout { state.hasLookout = true }
        state.othersWaiting += 1
        wait(othersCondition, until: isLookout ? Uptime.now() + lookPause : nil)
        state.othersWaiting -= 1
        if isLookout {
            state.hasLookout = false
            // Another one looks while it works.
            if state.hasJobs, state.othersWaiting > 0 { pthread_cond_signal(othersCondition) }
        }
        if state.othersCalled > 0 { state.othersCalled -= 1 }
    }

    private func wait(_ condition: Condition, until time: Uptime?) {
        guard let time else {
            pthread_cond_wait(condition, mutex)
            return
        }
        let left = max(.zero, time - .now())
        var until = timespec()
        clock_gettime(CLOCK_MONOTONIC, &until)
        let (seconds, attoseconds) = left.components
        until.tv_sec += Int(seconds)
        // Rounded up, so that the thread does not wake just before its time.
        until.tv_nsec += Int(attoseconds / 1_000_000_000) + 1
        if until.tv_nsec >= 1_000_000_000 {
            until.tv_sec += 1
            until.tv_nsec -= 1_000_000_000
        }
        pthread_cond_timedwait(condition, mutex, &until)
    }
}
