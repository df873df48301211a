import Basics

/// The patients of a delivery whose samples are kept back while the others' go on; nil is a patient like any other,
/// whose samples name none. A value.
///
/// The gateway checks one patient a minute, the one who has waited longest. If the reason seems gone, one
/// sample is tried: only that tells. If the sample is taken, whatever held the patient may be gone for the others
/// whom it held as well, and the gateway checks each of them once, one a second at most.
struct PatientHolds: Sendable {
    private(set) var reasons: [String?: HoldReason] = [:]
    /// In the order in which they are checked.
    private var turns: [String?] = []
    /// The time of the next check.
    private(set) var nextProbe: Uptime?
    /// The patient one sample of whom is being tried.
    private(set) var trial: String??
    /// Whether that patient was checked in a round.
    private var isTrialOfRound = false
    /// Patients who are checked soon, because another patient's hold for the same reason has ended.
    private var round: [String?] = []

    /// From one look to the next in a round.
    static let roundPause = Duration.seconds(1)

    /// Reasons that concern one patient and leave the others of a practitioner alone.
    static let ofOnePatient: Set<HoldReason> = [
        .noConsent, .wrongPatient, .patientChanged, .patientUnknown, .deviceNotChosen,
        .heartRateNotAsked, .studyGone,
    ]

    /// Keeps a patient's samples back, or goes on to do so.
    mutating func hold(_ patient: String?, _ reason: HoldReason, probe: Uptime) {
        if reasons.updateValue(reason, forKey: patient) == nil { turns.append(patient) }
        if trial == patient { trial = nil }
        if round.isEmpty { nextProbe = max(nextProbe ?? .zero, probe) }
    }

    /// The patient to look at now.
    func due(_ now: Uptime) -> (patient: String?, reason: HoldReason)? {
        guard let nextProbe, now >= nextProbe, let patient = round.first ?? turns.first,
            let reason = reasons[patient]
        else { return nil }
        return (patient, reason)
    }

    /// A patient was checked. The next one is after `pause`, unless a round is under way.
    mutating func probed(_ patient: String?, isMended: Bool, _ now: Uptime, pause: Duration) {
        guard reasons[patient] != nil else { return }
        turns.removeAll { $0 == patient }
        turns.append(patient)
        isTrialOfRound = round.contains(patient)
        round.removeAll { $0 == patient }
        nextProbe = now + (round.isEmpty ? pause : Self.roundPause)
        if isMended { trial = patient }
    }

    /// The trial told nothing against the patient: the samples go on with the others'.
    ///
    /// - Parameter taken: when the trial's sample was taken; nil if that is not known.
    mutating func endTrial(taken: Uptime? = nil) {
        guard let patient = trial, let reason = reasons.removeValue(forKey: patient) else { return }
        trial = nil
        turns.removeAll { $0 == patient }
        // One round, not one after the other: who stays held in it is checked once a minute again.
        if let taken, !isTrialOfRound {
            round = turns.filter { reasons[$0] == reason }
            if !round.isEmpty { nextProbe = taken + Self.roundPause }
        }
        if turns.isEmpty { nextProbe = nil }
    }

    /// The sample could not be tried: the patient stays held, and has a turn again.
    mutating func breakOffTrial(next: Uptime) {
        guard trial != nil else { return }
        trial = nil
        nextProbe = next
    }

    /// Something changed for the better: looks at the next patient now.
    mutating func wake(_ now: Uptime) {
        nextProbe = nextProbe.map { min($0, now) }
    }
}
