import Basics
import GATTHeartRate
import OfflineQueue

/// What is known of one worn sensor while the daemon runs: turns its frames into arrivals.
///
/// A value without I/O. A frame that cannot be decoded becomes an arrival with its fault, so that
/// it is kept and counted; nothing a sensor sends stops its stream.
public struct SensorSession: Sendable {
    /// The store's number for the sensor.
    public let sensorID: Int64
    /// Who wears it and where its samples go.
    var assignmentID: Int64

    /// The last measurement.
    public private(set) var latest: HeartRateMeasurement?
    private var intake = FrameIntake()
    private var copiesTold = 0
    private var cadenceTold: Int64 = 0
    private var judge = PlausibilityJudge()
    private var doubling = DoubledStream()
    private var beats = BeatTimeline()
    /// `CLOCK_BOOTTIME` of the last frame, decodable or not, µs.
    public private(set) var latestUptimeMicroseconds: Int64?
    /// Charge in percent, once it is known.
    public internal(set) var batteryPercent: Int?
    /// What would explain it if no frame came.
    var silence = SilenceCause()
    /// Since when frames are expected, `CLOCK_BOOTTIME` µs.
    let beganUptimeMicroseconds: Int64

    init(sensorID: Int64, assignmentID: Int64, uptime: Int64 = 0) {
        self.sensorID = sensorID
        self.assignmentID = assignmentID
        beganUptimeMicroseconds = uptime
    }

    /// Whether every frame has come twice for a while.
    public var isDoubled: Bool { doubling.isDoubled }

    /// Notifications that were lost on the way, estimated from the RR intervals.
    public var lostFrames: Int { beats.estimatedLostFrames }

    /// Whether the sensor asks for a reset of its energy count, which stands at its maximum (HRS v1.0
    /// §3.1.1.3).
    var wantsEnergyReset: Bool { latest?.energyKilojoules == .max }

    /// How long nothing has come, in seconds.
    public func silentSeconds(uptime: Int64) -> Double {
        Double(uptime - (latestUptimeMicroseconds ?? beganUptimeMicroseconds)) / 1_000_000
    }

    /// The typical time between two frames, µs; nil while unknown.
    public var cadenceMicroseconds: Int64? { intake.cadenceMicroseconds }

    /// For how many seconds it may send nothing before that is worth a word: a minute, or three times its
    /// own cadence.
    public var silenceLimitSeconds: Double {
        max(60, Double(intake.cadenceMicroseconds ?? 0) * 3 / 1_000_000)
    }

    /// When frames that are kept back are due, `CLOCK_BOOTTIME` µs.
    var deadline: Int64? { intake.deadline }

    /// Takes one notification; returns the frames that are ready to be stored: none while it is not
    /// clear when they were sent, and none for a copy.
    ///
    /// - Parameters:
    ///   - uptime: when it arrived, `CLOCK_BOOTTIME` µs.
    ///   - now: a clock reading taken since; the wall time of a frame is counted back from it.
    mutating func take(
        _ frame: [UInt8], uptime: Int64, now: ClockReading, policy: DecodePolicy
    ) -> [Arrival] {
        latestUptimeMicroseconds = uptime
        _ = doubling.note(frame, at: uptime)
        return receive(intake.take(frame, at: uptime), now, policy)
    }

    /// A link was made at `uptime`: no frame that comes was sent before.
    mutating func beginLink(
        at uptime: Int64, now: ClockReading, policy: DecodePolicy
    ) -> [Arrival] {
        receive(intake.beginLink(at: uptime), now, policy)
    }

    /// bluetoothd does not answer.
    mutating func noteHang() { intake.noteHang() }

    /// Frames that were kept back and are due; all of them if the link or the run ends.
    mutating func release(
        all: Bool = false, now: ClockReading, policy: DecodePolicy
    ) -> [Arrival] {
        receive(
            all ? intake.releaseAll() : intake.release(at: now.uptime.microseconds), now, policy)
    }

    /// Copies that were passed over since the last call.
    mutating func newCopies() -> Int {
        defer { copiesTold = intake.copiesDropped }
        return intake.copiesDropped - copiesTold
    }

    /// The cadence of a strap that sends rarely, if it is another than at the last call.
    mutating func newCadence() -> Int64? {
        guard let cadence = intake.cadenceMicroseconds,
            max(cadence, cadenceTold) > GapLedger.silenceMax / 3,
            abs(cadence - cadenceTold) > cadenceTold / 4
        else { return nil }
        cadenceTold = cadence
        return cadence
    }

    private mutating func receive(
        _ frames: [TimedFrame], _ now: ClockReading, _ policy: DecodePolicy
    ) -> [Arrival] {
        frames.map {
            receive(
                $0.bytes, uptime: $0.uptimeMicroseconds,
                uncertainty: $0.uncertaintyMicroseconds, now: now, policy: policy)
        }
    }

    /// Takes one frame that was sent at `uptime`; `uncertainty` is that of a rebuilt time.
    mutating func receive(
        _ frame: [UInt8], uptime: Int64, uncertainty: Int64? = nil, now: ClockReading,
        policy: DecodePolicy
    ) -> Arrival {
        let arrived = now.at(Uptime(microseconds: uptime))
        do {
            let measurement = try HeartRateMeasurement(frame: frame, policy: policy)
            latest = measurement
            _ = beats.add(rr: measurement.rrIntervals, arrivedAt: uptime)
            return Arrival(
                assignmentID: assignmentID, at: arrived, frame: frame,
                flags: Self.flags(
                    judge.judge(measurement, at: uptime), anomalies: measurement.anomalies,
                    uncertainty: uncertainty),
                isLate: uncertainty != nil)
        } catch {
            return Arrival(
                assignmentID: assignmentID, at: arrived, frame: frame, fault: error.reason)
        }
    }

    /// Plausibility in the low 16 bits, anomalies in the next 8, and in the last 8 the uncertainty of a
    /// rebuilt time in quarters of a second, 255 for any above.
    static func flags(
        _ plausibility: Plausibility, anomalies: FrameAnomalies, uncertainty: Int64? = nil
    ) -> UInt32 {
        var plausibility = plausibility
        var quarters: UInt32 = 0
        if let uncertainty {
            plausibility.insert(.estimatedTime)
            if uncertainty > TimedFrame.uncertaintyMicrosecondsMax {
                plausibility.insert(.uncertainTime)
            }
            quarters = UInt32(min(max(1, (uncertainty + 249_999) / 250_000), 255))
        }
        return UInt32(plausibility.rawValue) | UInt32(anomalies.rawValue) << 16 | quarters << 24
    }
}
