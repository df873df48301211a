import Synchronization

/// A clock on which every sleep ends at once, and is remembered.
final class ImmediateClock: Clock, Sendable {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (a: Instant, b: Instant) -> Bool { a.offset < b.offset }
    }

    private let state = Mutex<(now: Instant, slept: [Duration])>((Instant(offset: .zero), []))

    var now: Instant { state.withLock(\.now) }
    var slept: [Duration] { state.withLock(\.slept) }
    let minimumResolution = Duration.nanoseconds(1)

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try Task.checkCancellation()
        state.withLock {
            $0.slept.append($0.now.duration(to: deadline))
            $0.now = deadline
        }
    }
}
