import Health

@testable import OfflineQueue
@testable import Uplink

/// All that worlds may reach, so that what none reaches is printed as well.
enum Reach {
    /// Without those of a store that is damaged, or is made: the rings `damage` and `long` kill at these.
    static let killPoints =
        FaultPoint.allCases.filter { ![.evidenceRenamed, .sliceSaved, .migrate].contains($0) }
        .map(\.rawValue) + TokenFaultPoint.allCases.map(\.rawValue)

    /// The steps at which kills take turns: those that a gateway may not come to in time, more often.
    static let killTurns: [String] = {
        let rare =
            [FaultPoint.checkpoint, .ledgerKept, .pruned].map(\.rawValue)
            + [TokenFaultPoint.granted.rawValue]
        return killPoints + rare + rare
    }()

    /// How a gateway comes to a step of which it takes few.
    enum Occasion {
        case command(Command)
        case restart
        /// All straps are away for a while.
        case silence
    }

    /// Nil for a step to which it comes by itself.
    static func occasion(of killPoint: String, _ choice: Int) -> Occasion? {
        let patient = choice % Script.patients
        switch TokenFaultPoint(rawValue: killPoint) {
        case .written, .synced, .renamed, .directorySynced:
            return .command(.enroll(patient: patient))
        // Of a renewal.
        case .granted, .firstUse, nil: break
        }
        return switch FaultPoint(rawValue: killPoint) {
        case .eraseRegistry, .erased:
            .command(.erase(patient: patient, ofWard: choice % 3 == 0, givesUp: true))
        case .pruneRows, .pruneCursor: .command(.purge)
        case .assignmentChanged, .assignmentGaps:
            .command(.pair(strap: choice % Script.straps, .ofWard(patient)))
        case .ledgerKept: .silence
        case .migrated, .ledgersClosed, .runBegun, .runEnded, .closed, .pruned: .restart
        default: nil
        }
    }

    /// Without those that need what no world has.
    static let healthItems = HealthName.allCases.filter { name in
        switch name {
        // A store that is damaged or gone: the ring `damage`.
        case .storeDamaged, .storeMissing, .storeSalvaged, .storeUnreadable: false
        // A disk that refuses other files than SQLite's: FullDiskTests, EvidenceTroubleTests.
        case .diskNearlyFull, .registryUnwritten: false
        // Brokers, servers and messages, which no world has.
        case .boardChanged, .pageUnavailable, .alertNotDelivered: false
        // An hour.
        case .fallingBehind: false
        // Something of the gateway's own that it does not know of: `Judge` finds these.
        case .deliveryStalled, .storeStalled, .strapNotStored: false
        default: true
        }
    }

    static let all =
        Command.kinds.map { "command \($0)" } + Fault.Kind.allCases.map { "fault \($0.rawValue)" }
        + killPoints.map { "kill at \($0)" }
        + healthItems.map { "health \($0.rawValue)" }
}
