import Basics
import Logging
import OfflineQueue
import Synchronization

/// A kind of system that samples are delivered to. A value of it is one destination's settings, checked.
///
/// ``DestinationRegistry`` lists the kinds; each has a folder of its own.
public protocol DestinationKind: Sendable {
    /// Its name on the command line and in the store.
    static var name: String { get }
    /// A description, one line.
    static var summary: String { get }
    /// Its settings.
    static var fields: [SettingField] { get }
    /// The meaning of "delivered" there.
    static var promise: DeliveryPromise { get }
    /// How much goes there at a time and how often, where it matters to the kind.
    static var pace: DestinationPace { get }
    /// The remedy for a hold, where the general words of ``HoldReason`` do not say it.
    static func remedy(_ reason: HoldReason) -> String?
    /// The places for a person to look at while deliveries there fail.
    static var faultRemedy: String { get }
    /// Whether what arrives there ends at an exchange, whose patients are numbers.
    static var leadsToExchange: Bool { get }
    /// Whether it publishes under a name that a copy of this gateway would have as well.
    static var isUnderName: Bool { get }

    /// Takes settings, or says what is wrong with them and what to do.
    init(_ values: SettingValues) throws(DestinationProblem)
    /// Where it is, for a person: an address without secrets.
    var place: String { get }
    /// The part of the patient's identity that leaves the machine.
    var patientIdentity: PatientIdentity { get }
    /// The data that leaves the machine, for a person: one invented sample, without secrets.
    var example: String { get }
    /// How finely the heart rate goes there, unless a person chooses otherwise.
    var resolution: Resolution { get }
    /// Whether it mixes up patients where it gets the straps of several.
    var servesOnePatient: Bool { get }
    /// Tries all that can be tried without leaving anything there. Nothing is stored before it has passed.
    func probe(_ parts: DestinationParts) async throws(DestinationProblem) -> ProbeReport
    /// The code by which a person pairs a strap of a patient at the destination; nil if none is needed there.
    func pairingCode(sensorID: Int64, patient: String?, now: UTC) -> PairingCode?
    /// The destination itself.
    func make(_ parts: DestinationParts) -> any Destination
}

extension DestinationKind {
    /// As the gateway's settings say.
    public static var pace: DestinationPace { DestinationPace() }
    /// It is a system of its own.
    public static var leadsToExchange: Bool { false }
    /// A copy does it no harm.
    public static var isUnderName: Bool { false }
    /// A data point a frame.
    public var resolution: Resolution { .raw }
    /// It keeps straps apart.
    public var servesOnePatient: Bool { false }
    /// None is.
    public func pairingCode(sensorID: Int64, patient: String?, now: UTC) -> PairingCode? { nil }
    /// It is reached by HTTP.
    public static var faultRemedy: String { DestinationRegistry.faultRemedy }
    /// The general words do.
    public static func remedy(_ reason: HoldReason) -> String? { nil }
}

/// The code that a person's phone reads to pair a strap at a destination. It is a secret while it may be read.
public struct PairingCode: Sendable, Hashable {
    /// The text of the QR code.
    public var text: String
    /// When it is too late to read it.
    public var expires: UTC
}

/// The meaning of "delivered" at a system.
public struct DeliveryPromise: Sendable, Hashable {
    /// The state that its answer shows.
    public enum Level: String, Sendable, Hashable, CaseIterable {
        /// The data are on its disk.
        case durable
        /// It took responsibility for the data.
        case accepted
        /// Something between took the data; whether they reach their reader is not known.
        case handedOver = "handed-over"
    }

    /// The state that its answer shows.
    public var level: Level
    /// Whether a sample that is sent again, after an answer that was lost, can be seen twice.
    public var mayRepeat: Bool
    /// ``Destination/mayRace``.
    public var mayRace: Bool
    /// The same in words, one line.
    public var words: String
}

/// How much goes to a system at a time and how often; nil: as the gateway's settings say.
public struct DestinationPace: Sendable, Hashable {
    /// Most samples in a request.
    public var batch: Int?
    /// From one delivery to the next, while nothing waits behind it.
    public var interval: Duration?
    /// The interval where the other side has time, unless somebody set one; nil: it stays.
    public var shortestInterval: Duration?
    /// Before the same samples are sent again when their fate is unknown.
    public var resendPause: Duration?
}

/// The parts that a destination needs from the gateway.
public struct DestinationParts: Sendable {
    /// How servers are reached.
    public var transport: any HTTPTransport
    /// The same for servers that do not speak HTTP: authorities, client certificate, timeouts, and whether
    /// plain text is acceptable.
    public var network: CurlSettings
    /// The time.
    public var clock: any GatewayClock
    /// Where it reports to.
    public var logger: Logger
    /// The patient of samples that name none.
    public var patient: String?
    /// The tokens that ``ProbeReport/tokens`` had when the destination was added, or what was saved since.
    public var tokens: TokenRecord?
    /// While it is tried: the tokens of the destination that it takes the place of.
    public var storedTokens: TokenRecord?
    /// Puts new tokens on the disk before it returns.
    public var saveTokens: @Sendable (TokenRecord) throws -> Void

    public init(
        transport: any HTTPTransport, network: CurlSettings = CurlSettings(),
        clock: any GatewayClock, logger: Logger,
        patient: String? = nil, tokens: TokenRecord? = nil,
        saveTokens: @escaping @Sendable (TokenRecord) throws -> Void = { _ in }
    ) {
        self.transport = transport
        self.network = network
        self.clock = clock
        self.logger = logger
        self.patient = patient
        self.tokens = tokens
        self.saveTokens = saveTokens
    }
}

/// The result of trying a destination.
public struct ProbeReport: Sendable, Hashable {
    /// The properties that were tried and found well, a line each.
    public var checked: [String]
    /// The properties that could not be tried without leaving data there, a line each.
    public var unchecked: [String] = []
    /// Tokens that were granted on the way, to be stored with the secrets.
    public var tokens: TokenRecord?
}

/// All that is secret about one destination: what its file holds.
public struct DestinationSecrets: Sendable, Hashable, Codable {
    /// Where they are sent, and nowhere else (`EnrollmentTerms.origin`).
    public var place: String
    /// The secret settings by name.
    public var values: [String: Secret]
    /// The tokens in use, where there are any.
    public var tokens: TokenRecord?

    public init(place: String, values: [String: Secret], tokens: TokenRecord? = nil) {
        self.place = place
        self.values = values
        self.tokens = tokens
    }
}

extension OutgoingPoint {
    /// An invented one.
    static let example = OutgoingPoint(
        DataPoint(
            uuid: SampleIdentity(runNonce: 0x0123_4567_89AB_CDE, sample: 1).description,
            .heartRate(bpm: 72, at: UTC(microseconds: 1_795_334_400_123_000))),
        patient: "40001", sensorID: 1,
        strap: StrapDatasheet(manufacturer: "Polar Electro Oy", model: "H10"))
}

/// Keeps the tokens that were granted during a probe.
final class SavedTokens: Sendable {
    private let record = Mutex<TokenRecord?>(nil)

    var now: TokenRecord? { record.withLock { $0 } }

    func set(_ new: TokenRecord) { record.withLock { $0 = new } }
}
