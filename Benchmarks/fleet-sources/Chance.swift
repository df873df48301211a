import Synchronization

/// Chance that comes out the same for the same seed: SplitMix64.
struct Chance: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// One gateway's draws.
final class Draws: Sendable {
    private let chance: Mutex<Chance>

    init(seed: UInt64) { chance = Mutex(Chance(state: seed)) }

    func one(of range: ClosedRange<Int64>) -> Int64 {
        chance.withLock { Int64.random(in: range, using: &$0) }
    }
}
