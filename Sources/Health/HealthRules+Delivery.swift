import Basics

extension HealthRules {
    /// Faults of each delivery, and samples that no delivery takes.
    static func deliveries(_ snapshot: HealthSnapshot) -> [HealthCondition] {
        together(snapshot.deliveries) { fault(of: $0) }.compactMap { whole($0) }
            + snapshot.deliveries.flatMap { parts($0) } + accounts(snapshot.store)
    }

    /// Deliveries that one cause keeps from delivering: of one, or of all to one place.
    struct Together {
        /// Their words in a message: the name of one, or how many there are.
        let label: String
        /// The name of one, or the place with what is wrong there: what does not change while more of them fail.
        let subject: String
        /// The first of them: its fault, its hold and its remedies are those of all.
        let first: HealthSnapshot.Delivery
        let all: [HealthSnapshot.Delivery]

        init(
            _ all: [HealthSnapshot.Delivery], first: HealthSnapshot.Delivery, faultOfPlace: String?
        ) {
            label =
                all.count == 1
                ? first.name : "\(all.count.counted("delivery", "deliveries")) to \(first.place)"
            subject = faultOfPlace.map { "\(first.place) \($0)" } ?? first.name
            self.first = first
            self.all = all
        }

        func condition(
            _ name: HealthName, _ message: String, advice: String? = nil
        ) -> HealthCondition {
            HealthCondition(
                name, subject: subject, deliveries: all.map(\.name),
                message: "\(label): \(message)", advice: advice)
        }
    }

    /// The causes that may keep a delivery from delivering.
    enum Fault: Hashable {
        /// A fault of this delivery; it says nothing about others.
        case own
        /// A fault that all deliveries to this place have.
        case ofPlace(String)
    }

    /// The deliveries that have a fault. Those with a fault of the same place form one group.
    static func together(
        _ deliveries: [HealthSnapshot.Delivery], _ fault: (HealthSnapshot.Delivery) -> Fault?
    ) -> [Together] {
        struct Key: Hashable { let fault, place: String }
        var order: [(Key?, [HealthSnapshot.Delivery])] = []
        var known: [Key: Int] = [:]
        for delivery in deliveries {
            switch fault(delivery) {
            case nil: break
            case .ofPlace(let what)? where !delivery.place.isEmpty:
                let key = Key(fault: what, place: delivery.place)
                if let index = known[key] {
                    order[index].1.append(delivery)
                } else {
                    known[key] = order.count
                    order.append((key, [delivery]))
                }
            case .own?, .ofPlace?: order.append((nil, [delivery]))
            }
        }
        return order.map { Together($0.1, first: $0.1[0], faultOfPlace: $0.0?.fault) }
    }

    private static func fault(of delivery: HealthSnapshot.Delivery) -> Fault? {
        if delivery.wantsEnrolling { return .own }
        if let hold = delivery.hold {
            return hold.cause == .place ? .ofPlace(hold.reason) : .own
        }
        // The board is its own item.
        if delivery.waitsForBoard { return nil }
        if delivery.stopped != nil { return .own }
        return delivery.fault == nil ? nil : .ofPlace("unreachable")
    }

    private static func whole(_ together: Together) -> HealthCondition? {
        let delivery = together.first
        if delivery.wantsEnrolling {
            return together.condition(
                .enrollAgain,
                (delivery.hasUnreadableTokens
                    ? "the tokens or secrets cannot be read (log: \"load tokens\")"
                    : "this gateway is no longer authorized there") + kept,
                advice: enrollingAgain(delivery))
        }
        if let hold = delivery.hold {
            return together.condition(
                hold.cause == .consent ? .consentMissing : .deliveryHeld,
                "\(hold.meaning) (\(hold.reason))" + (hold.detail.map { ": " + $0 } ?? "") + kept,
                advice: hold.cause == .paused
                    ? "edge-gateway destination resume \(delivery.name.shellWord)"
                    : "\(hold.remedy); delivery resumes by itself")
        }
        if let stopped = delivery.stopped {
            return together.condition(.serviceStopped, "the delivery does not run: \(stopped)")
        }
        guard let fault = delivery.fault else { return nil }
        return together.condition(
            .exchangeUnreachable, "\(fault); samples are kept",
            advice: delivery.faultRemedy.map { "\($0); delivery resumes by itself" })
    }

    /// The end of a message; it is true also if no samples wait.
    private static let kept = "; nothing is sent there, and samples are kept"

    private static func enrollingAgain(_ delivery: HealthSnapshot.Delivery) -> String {
        switch delivery.kind {
        case .practitionerKey:
            "edge-gateway enroll --practitioner-key-file FILE --name \(delivery.name.shellWord)"
        case .destination:
            "edge-gateway destination add with its settings and --name \(delivery.name.shellWord) again"
        case .invitation: "edge-gateway enroll LINK with a new invitation of this patient"
        }
    }

    /// Patients whose samples are held while the others' go on. The strap is named, never the patient.
    private static func parts(_ delivery: HealthSnapshot.Delivery) -> [HealthCondition] {
        delivery.heldStraps.map { held in
            let subject = "\(delivery.name) \(held.strap)"
            let patient = "the patient who \(held.isWorn ? "wears" : "wore") it"
            let kept = "that patient's samples are not sent, and all are kept"
            guard held.hold.cause != .consent else {
                return HealthCondition(
                    .consentMissing, subject: subject, strap: held.strap,
                    message: "\(held.label): \(patient) has not consented to heart rate; \(kept)",
                    stopsHeartbeats: held.isWorn)
            }
            return HealthCondition(
                .patientHeld, subject: subject, strap: held.strap,
                message: "\(held.label): \(delivery.name) may not deliver for \(patient) "
                    + "(\(held.hold.reason)); \(kept)",
                advice: delivery.kind != .destination && held.hold.cause == .access
                    ? "the patient must share an organization with the practitioner; see "
                        + "docs/operate/operations.md, \"Why a delivery is held\""
                    : held.hold.remedy,
                stopsHeartbeats: held.isWorn)
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

    /// The remedy depends on whether the strap still records: pairing binds the open assignment alone.
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
                        + "edge-gateway pair STRAP again; if somebody only tries the strap: "
                        + "edge-gateway forget STRAP, then edge-gateway queue discard"))
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
                        + "somebody only tried the strap: edge-gateway queue discard",
                    stopsHeartbeats: false))
        }
        return found
    }
}
