import BlueZ
import GATTHeartRate
import OfflineQueue

/// What would explain it if a strap sent nothing now: a value that follows its link and its contact.
struct SilenceCause: Equatable {
    /// Nil while frames are expected. A link that nobody has told of yet waits for bluetoothd.
    private(set) var cause: GapCause? = .daemonGone
    private var isStreaming = false
    private var hasContact = true

    /// Follows the link; true if the cause changed.
    mutating func follow(_ change: LinkChange) -> Bool {
        let before = cause
        isStreaming = false
        switch change.state {
        case .streaming:
            isStreaming = true
            cause = hasContact ? nil : .noContact
        case .suspended(.adapter): cause = .adapterDown
        case .suspended(.daemon): cause = .daemonGone
        case .suspended(.outOfRange): cause = .outOfRange
        case .suspended(.adapterFull): cause = .adapterFull
        case .absent: cause = change.reason == .removed && wasUp(before) ? .linkLost : .outOfRange
        case .seen, .connecting, .resolving, .subscribing, .draining:
            // A lost strap is tried for at once; until it is heard again it is lost, not connecting.
            if change.reason == .linkLost {
                cause = .linkLost
            } else if cause != .linkLost || change.reason == .heard
                || change.state == .resolving || change.state == .subscribing
            {
                cause = .connecting
            }
        }
        return cause != before
    }

    private func wasUp(_ cause: GapCause?) -> Bool {
        cause == nil || cause == .noContact || cause == .linkLost
    }

    /// Follows what the frames say of the skin; true if the cause changed.
    mutating func follow(contact: SensorContact) -> Bool {
        let before = cause
        hasContact = contact != .notDetected
        if isStreaming { cause = hasContact ? nil : .noContact }
        return cause != before
    }
}
