import BlueZ
import GATTHeartRate
import OfflineQueue

/// The cause that would explain a strap's silence now: a value that follows its link and its contact.
struct SilenceCause: Equatable {
    /// Nil while frames are expected. A link without any event yet waits for bluetoothd.
    var cause: GapCause? { isHung ? .daemonGone : linkCause }
    private var linkCause: GapCause? = .daemonGone
    private var isHung = false
    private var isStreaming = false
    private var hasContact = true

    /// Whether the gateway's radio could not have heard it, or had no place for it.
    var isOfGateway: Bool {
        switch cause {
        case .adapterDown, .daemonGone, .adapterFull: true
        default: false
        }
    }

    /// Follows the link; true if the cause changed.
    mutating func follow(_ change: LinkChange) -> Bool {
        let before = cause
        linkCause = followed(change)
        return cause != before
    }

    /// bluetoothd stops answering, or answers again; true if the cause changed.
    mutating func follow(isHung: Bool) -> Bool {
        let before = cause
        self.isHung = isHung
        return cause != before
    }

    private mutating func followed(_ change: LinkChange) -> GapCause? {
        let before = linkCause
        isStreaming = false
        switch change.state {
        case .streaming:
            isStreaming = true
            return hasContact ? nil : .noContact
        case .suspended(.adapter): return .adapterDown
        case .suspended(.daemon): return .daemonGone
        case .suspended(.adapterFull): return .adapterFull
        // It is heard, and no link to it lasts: it is being connected all that time.
        case .absent where change.isUnreachable, .suspended(.outOfRange) where change.isUnreachable:
            return .connecting
        case .suspended(.outOfRange): return .outOfRange
        // It was there a moment ago: its link is made anew.
        case .absent where change.reason == .noFirstFrame || change.reason == .error(.cache):
            return .connecting
        case .absent: return change.reason == .removed && wasUp(before) ? .linkLost : .outOfRange
        case .seen, .connecting, .resolving, .subscribing, .draining:
            // A lost strap is tried for at once; until it is heard again it is lost, not connecting.
            // A link that ended before a frame came over it was none.
            if change.reason == .linkLost { return wasUp(before) ? .linkLost : .connecting }
            if before != .linkLost || change.isUnreachable || change.reason == .heard
                || change.state == .resolving || change.state == .subscribing
            {
                return .connecting
            }
            return before
        }
    }

    private func wasUp(_ cause: GapCause?) -> Bool {
        cause == nil || cause == .noContact || cause == .linkLost
    }

    /// Follows the skin contact that frames report; true if the cause changed.
    mutating func follow(contact: SensorContact) -> Bool {
        let before = cause
        hasContact = contact != .notDetected
        if isStreaming { linkCause = hasContact ? nil : .noContact }
        return cause != before
    }
}

extension RateFault {
    /// The ledger's cause for frames that come without a heart rate.
    var cause: GapCause {
        switch self {
        case .unreadable: .undecodable
        case .contactLost: .noContact
        case .noPulse, .implausible: .noRate
        }
    }
}
