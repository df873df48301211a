import Basics
import Foundation
import OfflineQueue
import Recording

/// The history of deliveries and of measurements.
struct HistoryService: Sendable {
    let queue: SampleQueue
    let recorder: Recorder
    let clock: any GatewayClock

    /// The latest requests of all deliveries, or of the one to a destination by its number, that ended between two
    /// instants.
    func requests(
        destination: Int64?, since: UTC? = nil, until: UTC? = nil, limit: Int
    ) async throws -> HistoryReport {
        try Listing.check(limit: limit)
        // The store keeps no more of them than that.
        let all = try await queue.uploads(
            enrollment: destination, limit: until == nil ? limit + 1 : Listing.entriesMax)
        let uploads = all.filter { upload in
            guard since != nil || until != nil else { return true }
            guard let at = upload.at else { return false }
            return since.map { $0 <= at } ?? true && until.map { at < $0 } ?? true
        }
        let names = try await StoreNames(queue)
        return HistoryReport(
            uploads: uploads.prefix(limit).map { upload in
                UploadReport(
                    at: upload.at.map { Date($0) },
                    enrollment: names.enrollment(upload.enrollmentID) ?? "",
                    samples: upload.count,
                    first: (upload.times?.lowerBound).map { Date($0) },
                    last: (upload.times?.upperBound).map { Date($0) },
                    outcome: upload.outcome)
            }, more: uploads.count > limit)
    }

    /// The heart rate of each of the last hours, of one sensor or all.
    func hours(sensor: Int64?, hours: Int) async throws -> [HourReport] {
        guard (1...SampleQueue.historyHoursMax).contains(hours) else {
            throw ProblemReport(
                code: .badRequest, message: "hours must be 1 to \(SampleQueue.historyHoursMax)",
                advice: "edge-gateway history --hours --last 24h")
        }
        try await queue.flush()
        let now = clock.read().wall
        let names = try await StoreNames(queue)
        var reports: [HourReport] = []
        for one in try await queue.sensors(includingForgotten: true)
        where sensor == nil || one.id == sensor {
            for hour in try await queue.hourlyHeartRate(
                sensor: one.id, until: now, hours: hours, needsContact: recorder.needsContact)
            {
                reports.append(
                    HourReport(
                        sensor: one.id, address: names.address(one.id),
                        name: names.name(one.id),
                        hour: Date(hour.begin), samples: hour.count,
                        meanBpm: (hour.meanBPM * 10).rounded() / 10,
                        lowestBpm: Int(hour.lowestBPM), highestBpm: Int(hour.highestBPM),
                        timeUncertaintyMs: hour.timeUncertainty?.millisecondsAtMost))
            }
        }
        return reports
    }
}
