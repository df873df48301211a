import Basics

extension HealthRules {
    /// The store and the clock that dates its samples.
    static func store(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        let store = snapshot.store
        var found: [HealthCondition] = []
        if let fault = store.readFault {
            found.append(HealthCondition(.storeUnreadable, message: fault))
        }
        if let fault = store.writeFault {
            found.append(
                HealthCondition(
                    .storeUnwritable,
                    message:
                        "\(fault.message); \(store.buffered.counted("sample waits", "samples wait")) in memory, "
                        + "\(store.refused) are lost", advice: fault.advice))
        }
        if let bytes = store.scarceBytes, store.writeFault == nil {
            found.append(
                HealthCondition(
                    .diskNearlyFull,
                    message: "the disk is nearly full: \(bytes >> 20) MB are free"))
        }
        if let missing = store.missing {
            found.append(HealthCondition(.storeMissing, message: missing))
        }
        if store.damagedRows > 0 {
            found.append(
                HealthCondition(
                    .storeDamaged,
                    message:
                        "\(store.damagedRows.counted("row of the store fails its checksum", "rows of the store fail their checksum"))"
                ))
        }
        if let salvage = store.salvage {
            found.append(
                HealthCondition(
                    .storeSalvaged, subject: "\(salvage.id)",
                    message:
                        "the store was broken; \(salvage.carried.counted("sample was", "samples were")) saved, "
                        + "\(salvage.lost) that waited are lost",
                    advice: "the card wears out: replace it; \(salvage.file) is kept; "
                        + "edge-gateway queue acknowledge"))
        }
        if let fill = store.fill { found.append(nearlyFull(fill)) }
        if !store.lost.isEmpty {
            let counts = store.lost.sorted { $0.key < $1.key }.map { "\($0.value) (\($0.key))" }
            found.append(
                HealthCondition(
                    .samplesLost,
                    message: "samples were lost: \(counts.joined(separator: ", "))"))
        }
        if !snapshot.isClockTrusted {
            found.append(
                HealthCondition(
                    .clockUntrusted,
                    message:
                        "the clock is not synchronised, or later than clock.latest_year; samples are kept and held"
                ))
        }
        if store.clockUnknown > 0 {
            found.append(
                HealthCondition(
                    .clockUnknown,
                    message:
                        "\(store.clockUnknown.counted("sample is", "samples are")) held: the clock of the boot that "
                        + "recorded them was never trusted"))
        }
        return found
    }

    private static func nearlyFull(_ fill: HealthSnapshot.Store.Fill) -> HealthCondition {
        guard fill.isFull else {
            return HealthCondition(
                .queueNearlyFull,
                message: "samples that wait take \(fill.percent) % of the store")
        }
        return HealthCondition(
            .queueFull,
            message: "the store is full: "
                + (fill.refusesNew
                    ? "new samples are refused" : "the oldest samples that wait are dropped"))
    }
}
