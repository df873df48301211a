import Basics

/// Notices an adapter that says it scans and hears nothing at all: a value that decides what to do.
///
/// Straps out of range are normal, a radio that hears no device at all is not. The scan asks for our sensors
/// only, so before anything is done the adapter is made to listen to everyone: that alone restarts a
/// stalled scan, and one stranger's advert shows that the radio is well. Now and then it listens to everyone in any
/// case: some sensors do not name their service in their adverts, or stop to.
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

    /// Between two such turns while sensors of ours are heard.
    static let turnPause = Duration.seconds(120)

    private enum Phase: Hashable {
        case ours
        /// Listens to everyone because nothing is heard: the first advert ends it.
        case everyone
        /// Listens to everyone for ``everyoneTime``.
        case turn
    }

    private var phase = Phase.ours
    private var isScanWanted = false
    private var quietSince = Uptime.zero
    private var steps = 0
    /// When it last listened to everyone, or began to look.
    private var everyoneAt = Uptime.zero
    /// It has heard something since it last heard nothing at all.
    private var hasHeard = false
    /// Another adapter has heard such a sensor since this one last heard a device.
    private var isHeardElsewhere = false
    /// Since when nothing was heard although everyone was listened to; nil while the radio hears.
    private(set) var silentSince: Uptime?

    /// Whether adverts of everyone are asked for.
    var listensToEveryone: Bool { phase != .ours }

    /// When `tick` is due, if ever.
    var nextDeadline: Uptime? {
        guard isScanWanted else { return nil }
        switch phase {
        case .ours: return hasHeard ? min(quietEnd, everyoneAt + Self.turnPause) : quietEnd
        case .everyone: return quietSince + Self.everyoneTime
        case .turn: return everyoneAt + Self.everyoneTime
        }
    }

    private var quietEnd: Uptime {
        quietSince + (isHeardElsewhere ? Self.quietAlone : Self.quiet).pause(after: steps + 1)
    }

    /// The gateway begins or ends to look for sensors.
    mutating func wantScan(_ isWanted: Bool, at now: Uptime) -> Action? {
        guard isWanted != isScanWanted else { return nil }
        isScanWanted = isWanted
        quietSince = now
        isHeardElsewhere = false
        everyoneAt = now
        hasHeard = false
        defer { phase = .ours }
        return listensToEveryone ? .listenToOurs : nil
    }

    /// An advert of any device came through.
    mutating func hear(at now: Uptime) -> Action? {
        quietSince = now
        steps = 0
        isHeardElsewhere = false
        silentSince = nil
        hasHeard = true
        guard phase == .everyone else { return nil }
        phase = .ours
        everyoneAt = now
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
        switch phase {
        case .ours:
            phase = quietEnd > now ? .turn : .everyone
            everyoneAt = now
            if phase == .everyone {
                quietSince = now
                hasHeard = false
            }
            return .listenToEveryone
        case .turn:
            phase = .ours
            everyoneAt = now
            return .listenToOurs
        case .everyone: break
        }
        quietSince = now
        phase = .ours
        silentSince = silentSince ?? now
        steps += 1
        if hasLinks, !isHeardElsewhere, steps < Self.stepsBesideLinks { return .listenToOurs }
        return steps == 1 || hasLinks ? .powerCycle : .resetController
    }
}
