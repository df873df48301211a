import Basics
import Glibc
import OfflineQueue
import Synchronization
@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency

/// The only thread and the only clock of a simulation: the jobs that are to run, and who sleeps.
///
/// Everything asynchronous runs here, one job after the other, so that a world with the same seed is
/// the same world. Time moves on only when no task has anything left to do.
package final class VirtualTime: Sendable {
    private enum Awaiting {
        case continuation(CheckedContinuation<Void, Never>)
        case job(UnownedJob, VirtualExecutor)
    }

    private struct Sleeper {
        var number: UInt64
        var due: Int64
        var isOfGateway: Bool
        var awaiting: Awaiting

        func wake(_ time: VirtualTime) {
            switch awaiting {
            case .continuation(let continuation): continuation.resume()
            case .job(let job, let executor): time.add(job, executor)
            }
        }
    }

    private struct Job {
        var job: UnownedJob
        var executor: VirtualExecutor
    }

    private struct State {
        var thread: pthread_t?
        var now: Int64 = 0
        var jobs: [Job] = []
        /// The jobs before it have been taken.
        var head = 0
        /// In the order in which they wake.
        var sleepers: [Sleeper] = []
        var cancelled: Set<UInt64> = []
        var number: UInt64 = 0
        /// What a killed gateway waited for: it never comes, and nobody may be told so.
        var killed: [Sleeper] = []
        var jobsDone = 0

        mutating func add(_ sleeper: Sleeper) {
            let later = sleepers.lastIndex { $0.due <= sleeper.due }
            sleepers.insert(sleeper, at: later.map { $0 + 1 } ?? 0)
        }

        mutating func next() -> Job? {
            guard head < jobs.count else {
                jobs.removeAll(keepingCapacity: true)
                head = 0
                return nil
            }
            defer { head += 1 }
            jobsDone += 1
            return jobs[head]
        }
    }

    private let state = Mutex(State())

    /// Whether the caller runs in the simulation, and not in another thread of the process.
    var isHere: Bool {
        state.withLock { $0.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
    }

    /// What is asynchronous on the calling thread runs here from now on.
    func begin() { state.withLock { $0.thread = pthread_self() } }

    /// What is asynchronous on the calling thread runs where it would without a simulation again.
    func leave() { state.withLock { $0.thread = nil } }

    /// µs since the beginning.
    package var now: Int64 { state.withLock { $0.now } }

    /// How many jobs have run.
    package var jobsDone: Int { state.withLock { $0.jobsDone } }

    /// Begins anew at 0, with nobody left.
    package func reset() {
        kill()
        state.withLock { state in
            let thread = state.thread
            let killed = state.killed + state.sleepers
            state = State()
            state.thread = thread
            state.killed = killed
        }
    }

    fileprivate func add(_ job: UnownedJob, _ executor: VirtualExecutor) {
        state.withLock { $0.jobs.append(Job(job: job, executor: executor)) }
    }

    fileprivate func add(_ job: UnownedJob, _ executor: VirtualExecutor, after pause: Int64) {
        state.withLock { state in
            state.number += 1
            state.add(
                Sleeper(
                    number: state.number, due: state.now + max(0, pause),
                    isOfGateway: executor.isOfGateway, awaiting: .job(job, executor)))
        }
    }

    /// Runs jobs until none is left, or until `stops` says so after one of them.
    package func settle(until stops: () -> Bool = { false }) {
        while let next = state.withLock({ $0.next() }) {
            next.job.runSynchronously(on: next.executor.asUnownedTaskExecutor())
            if stops() { return }
        }
    }

    /// When the first sleeper wakes.
    package var nextDue: Int64? { state.withLock { $0.sleepers.first?.due } }

    /// Moves the clock on; who is due then sleeps until ``advance(to:)``, so that what comes from outside comes first.
    package func tick(to time: Int64) { state.withLock { $0.now = max($0.now, time) } }

    /// Moves the time on and wakes who is due.
    package func advance(to time: Int64) {
        let due = state.withLock { state in
            state.now = max(state.now, time)
            let due = state.sleepers.prefix { $0.due <= time }
            state.sleepers.removeFirst(due.count)
            return due
        }
        for sleeper in due { sleeper.wake(self) }
    }

    /// Ends the gateway as SIGKILL does: none of its jobs runs any more, and none of its sleeps ends.
    package func kill() {
        state.withLock { state in
            state.jobs = state.jobs.dropFirst(state.head).filter { !$0.executor.isOfGateway }
            state.head = 0
            state.killed += state.sleepers.filter(\.isOfGateway)
            state.sleepers = state.sleepers.filter { !$0.isOfGateway }
        }
    }

    /// Sleeps in virtual time; returns early when the task is cancelled.
    package func sleep(_ duration: Duration, isOfGateway: Bool = true) async {
        let pause = max(0, duration.wholeMicroseconds)
        let number = state.withLock { state in
            state.number += 1
            return state.number
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = state.withLock { state in
                    if state.cancelled.remove(number) != nil { return true }
                    state.add(
                        Sleeper(
                            number: number, due: state.now + pause, isOfGateway: isOfGateway,
                            awaiting: .continuation(continuation)))
                    return false
                }
                if isCancelled { continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { state in
                let index = state.sleepers.firstIndex { $0.number == number }
                if index == nil { state.cancelled.insert(number) }
                return index.map { state.sleepers.remove(at: $0) }
            }
            sleeper?.wake(self)
        }
        state.withLock { _ = $0.cancelled.remove(number) }
    }
}

extension Duration {
    fileprivate var wholeMicroseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000_000 + attoseconds / 1_000_000_000_000
    }
}

/// Lets the jobs of tasks run on a simulation's thread. What comes from another thread of the process goes where it would
/// go without it.
package final class VirtualExecutor: TaskExecutor, SerialExecutor, SchedulingExecutor {
    private let time: VirtualTime
    /// Whether its jobs end with the gateway, when that is killed.
    let isOfGateway: Bool
    /// How long the next job waits, µs.
    private let pause: @Sendable () -> Int64

    /// - Parameter pause: how long the next job waits, µs: a person's tasks are held up anywhere.
    package init(
        _ time: VirtualTime = VirtualExecutors.time, isOfGateway: Bool,
        pause: @escaping @Sendable () -> Int64 = { 0 }
    ) {
        self.time = time
        self.isOfGateway = isOfGateway
        self.pause = pause
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        guard time.isHere else { return PlatformExecutorFactory.defaultExecutor.enqueue(job) }
        let job = UnownedJob(job)
        let pause = pause()
        if pause > 0 {
            time.add(job, self, after: pause)
        } else {
            time.add(job, self)
        }
    }

    /// A wait by another clock than the gateway's would end at another time in each run.
    package func enqueue<C: Clock>(
        _ job: consuming ExecutorJob, after delay: C.Duration, tolerance: C.Duration?, clock: C
    ) {
        precondition(!time.isHere, "a wait in a simulation that does not go by the injected clock")
        Self.platform?.enqueue(job, after: delay, tolerance: tolerance, clock: clock)
    }

    package func enqueue<C: Clock>(
        _ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C
    ) {
        precondition(!time.isHere, "a wait in a simulation that does not go by the injected clock")
        Self.platform?.enqueue(job, at: instant, tolerance: tolerance, clock: clock)
    }

    private static var platform: (any SchedulingExecutor)? {
        PlatformExecutorFactory.defaultExecutor as? any SchedulingExecutor
    }
}

/// Makes a `VirtualTime` the executor of a thread.
package enum VirtualExecutors {
    private struct Factory: ExecutorFactory {
        static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
        static var defaultExecutor: any TaskExecutor { VirtualExecutors.gateway }
    }

    package static let time = VirtualTime()
    /// The gateway's, and that of whatever names no other.
    package static let gateway = VirtualExecutor(time, isOfGateway: true)
    /// Of what goes on when the gateway is killed.
    package static let world = VirtualExecutor(time, isOfGateway: false)

    /// After the last of what is asynchronous in the simulation.
    package static func leave() { time.leave() }

    /// Before anything asynchronous on the calling thread.
    package static func install() {
        time.begin()
        _createExecutors(factory: Factory.self)
    }
}

extension UptimeClock {
    /// The gateway's, in virtual time.
    package static let virtual = UptimeClock(
        now: { Uptime(microseconds: VirtualExecutors.time.now) },
        sleep: { duration, _ in await VirtualExecutors.time.sleep(duration) })
}

/// A wall clock that is wrong now and then; the uptime never is.
package final class VirtualWallClock: GatewayClock {
    /// 2026-03-01T00:00:00Z, in µs.
    package static let origin: Int64 = 1_772_323_200_000_000

    private let step = Mutex<Int64>(0)
    private let trusted: Mutex<Bool>
    package let uptime = UptimeClock.virtual
    /// As if this program had been built at the origin.
    package let credible =
        UTC(microseconds: origin)..<UTC(microseconds: origin + 5 * 366 * 86_400_000_000)

    package init(isTrusted: Bool = false) { trusted = Mutex(isTrusted) }

    package func read() -> ClockReading {
        let now = VirtualExecutors.time.now
        return ClockReading(
            uptime: Uptime(microseconds: now),
            wall: UTC(microseconds: Self.origin + now + step.withLock { $0 }),
            isTrusted: trusted.withLock { $0 })
    }

    package func setStep(_ microseconds: Int64) { step.withLock { $0 = microseconds } }
    package func setTrusted(_ isTrusted: Bool) { trusted.withLock { $0 = isTrusted } }
}
