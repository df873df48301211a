import Basics

extension SeededRandom {
    /// True with the given probability, 0…1.
    mutating func happens(_ probability: Double) -> Bool {
        Double.random(in: 0..<1, using: &self) < probability
    }
}
