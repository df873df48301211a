import OfflineQueue

/// A step of a token's renewal at which a debug build can be made to die (``KillSwitch``). From the first
/// to the last one the old pair is dead at the exchange.
enum TokenFaultPoint: String, CaseIterable {
    /// The exchange has granted a pair, which is nowhere but in memory.
    case granted = "token-granted"
    /// The record was written beside the old one; forced to the disk; put in its place; the directory was
    /// forced to the disk.
    case written = "token-written"
    case synced = "token-synced"
    case renamed = "token-renamed"
    case directorySynced = "token-directory-synced"
    /// The new token is about to be used for the first time.
    case firstUse = "token-first-use"

    /// The process has come to this step.
    @inline(__always)
    func reach() { KillSwitch.reach(rawValue) }
}
