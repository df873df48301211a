import Basics
import Synchronization

/// A clock on which every sleep ends at once, and is remembered.
final class ImmediateClock: Sendable {
    private let state = Mutex<(now: Uptime, slept: [Duration])>((.zero, []))

    var slept: [Duration] { state.withLock(\.slept) }

    var uptime: UptimeClock {
        UptimeClock(
            now: { [self] in state.withLock(\.now) },
            sleep: { [self] duration, _ in
                if Task.isCancelled { return }
                state.withLock {
                    $0.slept.append(duration)
                    $0.now = $0.now + duration
                }
            })
    }
}
