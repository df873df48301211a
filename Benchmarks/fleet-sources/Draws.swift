import Basics
import Synchronization
import Testbed

/// One gateway's draws.
final class Draws: Sendable {
    private let chance: Mutex<SeededRandom>

    init(seed: UInt64) { chance = Mutex(SeededRandom(seed: seed)) }

    func one(of range: ClosedRange<Int64>) -> Int64 {
        chance.withLock { Int64.random(in: range, using: &$0) }
    }
}
