import Basics
import BlueZ
import GATTHeartRate
import Health
import OfflineQueue
import Recording

/// One sensor, now.
struct LiveStrap: Codable, Equatable {
    var sensor: Int64
    /// The store's number of the time for which this person wears it; left out while nobody does.
    var assignment: Int64?
    var name: String
    /// Left out when the last one is too old to be one.
    var bpm: Int?
    /// Left out when the strap does not report skin contact.
    var contact: Bool?
    /// The intervals of the last frame, in milliseconds.
    var rrMs: [Int]?
    var batteryPercent: Int?
    var secondsSinceFrame: Double?
    /// As in the report on a sensor.
    var link: String?
    /// How long the link has been up.
    var linkSeconds: Double?
    /// dBm, as last advertised.
    var rssi: Int?

    /// The report for a viewer who may only see heart rates: not even the name a technician chose.
    var shared: LiveStrap {
        LiveStrap(
            sensor: sensor, assignment: assignment, name: "Strap \(sensor)", bpm: bpm,
            secondsSinceFrame: secondsSinceFrame)
    }

    /// The strap, and who wears it.
    var worn: WornStrap? { assignment.map { WornStrap(sensor: sensor, assignment: $0) } }
}

extension LiveStrap {
    /// The report on a sensor. A rate is left out when it is older than `freshTime`.
    init(
        _ sensor: Sensor, _ assignment: Int64?, _ session: SensorSession?, _ link: LinkSnapshot?,
        at uptime: Uptime, freshTime: Duration
    ) {
        // A frame from before is of somebody else.
        let arrival = session?.latestArrival.flatMap { latest in
            (session?.handedOver).map { latest > $0 } ?? true ? latest : nil
        }
        let age = arrival.map { uptime - $0 }
        // An old rate is no rate: it must not be mistaken for a beating heart.
        let fresh = age.map { $0 <= freshTime } ?? false ? session?.latest : nil
        self.init(
            sensor: sensor.id, assignment: assignment, name: sensor.label,
            bpm: fresh.flatMap { _ in session?.latestRate }, contact: fresh?.contact.detected,
            rrMs: fresh.map { $0.rrIntervals.map { Int($0) * 1000 / 1024 } },
            batteryPercent: session?.batteryPercent, secondsSinceFrame: age?.inSeconds,
            link: link?.state.kind ?? "absent",
            linkSeconds: link?.upSince.map { (uptime - $0).inSeconds },
            rssi: link?.rssi)
    }
}
