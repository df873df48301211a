/// How the last commit went.
struct CommitFacts: Sendable {
    /// Why it failed; nil if it did not.
    var fault: QueueError?
    /// Whether there was no room for all of the last one that did not fail.
    var isFull = false
}
