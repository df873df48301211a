import Basics
import OfflineQueue

/// How much of this UTC day there is data for, by sensor.
///
/// It keeps what it counted for a minute: a count takes a walk through a sensor's gaps, and the state is
/// asked for every few seconds.
actor TodaysCoverage {
    private static let ageMax = Duration.seconds(60)

    private let queue: SampleQueue
    private let clock: any GatewayClock
    /// By sensor, and when it was counted.
    private var counted: [Int64: (percent: Double?, at: Uptime)] = [:]

    init(queue: SampleQueue, clock: any GatewayClock) {
        self.queue = queue
        self.clock = clock
    }

    /// In percent, to one decimal; nil where nothing was to be recorded.
    func percent(of sensor: Int64) async throws -> Double? {
        let reading = clock.read()
        if let kept = counted[sensor], reading.uptime - kept.at < Self.ageMax {
            return kept.percent
        }
        let coverage = try await queue.coverage(
            of: .sensor(sensor), dayStartingAt: Coverage.dayStart(of: reading.wall))
        let percent = coverage.percent.map { ($0 * 10).rounded() / 10 }
        counted[sensor] = (percent, reading.uptime)
        return percent
    }
}
