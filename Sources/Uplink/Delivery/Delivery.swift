import Basics
import OfflineQueue

/// Decides what the delivery of one enrollment does next. A value: no clock, no store, no network.
///
/// Ask ``step(_:)`` what to do, do it, and report what came of it; until then the answer is to wait,
/// so that never two requests of a delivery are under way.
public struct Delivery: Sendable {
    /// The state that a person sees.
    public enum State: Hashable, Sendable {
        /// Nothing is under way.
        case idle
        /// A request is.
        case inFlight
        /// The last attempt failed; the next is not before this uptime.
        case backoff(until: Uptime)
        /// A batch fails as a whole and is being taken apart to find the sample that spoils it.
        case halving
        /// Kept back until a person mends something; checked again at this uptime, which has passed while samples
        /// are tried.
        case held(HoldReason, nextProbe: Uptime)
    }

    /// The next step.
    public enum Step: Hashable, Sendable {
        /// Take the oldest samples, but of ``Delivery/heldPatients``, and report
        /// ``Delivery/fetched(_:patients:hasMore:arrivalsPerSecond:_:)``.
        case fetch(limit: Int)
        /// Deliver these of the fetched data points and report ``Delivery/answered(_:took:_:)``.
        case send([Int])
        /// Deliver one of them by itself and report the same.
        case sendAlone(Int)
        /// See whether the destination works and report ``Delivery/checked(isHealthy:_:)``.
        case checkHealth
        /// See whether the destination has done with a request that it gave no answer to, and report
        /// ``Delivery/checkedSilence(isOver:_:)``.
        case checkSilence
        /// See whether the reason of the hold is gone and report ``Delivery/probed(isMended:_:)``.
        case probe(HoldReason)
        /// Take this patient's oldest sample and report ``Delivery/fetched(_:patients:hasMore:arrivalsPerSecond:_:)``.
        case fetchTrial(patient: String?)
        /// See whether the reason of one patient's hold is gone and report
        /// ``Delivery/probedPatient(isMended:_:)``.
        case probePatient(String?, HoldReason)
        /// Nothing before this uptime; nil while something is under way.
        case wait(until: Uptime?)
    }

    /// Attempts in a row that delivered nothing, and for no reason that would hold samples back. A failed look after a
    /// request without an answer counts as one.
    public struct Trouble: Hashable, Sendable {
        /// When the first of them began.
        public var since: Uptime
        /// How many there were, 1 or more.
        public var attempts: Int
    }

    /// The outcome of one of the fetched data points.
    public struct Resolved: Hashable, Sendable {
        /// Its position among what was fetched.
        public var index: Int
        /// The outcome to settle it as.
        public var outcome: SettledSample.Outcome
    }

    /// A batch reaches so many times as far at most when nothing in it could be proved.
    static let roundsMax = 9

    /// Why samples are kept back.
    struct Hold {
        var reason: HoldReason
        var nextProbe: Uptime
        /// The reason seems gone. The hold ends when a sample is taken, or refused for a reason of its own: only that
        /// shows it.
        var isTried = false
    }

    enum Activity: Hashable {
        case none, fetching, checking
        case checkingSilence(since: Uptime)
        case looking(since: Uptime)
        case sending([Int], alone: Bool)
        case probing(HoldReason)
        case probingPatient(String?)
    }

    /// The numbers it goes by.
    public let settings: DeliverySettings
    var activity = Activity.none
    var batch: DeliveryBatch?
    /// More waited than was fetched last.
    var hasMore = false
    /// Whose the fetched data points are, in a delivery that serves many; else empty.
    var patientOf: [String?] = []
    var patients = PatientHolds()
    var pace: DeliveryPace
    var interval: DeliveryInterval
    var shared = SharedFetches()
    var hold: Hold?
    var notBefore = Uptime.zero
    /// Until when the exchange may still be working on a request without a clear answer. Neither the end of a
    /// hold nor a wake cuts this rest short.
    var restsUntil = Uptime.zero
    /// Whether the destination may store a sample twice that is sent while it still works on an earlier request.
    let mayRace: Bool
    /// No answer came to a request, and nothing has shown since that the destination is not at work on it still.
    /// Each request that is sent meanwhile may be one more that it carries out some day.
    var isSilent = false
    var isBackingOff = false
    /// When to look, in a long pause, whether the exchange works again.
    var nextLook: Uptime?
    var notSentInRow = 0
    var storeFailures = 0
    /// The present fault; nil after an attempt without one or that had samples held back, and once nothing waits.
    public internal(set) var trouble: Trouble?
    /// How many data points are recorded in a second, as far as those fetched tell; 0 if they do not.
    var arrivalsPerSecond = 0.0
    /// How long the last request took.
    var took = Duration.zero
    /// How often in a row nothing showed whether a sample or the exchange is at fault.
    var unprovenRounds = 0
    let choose: @Sendable (ClosedRange<Duration>) -> Duration

    /// A delivery with nothing under way; held, if it was held when the gateway stopped.
    ///
    /// - Parameters:
    ///   - settings: pauses and sizes.
    ///   - reason: why it was held.
    ///   - unansweredSince: when a request was sent at the latest of which nobody learned what became:
    ///     its samples rest as after any other unclear outcome.
    ///   - mayRace: ``Destination/mayRace``.
    ///   - choose: picks a pause out of a range: at random, gateways that lost the same
    ///     exchange at the same moment do not all come back at the same moment; by default the longest.
    public init(
        settings: DeliverySettings = DeliverySettings(), heldSince reason: HoldReason? = nil,
        unansweredSince: Uptime? = nil, mayRace: Bool = false,
        choosing choose: @escaping @Sendable (ClosedRange<Duration>) -> Duration = { $0.upperBound }
    ) {
        self.settings = settings
        self.choose = choose
        self.mayRace = mayRace
        pace = DeliveryPace(settings)
        interval = DeliveryInterval(
            shortest: settings.shortestInterval, longest: settings.interval)
        if let reason { hold = Hold(reason: reason, nextProbe: .zero) }
        if let unansweredSince { rest(unansweredSince) }
    }

    /// The state that a person sees.
    public var state: State {
        if let hold { return .held(hold.reason, nextProbe: hold.nextProbe) }
        if case .sending = activity { return .inFlight }
        if batch?.isHalving == true { return .halving }
        return isBackingOff ? .backoff(until: notBefore) : .idle
    }

    /// Why it is held, if it is.
    public var holdReason: HoldReason? { hold?.reason }

    /// Whether it is held, and not even a sample is to be tried.
    var isKeptBack: Bool { hold?.isTried == false }

    /// Patients whose samples are kept back while the others' go on; nil: of samples that name none.
    public var heldPatients: [String?: HoldReason] { patients.reasons }

    /// Largest number of samples in the next request.
    public var batchSize: Int { pace.size(arrivals: arrivalsPerSecond) }

    /// Whether samples are wanted as soon as they come: the next fetch shall find all of them committed.
    public var isBrisk: Bool { !hasMore && fetchInterval < settings.interval }

    /// From one fetch to the next, while nothing waits behind what is fetched.
    var fetchInterval: Duration {
        interval.pause(after: .zero, arrivals: arrivalsPerSecond).upperBound
    }

    /// The next step at `now`.
    public mutating func step(_ now: Uptime) -> Step {
        guard activity == .none else { return .wait(until: nil) }
        if let hold, !hold.isTried {
            guard now >= hold.nextProbe else {
                return .wait(until: hold.nextProbe)
            }
            activity = .probing(hold.reason)
            return .probe(hold.reason)
        }
        if batch?.wantsHealthCheck == true {
            activity = .checking
            return .checkHealth
        }
        if batch == nil, !isBackingOff, let step = stepOfPatients(now) { return step }
        guard now >= notBefore else {
            if isBackingOff, let nextLook {
                guard now >= nextLook else {
                    return .wait(until: min(notBefore, nextLook))
                }
                activity = .looking(since: now)
                return .checkHealth
            }
            let probe = batch == nil && !isBackingOff ? patients.nextProbe : nil
            return .wait(until: min(notBefore, probe ?? notBefore))
        }
        if isSilent {
            activity = .checkingSilence(since: now)
            return .checkSilence
        }
        if batch?.isStale == true { batch = nil }
        let size = batchSize
        guard let (indices, alone) = batch?.take(atMost: size) else {
            batch = nil
            activity = .fetching
            // One sample is enough to see whether a hold is over. A fault of the exchange, though, can be told from a
            // bad sample only by others that are taken.
            let isOneEnough = hold.map { $0.reason != .exchangeFault } ?? false
            return .fetch(
                limit: isOneEnough ? 1 : size * (1 + min(unprovenRounds, Self.roundsMax)))
        }
        activity = .sending(indices, alone: alone)
        return alone ? .sendAlone(indices[0]) : .send(indices)
    }

    private mutating func stepOfPatients(_ now: Uptime) -> Step? {
        if let patient = patients.trial {
            activity = .fetching
            return .fetchTrial(patient: patient)
        }
        guard let (patient, reason) = patients.due(now) else { return nil }
        activity = .probingPatient(patient)
        return .probePatient(patient, reason)
    }

    /// The oldest data points were fetched.
    ///
    /// - Parameters:
    ///   - outcomes: nil for those to be delivered; the others are settled without a request.
    ///   - patients: whose each is, in a delivery that serves many; nil of one that names none.
    ///   - hasMore: whether others may wait behind these; if not, the delivery rests before the next
    ///     fetch.
    ///   - arrivalsPerSecond: how many data points like these are recorded in a second; nil if that
    ///     does not follow from these.
    ///   - now: the uptime.
    public mutating func fetched(
        _ outcomes: [SettledSample.Outcome?], patients: [String?] = [], hasMore: Bool,
        arrivalsPerSecond: Double? = nil, _ now: Uptime
    ) {
        guard activity == .fetching else { return }
        if let arrivalsPerSecond { self.arrivalsPerSecond = arrivalsPerSecond }
        shared.fetched(isEmpty: outcomes.isEmpty)
        // Nothing waits for the destination any more, so nothing is kept back from it either.
        if outcomes.isEmpty, self.patients.trial == nil {
            trouble = nil
            endHold()
        }
        activity = .none
        isBackingOff = false
        patientOf = patients
        self.hasMore = hasMore && !outcomes.isEmpty
        let unresolved = outcomes.indices.filter { outcomes[$0] == nil }
        if unresolved.isEmpty, self.patients.trial != nil {
            // There is nothing to try it with.
            self.patients.endTrial()
            batch = nil
            notBefore = now
            return
        }
        // One sample does not wait for others to go with it.
        if self.patients.trial != nil { notBefore = min(notBefore, now) }
        batch = unresolved.isEmpty ? nil : DeliveryBatch(unresolved)
        if batch == nil { notBefore = self.hasMore ? now : now + settings.interval }
    }
}
