import Basics
import OfflineQueue

/// How much of this UTC day there is data for, by sensor.
///
/// It keeps what it counted for a minute: a count takes a walk through the day's gaps of all of them, and the state
/// is asked for every few seconds.
actor TodaysCoverage {
    private static let ageMax = Duration.seconds(60)

    private let queue: SampleQueue
    private let clock: any GatewayClock
    /// By sensor, and when it was counted.
    private var counted: (coverages: [Int64: Coverage], at: Uptime)?

    init(queue: SampleQueue, clock: any GatewayClock) {
        self.queue = queue
        self.clock = clock
    }

    /// In percent, to one decimal, rounded down: a day with a gap has no 100 %. Nil where nothing was to be recorded.
    func percent(of sensor: Int64) async throws -> Double? {
        try await coverages()[sensor]?.percent.map { ($0 * 10).rounded(.down) / 10 }
    }

    private func coverages() async throws -> [Int64: Coverage] {
        let reading = clock.read()
        if let counted, reading.uptime - counted.at < Self.ageMax { return counted.coverages }
        let coverages = try await queue.coverages(
            dayStartingAt: Coverage.dayStart(of: reading.wall))
        counted = (coverages, reading.uptime)
        return coverages
    }
}
