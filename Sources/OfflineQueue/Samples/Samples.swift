import Basics
import GATTHeartRate

/// A frame as it comes from a sensor, on its way into the store.
public struct Arrival: Sendable, Hashable {
    /// ATT caps an attribute value at 512 octets (Core 5.4 Vol 3 Part F §3.2.9); what is longer is
    /// no notification.
    public static let frameBytesMax = 512

    /// The store's number for the sensor. Who wears it is for the commit to say (`Wearing`).
    public var sensorID: Int64
    /// `CLOCK_BOOTTIME` at arrival, or when it was sent if it waited on its way.
    public var uptime: Uptime
    /// How far ``uptime`` may be from when it was sent. The quarter of a second that any frame may
    /// be on its way is not counted.
    public var uncertainty: Duration
    /// Whether ``uptime`` is another than that of the arrival. Such a frame comes late: whatever was taken for a silence
    /// since then was none.
    public var isRebuilt: Bool
    /// UTC at arrival, only if the clock was trusted then.
    public var trustedWall: UTC?
    /// How far ``trustedWall`` may be wrong; nil if nobody says.
    public var clockError: Duration?
    /// The bytes of the notification, decodable or not.
    public var frame: [UInt8]
    /// The caller's marks (plausibility, anomalies); the queue keeps them and knows no meaning.
    public var flags: UInt32
    /// Why the frame cannot be decoded; nil for a sample. At most 200 characters are kept.
    public var fault: String?
    /// Why there is no heart rate in it, as far as the caller can tell: such samples are stored and cover no time.
    public var lacking: GapCause?

    /// What any frame may take on its way.
    private static let wayMax = Duration.microseconds(FrameIntake.wayMicrosecondsMax)
    /// The most by which a time of arrival may be wrong.
    private static let believableMax = Duration.microseconds(
        TimedFrame.uncertaintyMicrosecondsMax)

    /// How far its time may be wrong, besides the clock; nil if it counts as sent when it arrived.
    var ownUncertainty: Duration? {
        isRebuilt || uncertainty > Self.wayMax ? uncertainty : nil
    }

    /// When it may have been sent; nil if its time of arrival says who wore the strap. Until a strap's cadence is known, each
    /// of its frames may have been sent a second or two earlier, and a change of hands must not hold them. A time of
    /// arrival that may be wrong by more is not believed.
    var sent: ClosedRange<Uptime>? {
        guard isRebuilt || uncertainty > Self.believableMax else { return nil }
        let latest = isRebuilt ? uptime + uncertainty : uptime
        return min(uptime - uncertainty + Self.wayMax, latest)...latest
    }

    /// The reading of the clocks at arrival.
    var reading: ClockReading {
        ClockReading(
            uptime: uptime, wall: trustedWall ?? .epoch, isTrusted: trustedWall != nil,
            error: clockError)
    }

    /// Why it is stored as undecodable; nil for a sample.
    var faultStored: String? {
        frame.count > Self.frameBytesMax ? "frame longer than 512 octets" : fault
    }

    /// A frame that arrived at `reading`.
    public init(
        sensorID: Int64, at reading: ClockReading, frame: [UInt8], flags: UInt32 = 0,
        fault: String? = nil, lacking: GapCause? = nil, uncertainty: Duration = .zero,
        isRebuilt: Bool = false
    ) {
        self.sensorID = sensorID
        uptime = reading.uptime
        self.uncertainty = uncertainty
        self.isRebuilt = isRebuilt
        trustedWall = reading.trustedWall
        clockError = reading.isTrusted ? reading.error : nil
        self.frame = frame
        self.flags = flags
        self.fault = fault
        self.lacking = lacking
    }
}

/// A stored sample that is to be sent, whose time is trusted.
public struct PendingSample: Sendable, Hashable, Identifiable {
    /// The store's number for it; grows with arrival.
    public let id: Int64
    /// The segment it belongs to.
    public let segmentID: Int64
    /// The sensor it came from.
    public let sensorID: Int64
    /// The assignment it arrived under.
    public let assignmentID: Int64
    /// The patient its assignment names, if it names one.
    public let patient: String?
    /// The nonce of the run that stored it.
    public let runNonce: UInt64
    /// When it arrived.
    public let time: UTC
    /// How far that may be wrong; nil if nobody says.
    public var timeUncertainty: Duration?
    /// The bytes of the notification.
    public let frame: [UInt8]
    /// The marks given at arrival.
    public let flags: UInt32
    /// Its number in the store where it was recorded, if that was another.
    let identityNumber: Int64
    /// Whether the delivery that it was read for is a further one of its assignment.
    var isFurther = false

    /// The identity of the data point of `kind` made from it.
    public func identity(of kind: DataPointKind = .heartRate) -> SampleIdentity {
        SampleIdentity(runNonce: runNonce, sample: identityNumber, kind: kind)
    }
}

/// The outcome of a pending sample.
public struct SettledSample: Sendable, Hashable {
    /// The three ways a sample leaves the queue.
    public enum Outcome: Sendable, Hashable {
        /// The exchange has it.
        case delivered
        /// The exchange refused it for good. `diagnostics` are truncated to
        /// ``SampleQueue/diagnosticsCharactersMax``.
        case dead(reason: String, diagnostics: String)
        /// A policy withheld it; counted under this reason.
        case dropped(reason: String)
    }

    /// The sample's number.
    public var id: Int64
    /// Its segment.
    public var segmentID: Int64
    /// The outcome of it.
    public var outcome: Outcome
    /// The identity of the data point that was refused, if it died of one.
    public var sentAs: String?
}

extension SettledSample {
    /// `sample` came to `outcome`; if it is dead, `sentAs` is the identity of the data point that was
    /// refused, nil for the sample's own.
    public init(_ sample: PendingSample, _ outcome: Outcome, sentAs: String? = nil) {
        self.init(id: sample.id, segmentID: sample.segmentID, outcome: outcome, sentAs: sentAs)
    }
}

/// One request of a delivery, for the delivery history.
public struct UploadRecord: Sendable, Hashable {
    /// When it ended; set by the queue, nil if the clock was not trusted then.
    public internal(set) var at: UTC?
    /// Its delivery; set by the queue.
    public internal(set) var enrollmentID: Int64 = 0
    /// Lowest and highest sample number in it.
    public var samples: ClosedRange<Int64>?
    /// Earliest and latest sample time in it.
    public internal(set) var times: ClosedRange<UTC>?
    /// Samples in it.
    public var count: Int
    /// The result of it, in a word or two: `delivered`, `timeout`, `503`.
    public var outcome: String
}

extension UploadRecord {
    /// A request that carried `samples` and ended in `outcome`.
    public init(_ samples: [PendingSample], outcome: String) {
        self.init(
            samples: Self.span(samples.map(\.id)), times: Self.span(samples.map(\.time)),
            count: samples.count, outcome: outcome)
    }

    private static func span<Value: Comparable>(_ values: [Value]) -> ClosedRange<Value>? {
        guard let low = values.min(), let high = values.max() else { return nil }
        return low...high
    }
}

/// A sample the exchange refused for good, with the server's reason.
public struct DeadLetter: Sendable, Hashable {
    /// The sample's number.
    public let sampleID: Int64
    /// The identifier of the data point that was refused: its own, that of a window's average, which
    /// the other samples of the window share, or that of an RR interval.
    public let uuid: String
    /// The sensor it came from.
    public let sensorID: Int64
    /// Its delivery, if any.
    public let enrollmentID: Int64?
    /// Why, in a word or two.
    public let reason: String
    /// The server's own words, truncated. May quote the measurement: show, never log.
    public let diagnostics: String
    /// When it died; nil if the clock was not trusted then.
    public let died: UTC?
    /// When it arrived; nil if that clock is not trusted.
    public let time: UTC?
    /// The bytes of the notification.
    public let frame: [UInt8]
}
