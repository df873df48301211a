import Foundation
import Synchronization
import Testbed

/// A clock that stands still: who sleeps waits at a gate until the test opens it.
final class Gate: Sendable {
    private struct State {
        var isOpen: Bool
        var sleepers: [CheckedContinuation<Void, Never>] = []
        var arrivals = 0
        var seen = 0
        var watchers: [CheckedContinuation<Void, Never>] = []
    }
    private let state: Mutex<State>

    init(isOpen: Bool = false) { state = Mutex(State(isOpen: isOpen)) }

    /// The exchange's time with this gate in the place of sleeping.
    var time: ExchangeTime {
        ExchangeTime(
            now: { Date(timeIntervalSince1970: 1_795_000_000) }, sleep: { _ in await self.sleep() })
    }

    private func sleep() async {
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state -> [CheckedContinuation<Void, Never>] in
                if state.isOpen { return [continuation] }
                state.sleepers.append(continuation)
                state.arrivals += 1
                defer { state.watchers = [] }
                return state.watchers
            }
            for waiting in ready { waiting.resume() }
        }
    }

    /// Returns when one more sleeper has come than the last time this was asked.
    func waitUntilATaskSleeps() async {
        while true {
            let done = state.withLock { state -> Bool in
                guard state.arrivals > state.seen else { return false }
                state.seen += 1
                return true
            }
            if done { return }
            await withCheckedContinuation { continuation in
                let now = state.withLock { state -> Bool in
                    if state.arrivals > state.seen { return true }
                    state.watchers.append(continuation)
                    return false
                }
                if now { continuation.resume() }
            }
        }
    }

    func open() {
        let all = state.withLock { state in
            state.isOpen = true
            defer { state.sleepers = [] }
            return state.sleepers
        }
        for sleeper in all { sleeper.resume() }
    }
}
