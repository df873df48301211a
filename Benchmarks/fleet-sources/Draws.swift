import Basics
import Synchronization
import Testbed

/// One gateway's draws.
final class Draws: Sendable {
    private let chance: Mutex<SeededRandom>

    init(seed: UInt64) { chance = Mutex(SeededRandom(seed: seed)) }

    func one(of range: ClosedRange<Duration>) -> Duration {
        let numbers = range.lowerBound.microseconds...range.upperBound.microseconds
        return .microseconds(chance.withLock { Int64.random(in: numbers, using: &$0) })
    }
}
