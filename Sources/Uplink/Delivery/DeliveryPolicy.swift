import GATTHeartRate
import OfflineQueue

/// Decides what of a stored sample goes out.
enum DeliveryPolicy {
    /// Reasons for which a sample is not delivered; counted under these names.
    static let undecodable = "undecodable"

    /// The heart rate in a sample, or why it is withheld: the sensor itself says that it measured
    /// nothing (0, no skin contact), or no heart beats like that.
    static func judge(_ sample: PendingSample) -> Result<HeartRatePoint, Withheld> {
        guard let measurement = try? HeartRateMeasurement(frame: sample.frame) else {
            return .failure(Withheld(reason: undecodable))
        }
        if let reason = Plausibility.judge(measurement).names.first {
            return .failure(Withheld(reason: reason))
        }
        return .success(
            HeartRatePoint(
                uuid: sample.uuid, timeMicroseconds: sample.timeMicroseconds,
                bpm: Int(measurement.bpm)))
    }

    /// A sample that is not delivered, with the reason it is counted under.
    struct Withheld: Error {
        var reason: String
    }
}
