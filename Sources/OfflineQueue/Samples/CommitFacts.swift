/// How the last commit went.
struct CommitFacts: Sendable {
    /// Why it failed; nil if it did not.
    var fault: QueueError?
    /// Whether the last commit that succeeded had no room for all of its frames.
    var isFull = false
}
