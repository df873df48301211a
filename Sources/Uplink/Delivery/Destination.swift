/// A data point on its way out.
public struct OutgoingPoint: Sendable, Hashable {
    /// What is delivered.
    public var point: DataPoint
    /// The patient it is of; nil: the enrollment's own.
    public var patient: String?
    /// The number of the sensor it came from.
    public var sensorID: Int64
    /// What that sensor says about itself.
    public var strap: StrapDatasheet

    /// A data point.
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

/// What came of one attempt to deliver data points.
public enum DeliveryAnswer: Hashable, Sendable {
    /// One answer per data point, in order.
    case entries([EntryAnswer])
    /// Certainly not taken: no connection, or no token right now. Try again at the given uptime, or
    /// soon.
    case notSent(retryAtMicroseconds: Int64?)
    /// Not taken: too many requests, or too busy.
    case throttled(retryAfterSeconds: Int64?)
    /// Not taken: the request is too large.
    case tooLarge
    /// Not taken: something in it is not as it must be.
    case malformed
    /// Nobody knows what was taken: an error, or an answer that cannot be believed.
    case unclear(String)
    /// Nobody knows what was taken: no whole answer came. As likely the network's doing as the
    /// destination's.
    case unanswered(String)
    /// Not taken, until a person mends something. Looked at again at the given uptime, or in a
    /// minute.
    case held(HoldReason, retryAtMicroseconds: Int64?)
}

/// Somewhere data points are delivered to. One request at a time; the caller waits for the answer.
public protocol Destination: Sendable {
    /// Tries once to deliver `points`. `alone` asks for the way that gives an honest reason, with a
    /// single one.
    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer
    /// Whether it is worth while to offer RR intervals, as far as is known without asking anybody.
    func mayTakeIntervals() async -> Bool
    /// Whether the destination works, apart from what is sent to it.
    func isHealthy() async -> Bool
    /// Whether the reason of a hold seems gone, so that one sample may be tried.
    func isMended(_ reason: HoldReason) async -> Bool
    /// The same for one patient's samples, which alone are held.
    func isMended(_ reason: HoldReason, of patient: String) async -> Bool
}

extension Destination {
    /// It is not.
    public func mayTakeIntervals() async -> Bool { false }

    /// Only a sample can tell.
    public func isMended(_ reason: HoldReason, of patient: String) async -> Bool { true }
}
