/// Whether the gateway powers adapters on.
public enum PowerPolicy: String, Sendable, Hashable, CaseIterable {
    /// Any adapter that is off, however it was switched off.
    case always
    /// The gateway never touches the power of an adapter, not even to mend one that hangs.
    case never
    /// Only an adapter that the gateway itself has switched off.
    case ifOurs = "if-ours"
}

/// The power of one adapter: a value that decides when it is switched off and on.
///
/// The program that powers an adapter off owns powering it on. A call that was not answered in time may be
/// carried out all the same, minutes later, when a hung bluetoothd goes on; so the debt lasts until the
/// adapter has been on for a while after an answered power-on. bluetoothd takes calls in order: an
/// answer to that one shows that the power-off is no longer queued. Times are `CLOCK_BOOTTIME` µs.
struct AdapterPower: Sendable, Hashable {
    /// What the kernel's own management interface needs to take a controller down.
    static let offMicroseconds: Int64 = 2_000_000
    /// First and longest pause before a power-on that failed is repeated.
    static let retryFirstMicroseconds: Int64 = 1_000_000
    static let retryMaxMicroseconds: Int64 = 30_000_000
    /// How long the adapter must have been on before the debt is settled.
    static let settledMicroseconds: Int64 = 60_000_000

    enum Event: Sendable, Hashable {
        case seen(isPowered: Bool)
        /// The adapter hangs: off and on again.
        case cycle
        /// The power-off was answered, refused, or not answered in time.
        case offEnded
        case onEnded(isDone: Bool)
        case tick
    }

    enum Action: Sendable, Hashable {
        case powerOff
        case powerOn
    }

    private enum Phase: Hashable {
        case idle
        case goingOff
        /// Off, or about to be: on at the deadline.
        case pausing
        case goingOn
        /// A power-on failed: repeated at the deadline.
        case waiting
        /// On; a late power-off may still come until the deadline.
        case watching
    }

    let policy: PowerPolicy
    /// The gateway has asked for the power to be cut, and it is not yet certain that it is back.
    private(set) var isOwed: Bool
    /// When a `tick` is due, if ever.
    private(set) var nextDeadline: Int64?
    private var phase = Phase.idle
    private var isPowered: Bool?
    private var failures = 0

    init(policy: PowerPolicy, isOwed: Bool = false) {
        self.policy = policy
        self.isOwed = isOwed
    }

    private var wantsOn: Bool { policy != .never && (isOwed || policy == .always) }

    mutating func handle(_ event: Event, at now: Int64) -> Action? {
        switch event {
        case .seen(let isPowered):
            self.isPowered = isPowered
            switch phase {
            case .idle, .watching:
                if !isPowered, wantsOn { return powerOn() }
                if phase == .idle, isPowered, isOwed {
                    phase = .watching
                    nextDeadline = now + Self.settledMicroseconds
                }
                return nil
            case .goingOff, .pausing, .goingOn, .waiting: return nil
            }
        case .cycle:
            guard policy != .never, phase == .idle || phase == .watching else { return nil }
            isOwed = true
            phase = .goingOff
            nextDeadline = nil
            return .powerOff
        case .offEnded:
            guard phase == .goingOff else { return nil }
            phase = .pausing
            nextDeadline = now + Self.offMicroseconds
            return nil
        case .onEnded(let isDone):
            guard phase == .goingOn else { return nil }
            if isDone {
                failures = 0
                phase = .watching
                nextDeadline = now + Self.settledMicroseconds
            } else {
                let pause = Self.retryFirstMicroseconds << Int64(min(failures, 5))
                failures += 1
                phase = .waiting
                nextDeadline = now + min(pause, Self.retryMaxMicroseconds)
            }
            return nil
        case .tick:
            guard let nextDeadline, nextDeadline <= now else { return nil }
            switch phase {
            case .pausing: return powerOn()
            case .waiting:
                if isPowered == true, !isOwed {
                    rest()
                    return nil
                }
                return powerOn()
            case .watching:
                guard isPowered != true else {
                    isOwed = false
                    rest()
                    return nil
                }
                return wantsOn ? powerOn() : nil
            case .idle, .goingOff, .goingOn: return nil
            }
        }
    }

    private mutating func powerOn() -> Action {
        phase = .goingOn
        nextDeadline = nil
        return .powerOn
    }

    private mutating func rest() {
        phase = .idle
        nextDeadline = nil
        failures = 0
    }
}
