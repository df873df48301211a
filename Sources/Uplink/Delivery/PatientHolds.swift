import Basics

/// The patients of a delivery whose samples are kept back while the others' go on. A value.
///
/// The gateway checks one patient a minute, the one who has waited longest. If the reason seems gone, one
/// sample is tried: only that tells.
struct PatientHolds: Sendable {
    private(set) var reasons: [String: HoldReason] = [:]
    /// In the order in which they are checked.
    private var turns: [String] = []
    /// When the next one is checked.
    private(set) var nextProbe: Uptime?
    /// The patient one sample of whom is being tried.
    private(set) var trial: String?

    /// Reasons that concern one patient and leave the others of a practitioner alone.
    static let ofOnePatient: Set<HoldReason> = [
        .noConsent, .wrongPatient, .patientUnknown, .deviceNotChosen, .heartRateNotAsked,
    ]

    /// Keeps a patient's samples back, or goes on to do so.
    mutating func hold(_ patient: String, _ reason: HoldReason, probe: Uptime) {
        if reasons.updateValue(reason, forKey: patient) == nil { turns.append(patient) }
        if trial == patient { trial = nil }
        nextProbe = max(nextProbe ?? .zero, probe)
    }

    /// The patient to look at now.
    func due(_ now: Uptime) -> (patient: String, reason: HoldReason)? {
        guard let nextProbe, now >= nextProbe, let patient = turns.first,
            let reason = reasons[patient]
        else { return nil }
        return (patient, reason)
    }

    /// A patient was checked.
    mutating func probed(_ patient: String, isMended: Bool, next: Uptime) {
        guard reasons[patient] != nil else { return }
        turns.removeAll { $0 == patient }
        turns.append(patient)
        nextProbe = next
        if isMended { trial = patient }
    }

    /// The trial told nothing against the patient: the samples go on with the others'.
    mutating func endTrial() {
        guard let patient = trial else { return }
        trial = nil
        reasons[patient] = nil
        turns.removeAll { $0 == patient }
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
