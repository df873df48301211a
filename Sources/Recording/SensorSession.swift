import Basics
import GATTHeartRate
import OfflineQueue

/// Why a frame has no heart rate.
public enum RateFault: Sendable, Equatable {
    /// It cannot be decoded.
    case unreadable
    /// The sensor does not touch skin.
    case contactLost
    /// The rate is 0.
    case noPulse
    /// No heart has this rate.
    case implausible(bpm: UInt16)
}

/// The state of one worn sensor while the daemon runs: turns its frames into arrivals.
///
/// A value without I/O. A frame that cannot be decoded becomes an arrival with its fault, so that
/// it is kept and counted; nothing a sensor sends stops its stream.
public struct SensorSession: Sendable {
    /// The store's number for the sensor.
    public let sensorID: Int64
    /// Whether a rate without skin contact counts as none.
    private let needsContact: Bool

    /// The last measurement.
    public var latest: HeartRateMeasurement? { latestMeasured?.measurement }
    /// The same, and when it was sent.
    private(set) var latestMeasured: (measurement: HeartRateMeasurement, at: Uptime)?
    /// Its heart rate, bpm; nil if it has none that a heart can have.
    public var latestRate: Int? {
        latest.flatMap {
            Plausibility.judge($0).isDisjoint(with: .withoutRate) ? Int($0.bpm) : nil
        }
    }
    private var intake = FrameIntake()
    private var copiesTold = 0
    private var cadenceTold = Duration.zero
    private var contactTold: SensorContact?
    private var isEnergyFull = false
    private var hasEnergyFilled = false
    private var judge = PlausibilityJudge()
    private var doubling = DoubledStream()
    private var beats = BeatTimeline()
    private var interruptions = Interruptions()
    /// When the last frame arrived, decodable or not.
    public private(set) var latestArrival: Uptime?
    /// Since when frames have come without a silence between them.
    private var sendingSince: Uptime?
    /// Why the last frame had no heart rate, and since when no frame has had one; nil while they do.
    public private(set) var rateFault: (fault: RateFault, since: Uptime)?
    /// When the last frame was sent.
    private var latestFrame: Uptime?
    /// Charge in percent, once it is known.
    public internal(set) var batteryPercent: Int?
    /// The cause that would explain a silence.
    var silence = SilenceCause() {
        didSet { if silence.isOfGateway { interruptions.excuse() } }
    }
    /// Since when frames are expected.
    let began: Uptime
    /// When its link was made; nil if it has had none.
    private(set) var linked: Uptime?
    /// Whether a frame of the present link has come to its time.
    private(set) var linkHasFrame = false

    init(
        sensorID: Int64, needsContact: Bool = true, began: Uptime = .zero
    ) {
        self.sensorID = sensorID
        self.needsContact = needsContact
        self.began = began
    }

    /// When it went from one person to another, while it is recorded; nil if it has not.
    public private(set) var handedOver: Uptime?

    /// Whoever wears it from now on has not interrupted anything.
    mutating func changeHands(at uptime: Uptime) {
        handedOver = uptime
        interruptions = Interruptions()
    }

    /// Whether every frame has come twice for a while.
    public var isDoubled: Bool { doubling.isDoubled }

    /// Notifications that were lost on the air, estimated from the RR intervals.
    public var lostFrames: Int { beats.estimatedLostFrames }

    /// How long nothing has come.
    public func silentTime(at uptime: Uptime) -> Duration { uptime - (latestArrival ?? began) }

    /// How long it has been sending.
    public func sendingTime(at uptime: Uptime) -> Duration {
        sendingSince.map { uptime - $0 } ?? .zero
    }

    /// Up to this a silence is usual for it.
    private var pauseMax: Duration { max(SampleQueue.silenceMax, (cadence ?? .zero) * 3) }

    /// How much of the last quarter of an hour is without a heart rate while the strap comes and goes; nil while it does
    /// not.
    public var missingTime: Duration? { interruptions.isMany ? interruptions.missing : nil }

    /// The typical time between two frames; nil while unknown.
    public var cadence: Duration? { intake.cadenceMicroseconds.map { .microseconds($0) } }

    /// For how long it may send nothing before that is worth a word: a minute, or three times its own
    /// cadence.
    public var silenceLimit: Duration { max(.seconds(60), (cadence ?? .zero) * 3) }

    /// When frames that are kept back are due.
    var deadline: Uptime? { intake.deadline.map(Uptime.init(microseconds:)) }

    /// Takes one notification; returns the frames that are ready to be stored: none while it is not
    /// clear when they were sent, and none for a copy.
    ///
    /// - Parameters:
    ///   - uptime: when it arrived.
    ///   - now: a clock reading taken since; the wall time of a frame is counted back from it.
    mutating func take(
        _ frame: [UInt8], uptime: Uptime, now: ClockReading, policy: DecodePolicy
    ) -> [Arrival] {
        if latestArrival.map({ uptime - $0 > pauseMax }) ?? true { sendingSince = uptime }
        latestArrival = uptime
        _ = doubling.note(frame, at: uptime.microseconds)
        return receive(intake.take(frame, at: uptime.microseconds), now, policy)
    }

    /// A link was made at `uptime`: no frame that comes was sent before.
    mutating func beginLink(
        at uptime: Uptime, now: ClockReading, policy: DecodePolicy
    ) -> [Arrival] {
        let arrivals = receive(intake.beginLink(at: uptime.microseconds), now, policy)
        (linked, linkHasFrame) = (uptime, false)
        return arrivals
    }

    /// The frames that come next were sent by the link made then, if that is known.
    mutating func follow(
        linkMadeAt begin: Uptime?, _ now: ClockReading, _ policy: DecodePolicy
    ) -> [Arrival] {
        guard let begin, begin != linked else { return [] }
        return beginLink(at: begin, now: now, policy: policy)
    }

    /// bluetoothd did something after one uptime, as the gateway knew at another.
    mutating func noteAlive(since: Uptime, at uptime: Uptime) {
        intake.noteAlive(since: since.microseconds, at: uptime.microseconds)
    }

    /// Frames that were kept back and are due by then; all of them, because the link or the run ends, if it is nil.
    mutating func release(
        by due: Uptime? = nil, now: ClockReading, policy: DecodePolicy
    ) -> [Arrival] {
        receive(
            due.map { intake.release(at: $0.microseconds) } ?? intake.releaseAll(), now, policy)
    }

    /// Copies that were passed over since the last call.
    mutating func newCopies() -> Int {
        defer { copiesTold = intake.copiesDropped }
        return intake.copiesDropped - copiesTold
    }

    /// Whether the sensor touches skin, if that is another answer than at the last call.
    mutating func newContact() -> SensorContact? {
        guard let contact = latest?.contact, contact != contactTold else { return nil }
        contactTold = contact
        return contact
    }

    /// Whether the energy count has reached its maximum since the last call: it counts on only after a reset (HRS v1.0
    /// §3.1.1.3).
    mutating func needsEnergyReset() -> Bool {
        defer { hasEnergyFilled = false }
        return hasEnergyFilled
    }

    /// The cadence of a strap that sends rarely, if it is another than at the last call.
    mutating func newCadence() -> Duration? {
        guard let cadence, max(cadence, cadenceTold) > SampleQueue.silenceMax / 3,
            max(cadence - cadenceTold, cadenceTold - cadence) > cadenceTold / 4
        else { return nil }
        cadenceTold = cadence
        return cadence
    }

    private mutating func receive(
        _ frames: [TimedFrame], _ now: ClockReading, _ policy: DecodePolicy
    ) -> [Arrival] {
        frames.map { receive($0, now, policy) }
    }

    /// Takes a frame whose time is known.
    mutating func receive(
        _ timed: TimedFrame, _ now: ClockReading, _ policy: DecodePolicy
    ) -> Arrival {
        let (frame, uptime) = (timed.bytes, Uptime(microseconds: timed.uptimeMicroseconds))
        let arrived = now.at(uptime)
        let uncertainty = Duration.microseconds(timed.uncertaintyMicroseconds)
        linkHasFrame = true
        do {
            let measurement = try HeartRateMeasurement(frame: frame, policy: policy)
            latestMeasured = (measurement, uptime)
            note(energy: measurement.energyKilojoules)
            _ = beats.add(rr: measurement.rrIntervals, arrivedAt: uptime.microseconds)
            var plausibility = judge.judge(measurement, at: uptime.microseconds)
            let fault = RateFault(
                plausibility, bpm: measurement.bpm, needsContact: needsContact)
            note(fault, at: uptime)
            plausibility.formUnion(timed.plausibility)
            return Arrival(
                sensorID: sensorID, at: arrived, frame: frame,
                flags: Self.flags(
                    plausibility, anomalies: measurement.anomalies, uncertainty: uncertainty),
                lacking: fault?.cause, uncertainty: uncertainty, isRebuilt: timed.isRebuilt)
        } catch {
            note(.unreadable, at: uptime)
            return Arrival(
                sensorID: sensorID, at: arrived, frame: frame, fault: error.reason,
                uncertainty: uncertainty, isRebuilt: timed.isRebuilt)
        }
    }

    /// Notes an energy count, which a strap sends with every tenth frame or so.
    private mutating func note(energy: UInt16?) {
        guard let energy else { return }
        if energy == .max, !isEnergyFull { hasEnergyFilled = true }
        isEnergyFull = energy == .max
    }

    private mutating func note(_ fault: RateFault?, at uptime: Uptime) {
        // Frames from before a silence say nothing of now.
        let goesOn = latestFrame.map { uptime - $0 <= silenceLimit } ?? false
        let since = goesOn ? rateFault?.since ?? uptime : uptime
        rateFault = fault.map { ($0, since) }
        latestFrame = uptime
        if fault == nil {
            interruptions.dataCame(at: uptime, pauseMax: pauseMax)
        }
    }

    /// Plausibility in the low 16 bits, anomalies in the next 8, and in the last 8 how uncertain the time is, in
    /// quarters of a second: 0 for up to one, 255 for any above 63.5 s.
    static func flags(
        _ plausibility: Plausibility, anomalies: FrameAnomalies, uncertainty: Duration
    ) -> UInt32 {
        let quarters = UInt32(clamping: (uncertainty.microseconds + 249_999) / 250_000)
        return UInt32(plausibility.rawValue) | UInt32(anomalies.rawValue) << 16
            | (quarters < 2 ? 0 : min(quarters, 255)) << 24
    }
}

extension TimedFrame {
    fileprivate var plausibility: Plausibility {
        var plausibility: Plausibility = []
        if isRebuilt { plausibility.insert(.estimatedTime) }
        if isUncertain { plausibility.insert(.uncertainTime) }
        if mayBeCopy { plausibility.insert(.possibleCopy) }
        return plausibility
    }
}

extension RateFault {
    fileprivate init?(_ plausibility: Plausibility, bpm: UInt16, needsContact: Bool) {
        if needsContact, plausibility.contains(.contactLost) {
            self = .contactLost
        } else if plausibility.contains(.zeroRate) {
            self = .noPulse
        } else if !plausibility.isDisjoint(with: .withoutRate) {
            self = .implausible(bpm: bpm)
        } else {
            return nil
        }
    }
}
