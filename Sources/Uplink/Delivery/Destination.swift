import OfflineQueue

/// A data point on its way out.
public struct OutgoingPoint: Sendable, Hashable {
    /// The data point to deliver.
    public var point: DataPoint
    /// The patient it is of; nil: the enrollment's own.
    public var patient: String?
    /// The number of the sensor it came from.
    public var sensorID: Int64
    /// The sensor's facts about itself.
    public var strap: StrapDatasheet

    /// A data point of the enrollment's own patient, unless another is named.
    public init(
        _ point: DataPoint, patient: String? = nil, sensorID: Int64 = 0,
        strap: StrapDatasheet = StrapDatasheet()
    ) {
        self.point = point
        self.patient = patient
        self.sensorID = sensorID
        self.strap = strap
    }
}

/// The outcome of an entry of the gap ledger.
public enum LedgerVerdict: Sendable, Hashable {
    /// Now or before.
    case stored
    /// Not stored, and nothing more is to be expected for it.
    case refused
    /// Not stored, and is offered again.
    case waits
}

/// The outcome of entries of the gap ledger.
public enum LedgerAnswer: Hashable, Sendable {
    /// All of them are stored, now or before.
    case stored
    /// Those of the first entries; the others wait. The text says why some are not stored, in words for a person,
    /// without secrets.
    case partly([LedgerVerdict], String)
    /// No entry may be stored; fewer at a time may be. With the reason, in words for a person, without secrets.
    case tooMany(String)
    /// No entry may be stored. With the reason, in words for a person, without secrets.
    case failed(String)
    /// No entry is stored, and nothing is wrong: the destination takes no ledger yet, or the same cause keeps its
    /// samples waiting.
    case later
}

/// Somewhere data points are delivered to. One request at a time; the caller waits for the answer.
public protocol Destination: Sendable {
    /// The delivery begins: does what must not wait for the next sample.
    func begin() async
    /// Tries once to deliver `points`. `alone` asks for the way that gives an honest reason, with a
    /// single one.
    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer
    /// How long the samples' own request took in the last attempt, without the questions before it; nil: as long as the
    /// attempt. How large and how frequent requests are follows from it.
    var requestTook: Duration? { get async }
    /// Whether a sample that is sent again may be stored twice because the first request is still being worked
    /// on. If so, a note on the disk says that requests are sent, and after a crash the samples rest before
    /// they are sent again.
    var mayRace: Bool { get }
    /// Whether single patients' samples may be held back there while the others' go on.
    var servesMany: Bool { get }
    /// Whether it takes the gap ledger.
    var takesLedger: Bool { get }
    /// Most entries of the gap ledger that it is given at a time.
    var ledgerEntriesMax: Int { get }
    /// Tries once to deliver entries of the gap ledger, all of one kind. An entry that it has already changes
    /// nothing there.
    func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer
    /// Whether to offer RR intervals, of which there are some. The destination is asked if that is not known; if it
    /// does not say, they are offered.
    func mayTakeIntervals() async -> Bool
    /// Why the last attempt delivered nothing, in words for a person, without secrets and measurements;
    /// nil after one that did. Read after ``deliver(_:alone:)``, and after ``isSilenceOver()`` has answered false; what is
    /// done later may change it.
    var fault: String? { get async }
    /// The remedy for that fault, where the kind's own words do not say it.
    var faultAdvice: String? { get async }
    /// The parts that do not work there while samples are delivered, in words for a person.
    var partialFault: String? { get async }
    /// Whether it shows the gateway's state to people.
    var showsState: Bool { get }
    /// Shows the gateway's state. A state that cannot be shown is no fault of the delivery.
    func show(_ state: GatewayState) async
    /// Whether the destination works, whatever is sent to it.
    func isHealthy() async -> Bool
    /// Whether the destination has ended its work on a request that it did not answer, as far as can be seen. Where
    /// ``mayRace`` is true, the gateway asks this before it sends the same samples again.
    func isSilenceOver() async -> Bool
    /// Whether the reason of a hold seems gone, so that one sample may be tried.
    func isMended(_ reason: HoldReason) async -> Bool
    /// The same for the samples of one patient, if only those are held; nil: of those that name none.
    func isMended(_ reason: HoldReason, of patient: String?) async -> Bool
    /// The destination is about to be removed, or to get other settings: ends what it shows to others. Gives what
    /// they still see, in words for a person; nil if that is nothing.
    ///
    /// - Parameters:
    ///   - sensors: the numbers of all sensors of which it may show something, forgotten ones too.
    ///   - next: the destination that takes its place; what that shows as well stays. Nil: none does.
    func withdraw(sensors: [Int64], for next: (any DestinationKind)?) async -> String?
    /// The delivery has ended: returns when nothing is under way that must not be lost, such as a renewal of
    /// tokens.
    func finish() async
}

extension Destination {
    /// Nothing must.
    public func begin() async {}

    /// It is the whole of it.
    public var requestTook: Duration? { get async { nil } }

    /// Nothing is known to fail.
    public var fault: String? { get async { nil } }

    /// They do.
    public var faultAdvice: String? { get async { nil } }

    /// All of it works.
    public var partialFault: String? { get async { nil } }

    /// It does not.
    public var showsState: Bool { false }

    /// It does not.
    public func show(_ state: GatewayState) async {}

    /// It may.
    public var mayRace: Bool { true }

    /// They may not.
    public var servesMany: Bool { false }

    /// It does not.
    public var takesLedger: Bool { false }

    /// A day of a strap that comes and goes.
    public var ledgerEntriesMax: Int { 500 }

    /// They are passed over.
    public func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer { .stored }

    /// If it works.
    public func isSilenceOver() async -> Bool { await isHealthy() }

    /// They are not.
    public func mayTakeIntervals() async -> Bool { false }

    /// It shows nothing to anybody.
    public func withdraw(sensors: [Int64], for next: (any DestinationKind)?) async -> String? {
        nil
    }

    /// Nothing is.
    public func finish() async {}

    /// Only a sample can tell.
    public func isMended(_ reason: HoldReason, of patient: String?) async -> Bool { true }
}
