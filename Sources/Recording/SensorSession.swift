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

    /// Takes one frame.
    ///
    /// - Parameters:
    ///   - uptime: when it arrived, `CLOCK_BOOTTIME` µs.
    ///   - now: a clock reading taken since; the wall time of arrival is counted back from it.
    mutating func receive(
        _ frame: [UInt8], uptime: Int64, now: ClockReading, policy: DecodePolicy
    ) -> Arrival {
        let arrived = now.at(uptime: uptime)
        latestUptimeMicroseconds = uptime
        _ = doubling.note(frame, at: uptime)
        do {
            let measurement = try HeartRateMeasurement(frame: frame, policy: policy)
            latest = measurement
            _ = beats.add(rr: measurement.rrIntervals, arrivedAt: uptime)
            return Arrival(
                assignmentID: assignmentID, at: arrived, frame: frame,
                flags: Self.flags(
                    judge.judge(measurement, at: uptime), anomalies: measurement.anomalies))
        } catch {
            return Arrival(
                assignmentID: assignmentID, at: arrived, frame: frame, fault: error.reason)
        }
    }

    /// Plausibility in the low 16 bits, anomalies in the next 8.
    static func flags(_ plausibility: Plausibility, anomalies: FrameAnomalies) -> UInt32 {
        UInt32(plausibility.rawValue) | UInt32(anomalies.rawValue) << 16
    }
}
