/// Why a destination took nothing, and what to do about it. Holds no secret, so it may be logged and shown.
struct DestinationTrouble: Sendable {
    let words: String
    /// Nil: what is done about any fault of a network.
    let advice: String?

    init(_ words: String, _ advice: String? = nil) {
        self.words = words
        self.advice = advice
    }
}
