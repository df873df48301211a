import Basics

/// Who waits for frames, and how long these may therefore gather before they are handed over. Their time of arrival is
/// taken before. Handing over costs more than a frame does: two threads wake for it.
enum FrameAudience: Sendable, Hashable {
    /// The store alone, which commits frames when they are so old at the most.
    case theStore(within: Duration)
    /// Somebody who pairs a sensor, or a link that has brought no frame yet: an interruption is over when a frame of
    /// it is stored.
    case aFirstFrame
    /// A screen that shows rates.
    case aScreen

    /// A commit takes time, too; and the store commits what is younger than its limit by this much.
    static let commitTime = Duration.milliseconds(500)
    /// Longer ones would look as if bluetoothd did nothing (``DaemonPulse``).
    static let gatherPauseMax = Duration.milliseconds(4_500)

    /// How long frames gather.
    var gatherPause: Duration {
        switch self {
        case .theStore(let age):
            min(max(age - Self.commitTime, Self.aFirstFrame.gatherPause), Self.gatherPauseMax)
        case .aFirstFrame: .milliseconds(500)
        // A rate is to be on it within half a second.
        case .aScreen: .milliseconds(100)
        }
    }
}

extension Central {
    private var audience: FrameAudience {
        if isWatched { return .aScreen }
        // Its first frame may come before the answer to the subscription.
        let isAwaited = links.values.contains {
            $0.isTemporary || $0.machine.state == .subscribing
                || ($0.machine.isStreaming && !$0.machine.hasFrame)
        }
        return isAwaited ? .aFirstFrame : .theStore(within: settings.frameAgeMax)
    }

    /// Has frames gather as long as those who wait for them allow.
    func settleAudience() {
        let audience = audience
        guard audience != gatheringFor else { return }
        gatheringFor = audience
        client?.gather(for: audience)
    }
}
