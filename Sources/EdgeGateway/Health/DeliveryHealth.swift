import Basics
import Health
import OfflineQueue
import Uplink

/// Reads the states of the deliveries and their progress.
struct DeliveryHealth: Sendable {
    let queue: SampleQueue
    let deliveries: Deliveries

    /// The state of each enrollment's delivery; none if the store cannot be read, which is an item of its
    /// own.
    func read(
        history: HealthHistory, counts: HealthHistory.Counts, at uptime: Uptime
    ) async -> [HealthSnapshot.Delivery] {
        guard let enrollments = try? await queue.enrollments() else { return [] }
        let unreadable = await deliveries.unreadable
        var found: [HealthSnapshot.Delivery] = []
        for enrollment in enrollments {
            var delivery = HealthSnapshot.Delivery(id: enrollment.id, name: enrollment.terms.name)
            delivery.place = enrollment.terms.origin
            delivery.kind =
                switch enrollment.terms.kind {
                case .invitation: .invitation
                case .practitionerKey: .practitionerKey
                case .destination: .destination
                }
            delivery.wantsEnrolling = enrollment.state == .enrollAgain
            delivery.hasUnreadableTokens = unreadable.contains(enrollment.id)
            delivery.hold = enrollment.holdReason.map {
                HealthSnapshot.Delivery.Hold($0, system: enrollment.terms.system)
            }
            delivery.fault = await deliveries.fault(of: enrollment.id)
            let facts = await deliveries.facts(of: enrollment.id)
            delivery.interval = facts?.interval ?? .zero
            let advice = facts?.faultAdvice
            delivery.faultRemedy = advice ?? enrollment.terms.faultRemedy
            if delivery.fault != nil {
                delivery.hold?.detail = delivery.fault
                if let advice { delivery.hold?.remedy = advice }
            }
            delivery.waitsForBoard = await deliveries.waitForBoard.contains(enrollment.id)
            delivery.stopped = await deliveries.stopped(enrollment.id)
            delivery.heldStraps = await heldStraps(
                of: enrollment, await deliveries.heldPatients(of: enrollment.id),
                among: enrollments)
            delivery.pending = counts.deliveries[enrollment.id]?.pending ?? 0
            delivery.stalledTime = history.stalledTime(
                of: enrollment.id, now: counts, at: uptime)
            delivery.growth = history.growth(of: enrollment.id, now: counts)
            found.append(delivery)
        }
        return found
    }

    /// Straps whose patient is held in a delivery that serves many. One strap may have been worn by
    /// several patients; it is named once: for its present wearer, if that patient is held.
    func heldStraps(
        of enrollment: Enrollment, _ held: [String?: HoldReason], among enrollments: [Enrollment]
    ) async -> [HealthSnapshot.Delivery.HeldStrap] {
        guard !held.isEmpty, let assignments = try? await queue.assignments(),
            let sensors = try? await queue.sensors(includingForgotten: true)
        else { return [] }
        var found: [Int64: (reason: HoldReason, isWorn: Bool)] = [:]
        for assignment in assignments where found[assignment.sensorID]?.isWorn != true {
            guard let reason = held[assignment.patient(among: enrollments)],
                await goes(assignment, to: enrollment)
            else { continue }
            found[assignment.sensorID] = (reason, assignment.isOpen)
        }
        return sensors.compactMap { sensor in
            found[sensor.id].map {
                HealthSnapshot.Delivery.HeldStrap(
                    strap: sensor.id, label: sensor.label, isWorn: $0.isWorn,
                    hold: .init($0.reason.rawValue, system: enrollment.terms.system))
            }
        }
    }

    private func goes(_ assignment: Assignment, to enrollment: Enrollment) async -> Bool {
        if assignment.enrollmentID == enrollment.id { return true }
        let further = try? await queue.furtherDestinations(of: assignment.id)
        return further?.contains(enrollment.id) == true
    }
}

extension HealthSnapshot.Delivery.Hold {
    private static func cause(_ reason: HoldReason?) -> Cause {
        switch reason {
        case .noConsent: .consent
        case .wrongPatient: .access
        case .paused: .paused
        // The place itself refuses, for every patient.
        case .exchangeFault, .moved, .baseUnknown, .codeUnknown: .place
        default: .other
        }
    }

    /// The words of a stored reason, with the remedy of that kind of system where it has one. A reason that this
    /// version does not know has only its name.
    fileprivate init(_ stored: String, system: String?) {
        let reason = HoldReason(rawValue: stored)
        let kind = system.flatMap { try? DestinationRegistry.kind($0) }
        self.init(
            reason: stored, meaning: reason?.meaning ?? "it takes nothing",
            remedy: reason.map { kind?.remedy($0) ?? $0.remedy }
                ?? "docs/operate/operations.md, \"Why a delivery is held\"",
            cause: Self.cause(reason))
    }
}
