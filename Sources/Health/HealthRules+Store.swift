import Basics
import OfflineQueue

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
        if let fault = store.registryFault, store.writeFault == nil {
            found.append(HealthCondition(.registryUnwritten, message: fault))
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
                    message: salvage.message,
                    advice: "the card wears out: replace it; \(salvage.file) is kept; "
                        + (salvage.fault == nil
                            ? "" : "edge-gateway queue salvage reads a copy of it; ")
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
        if let doubt = snapshot.clockDoubt {
            var untrusted = untrusted(doubt)
            untrusted.stopsHeartbeats = !store.givesTimes
            found.append(untrusted)
        }
        if let step = snapshot.clockStep {
            let (size, isBack) = step.size < .zero ? (.zero - step.size, true) : (step.size, false)
            found.append(
                HealthCondition(
                    .clockStepped,
                    message: "the clock was set \(isBack ? "back" : "forward") by "
                        + "\(Self.text(size)), \(Self.text(step.age)) ago; samples from before may have been "
                        + "delivered with times that are wrong by as much"))
        }
        if store.clockUnknown > 0 {
            found.append(
                HealthCondition(
                    .clockUnknown,
                    message:
                        "\(store.clockUnknown.counted("sample is", "samples are")) held: the clock of the boot that "
                        + "recorded them was never trusted, or has jumped to another date",
                    stopsHeartbeats: !store.givesTimes))
        }
        return found
    }

    /// The message for a clock that is not trusted, and its remedy.
    private static func untrusted(_ doubt: ClockDoubt) -> HealthCondition {
        switch doubt {
        case .unsynchronised:
            HealthCondition(
                .clockUntrusted,
                message:
                    "the clock is not synchronised; without an earlier trusted time of this boot nothing is sent"
            )
        case .early(let wall):
            HealthCondition(
                .clockUntrusted,
                message:
                    "the clock says \(day(wall)), before this program was built; nothing is sent, and samples are kept",
                advice:
                    "let NTP set the clock: allow UDP port 123 out; or set it: timedatectl set-time"
            )
        case .late(let wall, let latestYear):
            HealthCondition(
                .clockUntrusted,
                message:
                    "the clock says \(day(wall)), after clock.latest_year (\(latestYear)); nothing is sent, and "
                    + "samples are kept",
                advice:
                    "set the clock: timedatectl set-time; or set clock.latest_year if this clock is right"
            )
        }
    }

    /// `2026-12-01`.
    private static func day(_ time: UTC) -> String {
        let date = CivilDate(daysSince1970: time.day)
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(date.year)-\(two(date.month))-\(two(date.day))"
    }

    /// A length of time in its largest unit.
    private static func text(_ length: Duration) -> String {
        let seconds = length.microseconds / 1_000_000
        if seconds < 120 { return "\(seconds) s" }
        return seconds < 7_200 ? "\(seconds / 60) min" : "\(seconds / 3_600) h"
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
