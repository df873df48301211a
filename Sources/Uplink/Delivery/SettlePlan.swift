import Basics
import GATTHeartRate
import OfflineQueue

/// The samples a delivery has in its hands, the data points made of them, and what has become of each.
///
/// A group of samples is resolved when all data points made of it are, and is then settled as a whole:
/// of half a window, a later start would make another data point. The queue settles each segment from
/// its oldest pending sample on, without holes; what is resolved behind an unresolved group waits
/// here for it.
struct SettlePlan: Sendable {
    let samples: [PendingSample]
    private(set) var points: [OutgoingPoint] = []
    /// The positions of each group's samples and of its data points.
    private var groups: [(samples: Range<Int>, points: Range<Int>)] = []
    /// The positions of the data points each sample is part of; nil for one that is withheld.
    private var pointsOf: [(rate: Int, intervals: Range<Int>)?]
    private var withheld: [SettledSample.Outcome?]
    private var outcomes: [SettledSample.Outcome?] = []
    private var isSettled: [Bool]

    /// A plan with nothing in it.
    init() { self.init([], .raw, straps: [:], DeliveryPolicy(), intervals: false) }

    /// Makes data points of complete groups. `intervals` says whether RR intervals are made as well.
    init(
        _ groups: [SampleGroup], _ resolution: Resolution, straps: [Int64: StrapDatasheet],
        _ policy: DeliveryPolicy, intervals: Bool
    ) {
        samples = groups.flatMap(\.samples)
        pointsOf = Array(repeating: nil, count: samples.count)
        withheld = Array(repeating: nil, count: samples.count)
        isSettled = Array(repeating: false, count: samples.count)
        var next = 0
        for group in groups {
            let positions = next..<next + group.samples.count
            next = positions.upperBound
            let first = points.count
            add(group, at: positions, resolution, straps, policy, intervals: intervals)
            self.groups.append((positions, first..<points.count))
        }
        outcomes = Array(repeating: nil, count: points.count)
    }

    private mutating func add(
        _ group: SampleGroup, at positions: Range<Int>, _ resolution: Resolution,
        _ straps: [Int64: StrapDatasheet], _ policy: DeliveryPolicy, intervals: Bool
    ) {
        var measured: [(position: Int, measurement: HeartRateMeasurement)] = []
        for (position, sample) in zip(positions, group.samples) {
            switch policy.judge(sample) {
            case .success(let measurement): measured.append((position, measurement))
            case .failure(let reason): withheld[position] = .dropped(reason: reason.reason)
            }
        }
        let rates = measured.map { Int($0.measurement.bpm) }
        guard let content = Self.content(of: group, rates) else { return }
        func add(
            _ kind: DataPointKind, _ content: DataPoint.Content, of sample: PendingSample,
            _ uncertainty: Duration?
        ) {
            let point = DataPoint(
                uuid: sample.identity(of: kind).description, content, timeUncertainty: uncertainty)
            points.append(
                OutgoingPoint(
                    point, patient: sample.patient, sensorID: sample.sensorID,
                    strap: straps[sample.sensorID] ?? StrapDatasheet()))
        }
        // Named by the first sample of all, withheld or not: that one cannot change.
        add(
            resolution.kind, content, of: group.samples[0],
            measured.compactMap { samples[$0.position].timeUncertainty }.max())
        let rate = points.count - 1
        for (position, measurement) in measured {
            let first = points.count
            if intervals {
                for (kind, content) in Self.intervals(measurement, of: samples[position]) {
                    add(kind, content, of: samples[position], samples[position].timeUncertainty)
                }
            }
            pointsOf[position] = (rate, first..<points.count)
        }
    }

    private static func content(of group: SampleGroup, _ rates: [Int]) -> DataPoint.Content? {
        guard let window = group.window else {
            return rates.first.map {
                .heartRate(bpm: $0, at: group.samples[0].time)
            }
        }
        return DataPoint.averageTenths(rates).map {
            .averageHeartRate(tenths: $0, count: rates.count, window: window)
        }
    }

    /// The RR intervals of a frame. The last one is taken to end when the frame arrived, those before
    /// it as long before as the later ones last: that much the frame alone can tell, so that it is
    /// the same at every attempt.
    private static func intervals(
        _ measurement: HeartRateMeasurement, of sample: PendingSample
    ) -> [(DataPointKind, DataPoint.Content)] {
        let range = Timestamp.range
        var end = min(max(sample.time, range.lowerBound), range.upperBound)
        var intervals: [(DataPointKind, DataPoint.Content)] = []
        for (index, ticks) in measurement.rrIntervals.enumerated().reversed() where ticks > 0 {
            if let kind = DataPointKind.interval(index) {
                intervals.append((kind, .interval(ticks: ticks, end: end)))
            }
            end = DataPoint.start(of: ticks, end: end)
        }
        return intervals.reversed()
    }

    /// The outcomes for the delivery: nil for each data point, then the outcomes of samples that are part of
    /// none.
    var known: [SettledSample.Outcome?] { outcomes + withheld.filter { $0 != nil } }

    /// How many of these data points are recorded in a second: over each segment's samples, together; nil
    /// when no segment has two.
    var arrivalsPerSecond: Double? {
        let rates = Dictionary(grouping: samples, by: \.segmentID).values.compactMap {
            samples -> Double? in
            let times = samples.map(\.time)
            guard let first = times.min(), let last = times.max(), last > first else { return nil }
            return Double(samples.count - 1) / (last - first).inSeconds
        }
        guard !rates.isEmpty, !samples.isEmpty else { return nil }
        return rates.reduce(0, +) * Double(points.count) / Double(samples.count)
    }

    mutating func resolve(_ resolved: [Delivery.Resolved]) {
        for one in resolved where outcomes.indices.contains(one.index) {
            outcomes[one.index] = one.outcome
        }
    }

    /// The outcomes that can be settled now.
    var ready: [SettledSample] {
        var blocked: Set<Int64> = []
        var ready: [SettledSample] = []
        for group in groups where !isSettled[group.samples.lowerBound] {
            let segment = samples[group.samples.lowerBound].segmentID
            if !blocked.contains(segment), group.points.allSatisfy({ outcomes[$0] != nil }) {
                ready += group.samples.compactMap { index in
                    outcome(ofSample: index).map { outcome, point in
                        SettledSample(
                            samples[index], outcome,
                            sentAs: point.map { points[$0].point.uuid })
                    }
                }
            } else {
                blocked.insert(segment)
            }
        }
        return ready
    }

    /// The outcome of a sample's heart rate: RR intervals that are refused take nothing from a rate that was
    /// delivered (``DataPointBooks`` counts them). Of a dead one also the data point it died of.
    private func outcome(
        ofSample index: Int
    ) -> (outcome: SettledSample.Outcome, diedOf: Int?)? {
        if let withheld = withheld[index] { return (withheld, nil) }
        guard let rate = pointsOf[index]?.rate, let outcome = outcomes[rate] else { return nil }
        if case .dead = outcome { return (outcome, rate) }
        return (outcome, nil)
    }

    /// The samples that these data points are made of.
    func samples(ofPoints points: [Int]) -> [PendingSample] {
        var isWanted = Array(repeating: false, count: self.points.count)
        for point in points { isWanted[point] = true }
        return zip(samples, pointsOf).compactMap { sample, points in
            guard let points else { return nil }
            return isWanted[points.rate] || points.intervals.contains { isWanted[$0] }
                ? sample : nil
        }
    }

    /// Those that were ``ready``, in their order, are settled.
    mutating func settled(_ done: [SettledSample]) {
        var done = done[...]
        for index in samples.indices where samples[index].id == done.first?.id {
            isSettled[index] = true
            done.removeFirst()
        }
    }
}

extension PendingSample {
    /// Whether its frame may hold RR intervals (Heart Rate Service 1.0 §3.1.1.1, flag bit 4).
    var mayHoldIntervals: Bool { frame.first.map { $0 & 0x10 != 0 } ?? false }
}
