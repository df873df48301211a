import Basics
import BlueZ
import OfflineQueue
import Synchronization
@_spi(ExperimentalCustomExecutors) import _Concurrency

/// The only thread and the only clock of the simulation: Swift's executor and a list of sleepers.
///
/// Everything asynchronous runs here, one job after the other, so that a day with the same seed is
/// the same day. Time moves on only when no task has anything left to do.
final class VirtualTime: TaskExecutor, SerialExecutor {
    private struct Sleeper {
        var due: Int64
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var now: Int64 = 0
        var jobs: [UnownedJob] = []
        var sleepers: [UInt64: Sleeper] = [:]
        var cancelled: Set<UInt64> = []
        var number: UInt64 = 0
    }

    private let state = Mutex(State())

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
    }

    /// Runs jobs until none is left.
    func settle() {
        while true {
            let jobs = state.withLock { state in
                defer { state.jobs = [] }
                return state.jobs
            }
            if jobs.isEmpty { return }
            for job in jobs { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }
    }

    /// µs since the beginning.
    var now: Int64 { state.withLock { $0.now } }

    /// When the first sleeper wakes.
    var nextDue: Int64? { state.withLock { $0.sleepers.values.map(\.due).min() } }

    /// Moves the time on and wakes who is due.
    func advance(to time: Int64) {
        let due = state.withLock { state in
            state.now = max(state.now, time)
            let due = state.sleepers.filter { $0.value.due <= time }
            for number in due.keys { state.sleepers[number] = nil }
            return due.sorted { ($0.value.due, $0.key) < ($1.value.due, $1.key) }
        }
        for (_, sleeper) in due { sleeper.continuation.resume() }
    }

    /// Sleeps in virtual time; returns early when the task is cancelled.
    func sleep(_ duration: Duration) async {
        let (seconds, attoseconds) = duration.components
        let pause = max(0, seconds * 1_000_000 + attoseconds / 1_000_000_000_000)
        let number = state.withLock { state in
            state.number += 1
            return state.number
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCancelled = state.withLock { state in
                    if state.cancelled.remove(number) != nil { return true }
                    state.sleepers[number] = Sleeper(
                        due: state.now + pause, continuation: continuation)
                    return false
                }
                if isCancelled { continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { state in
                let sleeper = state.sleepers.removeValue(forKey: number)
                if sleeper == nil { state.cancelled.insert(number) }
                return sleeper
            }
            sleeper?.continuation.resume()
        }
        state.withLock { _ = $0.cancelled.remove(number) }
    }
}

/// Makes `VirtualTime` the executor of the whole process.
struct VirtualExecutors: ExecutorFactory {
    static let time = VirtualTime()
    static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
    static var defaultExecutor: any TaskExecutor { time }

    /// Before anything asynchronous.
    static func install() { _createExecutors(factory: VirtualExecutors.self) }
}

extension UptimeClock {
    static let virtual = UptimeClock(
        now: { Uptime(microseconds: VirtualExecutors.time.now) },
        sleep: { duration, _ in await VirtualExecutors.time.sleep(duration) })
}

/// A wall clock that is wrong now and then; the uptime never is.
final class VirtualWallClock: GatewayClock {
    /// 2026-03-01T00:00:00Z, in µs.
    static let origin: Int64 = 1_772_323_200_000_000

    private let step = Mutex<Int64>(0)
    private let trusted = Mutex(false)
    let uptime = UptimeClock.virtual

    func read() -> ClockReading {
        let now = VirtualExecutors.time.now
        return ClockReading(
            uptime: Uptime(microseconds: now),
            wall: UTC(microseconds: Self.origin + now + step.withLock { $0 }),
            isTrusted: trusted.withLock { $0 })
    }

    func setStep(_ microseconds: Int64) { step.withLock { $0 = microseconds } }
    func setTrusted(_ isTrusted: Bool) { trusted.withLock { $0 = isTrusted } }
}
