import Basics

/// Notices an adapter that says it scans and hears nothing at all: a value that decides what to do.
///
/// Straps out of range are normal, a radio that hears no device at all is not. The scan asks for our sensors
/// only, so before anything is done the adapter is made to listen to everyone: that alone restarts a
/// stalled scan, and one stranger's advert shows that the radio is well.
struct RadioWatch: Sendable {
    /// Silence that is borne first; a strap advertises every second or more often. Doubles with each
    /// step that did not help, because a place may really be without any other Bluetooth device.
    static let quiet = Backoff(first: .seconds(90), longest: .seconds(3_600))
    /// The same while another adapter hears a sensor and has no place for it: then it is the radio and not
    /// the room that is silent.
    static let quietAlone = Backoff(first: .seconds(30), longest: .seconds(3_600))
    /// Steps without help after which links that are up are sacrificed as well, some 12 min: other
    /// straps wait to be heard, and a power-cycle costs those that stream 10 s.
    static let stepsBesideLinks = 3
    /// How long everyone is listened to. A phone or beacon nearby is heard within seconds.
    static let everyoneTime = Duration.seconds(20)

    enum Action: Sendable, Hashable {
        case listenToEveryone
        case listenToOurs
        case powerCycle
        /// Power-cycling did not help: the controller itself is to be reset.
        case resetController
    }

    private enum Phase: Hashable {
        case ours
        case everyone
    }

    private var phase = Phase.ours
    private var isScanWanted = false
    private var quietSince = Uptime.zero
    private var steps = 0
    /// Another adapter has heard such a sensor since this one last heard a device.
    private var isHeardElsewhere = false
    /// Since when nothing was heard although everyone was listened to; nil while the radio hears.
    private(set) var silentSince: Uptime?

    /// Whether adverts of everyone are asked for.
    var listensToEveryone: Bool { phase == .everyone }

    /// When `tick` is due, if ever.
    var nextDeadline: Uptime? { isScanWanted ? quietSince + patience : nil }

    private var patience: Duration {
        switch phase {
        case .ours:
            (isHeardElsewhere ? Self.quietAlone : Self.quiet).pause(after: steps + 1)
        case .everyone: Self.everyoneTime
        }
    }

    /// The gateway begins or ends to look for sensors.
    mutating func wantScan(_ isWanted: Bool, at now: Uptime) -> Action? {
        guard isWanted != isScanWanted else { return nil }
        isScanWanted = isWanted
        quietSince = now
        isHeardElsewhere = false
        defer { phase = .ours }
        return phase == .everyone ? .listenToOurs : nil
    }

    /// An advert of any device came through.
    mutating func hear(at now: Uptime) -> Action? {
        quietSince = now
        steps = 0
        isHeardElsewhere = false
        silentSince = nil
        guard phase == .everyone else { return nil }
        phase = .ours
        return .listenToOurs
    }

    /// Another adapter heard a sensor that it has no place for.
    mutating func hearElsewhere(at now: Uptime) {
        guard isScanWanted, !isHeardElsewhere else { return }
        isHeardElsewhere = true
        steps = 0
        quietSince = now
    }

    /// bluetoothd hung: what was not heard meanwhile says nothing of the radio.
    mutating func rest(at now: Uptime) { quietSince = now }

    /// Looks at the time.
    ///
    /// - Parameter hasLinks: links of this adapter are up, which a reset would cut.
    mutating func tick(hasLinks: Bool, at now: Uptime) -> Action? {
        guard let deadline = nextDeadline, deadline <= now else { return nil }
        quietSince = now
        if phase == .ours {
            phase = .everyone
            return .listenToEveryone
        }
        phase = .ours
        silentSince = silentSince ?? now
        steps += 1
        if hasLinks, !isHeardElsewhere, steps < Self.stepsBesideLinks { return .listenToOurs }
        return steps == 1 || hasLinks ? .powerCycle : .resetController
    }
}
