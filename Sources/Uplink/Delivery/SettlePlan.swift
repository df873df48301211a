import OfflineQueue

/// The samples a lane has in its hands, and what has become of each.
///
/// The queue settles each segment from its oldest pending sample on, without holes; what is resolved
/// behind an unresolved sample waits here for it.
struct SettlePlan: Sendable {
    let samples: [PendingSample]
    let outgoing: [OutgoingSample?]
    private var outcomes: [SettledSample.Outcome?]
    private var isSettled: [Bool]

    init(_ samples: [PendingSample], straps: [Int64: StrapDatasheet]) {
        self.samples = samples
        var outgoing: [OutgoingSample?] = []
        var outcomes: [SettledSample.Outcome?] = []
        for sample in samples {
            switch DeliveryPolicy.judge(sample) {
            case .success(let point):
                outgoing.append(
                    OutgoingSample(
                        point: point, patient: sample.patient, sensorID: sample.sensorID,
                        strap: straps[sample.sensorID] ?? StrapDatasheet()))
                outcomes.append(nil)
            case .failure(let withheld):
                outgoing.append(nil)
                outcomes.append(.dropped(reason: withheld.reason))
            }
        }
        self.outgoing = outgoing
        self.outcomes = outcomes
        isSettled = Array(repeating: false, count: samples.count)
    }

    /// What is known of each sample; nil for those still to be delivered.
    var known: [SettledSample.Outcome?] { outcomes }

    mutating func resolve(_ resolved: [Lane.Resolved]) {
        for one in resolved where outcomes.indices.contains(one.index) {
            outcomes[one.index] = one.outcome
        }
    }

    /// What can be settled now.
    var ready: [SettledSample] {
        var blocked: Set<Int64> = []
        var ready: [SettledSample] = []
        for (index, sample) in samples.enumerated() where !isSettled[index] {
            if let outcome = outcomes[index], !blocked.contains(sample.segmentID) {
                ready.append(SettledSample(sample, outcome))
            } else {
                blocked.insert(sample.segmentID)
            }
        }
        return ready
    }

    mutating func settled(_ done: [SettledSample]) {
        let ids = Set(done.map(\.id))
        for index in samples.indices where ids.contains(samples[index].id) {
            isSettled[index] = true
        }
    }
}
