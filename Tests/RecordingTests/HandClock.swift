import Basics
import BlueZ
import OfflineQueue
import Synchronization

/// A clock that the test sets, in seconds of uptime.
final class HandClock: GatewayClock {
    private struct Sleeper {
        let until: Uptime
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var now = Uptime.zero + .seconds(100)
        var sleepers: [Int: Sleeper] = [:]
        var lastSleeper = 0
    }

    private let state = Mutex(State())

    /// Sets the time and wakes who slept until then.
    func set(_ seconds: Double) {
        let due = state.withLock { state in
            state.now = .zero + .seconds(seconds)
            let due = state.sleepers.filter { $0.value.until <= state.now }
            for id in due.keys { state.sleepers[id] = nil }
            return due
        }
        for sleeper in due.values { sleeper.continuation.resume() }
    }

    func read() -> ClockReading {
        let uptime = state.withLock { $0.now }
        return ClockReading(
            uptime: uptime, wall: UTC(microseconds: 1_800_000_000_000_000) + (uptime - .zero),
            isTrusted: true)
    }

    /// Returns when somebody sleeps until a time later than now.
    func hasSleeper() async {
        while state.withLock({ $0.sleepers.isEmpty }) { await Task.yield() }
    }

    /// Returns when somebody sleeps until this time.
    func hasSleeper(until seconds: Double) async {
        let until = Uptime.zero + .seconds(seconds)
        while !state.withLock({ $0.sleepers.values.contains { $0.until == until } }) {
            await Task.yield()
        }
    }

    /// The same clock for the radio.
    var forCentral: UptimeClock {
        UptimeClock(now: { self.read().uptime }, sleep: { length, _ in await self.sleep(length) })
    }

    private func sleep(_ length: Duration) async {
        let id = state.withLock { state in
            state.lastSleeper += 1
            return state.lastSleeper
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    guard length > .zero, !Task.isCancelled else { return true }
                    state.sleepers[id] = Sleeper(
                        until: state.now + length, continuation: continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation.resume()
        }
    }
}
