import Basics

/// Whether the gateway powers adapters on.
public enum PowerPolicy: String, Sendable, Hashable, CaseIterable {
    /// Any adapter that is off, however it was switched off.
    case always
    /// The gateway never touches the power of an adapter, not even to recover one that hangs.
    case never
    /// Only an adapter that the gateway itself has switched off.
    case ifOurs = "if-ours"
}

/// The power of one adapter: a value that decides when it is switched off and on.
///
/// The program that powers an adapter off owns powering it on. A call that was not answered in time may be
/// carried out all the same, minutes later, when a hung bluetoothd goes on; so the debt lasts until the
/// adapter has been on for a while after an answered power-on. bluetoothd takes calls in order: an
/// answer to that one shows that the power-off is no longer queued.
struct AdapterPower: Sendable, Hashable {
    /// The time that the kernel's own management interface needs to take a controller down.
    static let offTime = Duration.seconds(2)
    /// First and longest pause before a power-on that failed is repeated.
    static let retry = Backoff(first: .seconds(1), longest: .seconds(30))
    /// Failures that are followed by the first pause, before it begins to double. The kernel gives a
    /// controller 2 s to answer its reset; one that was just plugged into a busy machine may need several.
    static let quickTries = 5
    /// How long the adapter must have been on before the debt is settled.
    static let settledTime = Duration.seconds(60)

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
    private(set) var nextDeadline: Uptime?
    private var phase = Phase.idle
    private var isPowered: Bool?
    private var backoff = Self.retry
    private var quickTriesLeft = Self.quickTries

    init(policy: PowerPolicy, isOwed: Bool = false) {
        self.policy = policy
        // Whoever may not power on owes nothing.
        self.isOwed = isOwed && policy != .never
    }

    private var wantsOn: Bool { isOwed || policy == .always }

    mutating func handle(_ event: Event, at now: Uptime) -> Action? {
        switch event {
        case .seen(let isPowered):
            self.isPowered = isPowered
            switch phase {
            case .idle, .watching:
                if !isPowered, wantsOn { return powerOn() }
                if phase == .idle, isPowered, isOwed {
                    phase = .watching
                    nextDeadline = now + Self.settledTime
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
            nextDeadline = now + Self.offTime
            return nil
        case .onEnded(let isDone):
            guard phase == .goingOn else { return nil }
            if isDone {
                resetPause()
                phase = .watching
                nextDeadline = now + Self.settledTime
            } else {
                phase = .waiting
                nextDeadline = now + nextPause()
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
                return powerOn()
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
        resetPause()
    }

    private mutating func nextPause() -> Duration {
        guard quickTriesLeft > 0 else { return backoff.next() }
        quickTriesLeft -= 1
        return Self.retry.first
    }

    private mutating func resetPause() {
        backoff.reset()
        quickTriesLeft = Self.quickTries
    }
}
