/// A random generator that gives the same numbers for the same seed on every machine: SplitMix64 (Steele, Lea
/// and Flood). For jitter, simulations and tests; not for secrets.
public struct SeededRandom: RandomNumberGenerator, Sendable {
    /// The seed that repeats the sequence.
    public let seed: UInt64
    private var state: UInt64

    /// Starts a sequence.
    public init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    /// The next 64 bits.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}
