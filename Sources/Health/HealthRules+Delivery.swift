import Basics

extension HealthRules {
    /// Faults of each delivery, and samples that no delivery takes.
    static func deliveries(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        snapshot.deliveries.flatMap { whole($0) } + snapshot.deliveries.flatMap { parts($0) }
            + accounts(snapshot.store)
    }

    private static func whole(_ delivery: HealthSnapshot.Delivery) -> [HealthCondition] {
        let name = delivery.name
        if delivery.wantsEnrolling {
            return [
                HealthCondition(
                    .enrollAgain, subject: name,
                    message: "\(name): "
                        + (delivery.hasUnreadableTokens
                            ? "the tokens or secrets cannot be read (log: \"load tokens\"); "
                            : "this gateway is no longer authorized there; ")
                        + "samples are held",
                    advice: enrollingAgain(delivery))
            ]
        }
        if let hold = delivery.hold {
            return [
                HealthCondition(
                    hold.cause == .consent ? .consentMissing : .deliveryHeld, subject: name,
                    message: "\(name): \(hold.meaning) (\(hold.reason))"
                        + (hold.detail.map { ": " + $0 } ?? "") + "; samples are held",
                    advice: hold.cause == .paused
                        ? "edge-gateway destination resume \(name)"
                        : "\(hold.remedy); delivery resumes by itself")
            ]
        }
        // The board is its own item.
        if delivery.waitsForBoard { return [] }
        if let stopped = delivery.stopped {
            return [
                HealthCondition(
                    .serviceStopped, subject: name,
                    message: "\(name): the delivery does not run: \(stopped)")
            ]
        }
        guard let fault = delivery.fault else { return [] }
        return [
            HealthCondition(
                .exchangeUnreachable, subject: name,
                message: "\(name): \(fault); samples are kept",
                advice: delivery.faultRemedy.map { "\($0); delivery resumes by itself" })
        ]
    }

    private static func enrollingAgain(_ delivery: HealthSnapshot.Delivery) -> String {
        switch delivery.kind {
        case .practitionerKey:
            "edge-gateway enroll --practitioner-key-file FILE --name \(delivery.name)"
        case .destination:
            "edge-gateway destination add with its settings and --name \(delivery.name) again"
        case .invitation: "edge-gateway enroll LINK with a new invitation of this patient"
        }
    }

    /// Patients whose samples are held while the others' go on. The strap is named, never the patient.
    private static func parts(_ delivery: HealthSnapshot.Delivery) -> [HealthCondition] {
        delivery.heldStraps.map { held in
            let subject = "\(delivery.name) \(held.strap)"
            guard held.hold.cause != .consent else {
                return HealthCondition(
                    .consentMissing, subject: subject, strap: held.strap,
                    message: "\(held.label): the patient who wears it has not consented to heart "
                        + "rate; samples are held")
            }
            return HealthCondition(
                .patientHeld, subject: subject, strap: held.strap,
                message: "\(held.label): \(delivery.name) may not deliver for the patient who "
                    + "wears it (\(held.hold.reason)); samples are held",
                advice: delivery.kind != .destination && held.hold.cause == .access
                    ? "the patient must share an organization with the practitioner; see "
                        + "docs/operations.md, \"Why a delivery is held\""
                    : held.hold.remedy)
        }
    }

    private static func accounts(_ store: HealthSnapshot.Store) -> [HealthCondition] {
        var found = notEnrolled(store)
        if store.dead > 0 {
            found.append(
                HealthCondition(
                    .deadLetters,
                    message: "\(store.dead.counted("sample was", "samples were")) refused for good")
            )
        }
        return found
    }

    /// What helps depends on whether the strap still records: pairing binds the open assignment alone.
    private static func notEnrolled(_ store: HealthSnapshot.Store) -> [HealthCondition] {
        func held(_ count: Int) -> String { "\(count.counted("sample is", "samples are")) held: " }
        let recording = store.notEnrolled - store.notEnrolledEnded
        var found: [HealthCondition] = []
        if recording > 0 {
            found.append(
                HealthCondition(
                    .notEnrolled,
                    message: held(recording) + "a strap records without an enrollment",
                    advice: "edge-gateway enroll LINK, or edge-gateway destination add KIND; then "
                        + "edge-gateway pair ADDRESS again; if somebody only tries the strap: "
                        + "edge-gateway forget ADDRESS, then edge-gateway queue discard"))
        }
        if store.notEnrolledEnded > 0 {
            found.append(
                HealthCondition(
                    .notEnrolled, subject: "ended",
                    message: held(store.notEnrolledEnded)
                        + "recorded without an enrollment by a strap that was then forgotten, or "
                        + "paired for somebody else",
                    advice: "edge-gateway queue assign lists them, and gives them to an "
                        + "enrollment; without one, run edge-gateway enroll LINK first; if "
                        + "somebody only tried the strap: edge-gateway queue discard"))
        }
        return found
    }
}
