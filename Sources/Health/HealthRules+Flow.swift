import Basics

extension HealthRules {
    /// Frames that come must be written by then: several group commits.
    static let uncommittedMax = Duration.seconds(60)
    /// Wetting dry electrodes or changing a shirt takes less.
    static let withoutRateMax = Duration.seconds(300)
    /// The silence of a strap that comes and goes; a longer silence is said by itself.
    static let pauseMax = Duration.seconds(300)
    /// A strap that streams must have been stored by then.
    static let unstoredMax = Duration.seconds(60)
    /// Between the last two steps of a pairing a strap is paired and not recorded yet: a busy machine may take seconds.
    static let unrecordedMax = Duration.seconds(10)
    /// Samples that may be sent must move by then, or within two intervals of their delivery: several back-offs, and
    /// the longest window.
    static let stalledMax = Duration.seconds(600)
    /// What deliveries to one place have in common that stall.
    static let stalledFault = "stalled"

    /// A Boolean value that indicates whether what straps send now reaches the store and every destination.
    public static func heartbeatsFlow(_ conditions: [HealthCondition]) -> Bool {
        !conditions.contains(where: \.stopsHeartbeats)
    }

    /// The end-to-end rules: items for straps and deliveries whose heartbeats do not arrive, whatever the reason. A
    /// strap, a store or a delivery that has an item of its own already gets no second one.
    static func flow(
        _ snapshot: HealthSnapshot, beside causes: [HealthCondition]
    ) -> [HealthCondition] {
        let unjudged = Unjudged(snapshot, beside: causes)
        let straps = snapshot.straps
        var found = (straps.compactMap(silence) + straps.compactMap(noHeartRate))
            .filter { !unjudged.contains($0.identity) }
        if !unjudged.names.contains(.storeStalled) {
            let store = snapshot.store
            if store.buffered > 0, store.uncommittedTime > uncommittedMax {
                found.append(
                    HealthCondition(
                        .storeStalled,
                        message:
                            "\(store.buffered.counted("sample waits", "samples wait")) in memory, and nothing has been "
                            + "written for \(age(store.uncommittedTime))"))
            } else {
                found += straps.compactMap(notStored)
            }
        }
        let silent = snapshot.deliveries.filter {
            !unjudged.contains(.init(name: .deliveryStalled, subject: $0.name))
        }
        found += together(silent) { isStalled($0) ? .ofPlace(stalledFault) : nil }.map(stalled)
        found += silent.filter { !isStalled($0) }.compactMap(fallingBehind)
        return found
    }

    private static func silence(_ strap: HealthSnapshot.Strap) -> HealthCondition? {
        // Of one that leaves at the same age each time the cause is known.
        if let missing = strap.missingTime, strap.fixedAge == nil,
            max(strap.silentTime, strap.withoutRateTime) <= pauseMax
        {
            return HealthCondition(
                .strapIntermittent, about: strap,
                message: "comes and goes: \(age(missing)) of a quarter of an hour are missing")
        }
        guard strap.silentTime > strap.silenceLimit else { return nil }
        return HealthCondition(
            .strapSilent, about: strap,
            message: "has sent nothing for \(age(strap.silentTime)) (\(strap.link))")
    }

    private static func notStored(_ strap: HealthSnapshot.Strap) -> HealthCondition? {
        let isLost = strap.unstoredTime > unstoredMax
        let isUnrecorded = strap.unrecordedTime > unrecordedMax
        guard isLost || isUnrecorded else { return nil }
        return HealthCondition(
            .strapNotStored, about: strap,
            message: isUnrecorded
                ? "is paired, and the gateway does not record it"
                : "sends, and none of its frames has been stored for " + age(strap.unstoredTime))
    }

    private static func noHeartRate(_ strap: HealthSnapshot.Strap) -> HealthCondition? {
        guard strap.withoutRateTime > withoutRateMax else { return nil }
        return HealthCondition(
            .noHeartRate, about: strap,
            message: "has sent no heart rate for \(age(strap.withoutRateTime)): \(strap.rateFault)")
    }

    private static func isStalled(_ delivery: HealthSnapshot.Delivery) -> Bool {
        delivery.pending > 0 && delivery.stalledTime > max(stalledMax, delivery.interval * 2)
    }

    private static func stalled(_ together: Together) -> HealthCondition {
        let pending = together.all.reduce(0) { $0 + $1.pending }
        let time = together.all.map(\.stalledTime).max() ?? .zero
        return together.condition(
            .deliveryStalled,
            "\(pending.counted("sample waits", "samples wait")), and none was delivered for \(age(time))"
        )
    }

    private static func fallingBehind(_ delivery: HealthSnapshot.Delivery) -> HealthCondition? {
        // Between two requests each backlog grows.
        guard delivery.interval <= HealthHistory.part else { return nil }
        return delivery.growth.map {
            HealthCondition(
                .fallingBehind, subject: delivery.name,
                message:
                    "\(delivery.name): \(delivery.pending.counted("sample waits", "samples wait")), \($0) more than an "
                    + "hour ago")
        }
    }
}
