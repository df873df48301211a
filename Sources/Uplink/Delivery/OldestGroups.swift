import Basics
import OfflineQueue

/// The samples that a delivery sends next.
struct OldestGroups: Sendable {
    var groups: [SampleGroup]
    /// Whether more of them may wait behind these.
    var hasMore: Bool
    /// The facts of the straps, by sensor.
    var straps: [Int64: StrapDatasheet]

    /// Samples read at a time when windows are made of them: of twenty sensors a minute's, and as many
    /// again. At least ``SampleGroup/samplesMax`` of one segment.
    static let windowSamplesMax = 4000
}

extension SampleQueue {
    /// The oldest groups of a delivery, `limit` at most, of these `patients`. One call, so that the store's thread is
    /// woken once.
    func oldest(
        enrollment: Int64, _ resolution: Resolution, limit: Int, of patients: PatientFilter
    ) throws(QueueError) -> OldestGroups {
        var oldest = OldestGroups(groups: [], hasMore: false, straps: [:])
        if resolution == .raw {
            let batch = try nextPending(enrollment: enrollment, limit: limit, of: patients)
            oldest.groups = batch.samples.map { SampleGroup(samples: [$0], window: nil) }
            oldest.hasMore = batch.hasMore
        } else {
            let ranges = try nextRanges(
                enrollment: enrollment, perSegment: SampleGroup.samplesMax,
                limit: OldestGroups.windowSamplesMax, of: patients)
            let now = presentTime
            let groups = ranges.flatMap { SampleGroup.complete(of: $0, resolution, now: now) }
            let isCut =
                ranges.contains(where: \.isCut)
                || ranges.reduce(0) { $0 + $1.samples.count } >= OldestGroups.windowSamplesMax
            oldest.groups = Array(groups.prefix(limit))
            oldest.hasMore = isCut || groups.count >= limit
        }
        if !oldest.groups.isEmpty { oldest.straps = try straps() }
        return oldest
    }

    private func straps() throws(QueueError) -> [Int64: StrapDatasheet] {
        let sensors = try sensors(includingForgotten: true)
        return Dictionary(
            sensors.map { sensor in
                let details = sensor.details
                return (
                    sensor.id,
                    StrapDatasheet(
                        manufacturer: details.manufacturer, model: details.model,
                        firmware: details.firmware,
                        alias: StrapDatasheet.alias(ofAddress: sensor.address))
                )
            }, uniquingKeysWith: { first, _ in first })
    }
}
