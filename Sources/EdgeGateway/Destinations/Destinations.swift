import Basics
import Foundation
import OfflineQueue
import Uplink

/// The places that samples are delivered to, as commands see them.
struct Destinations: Sendable {
    /// Days that one comparison shows, by default and at most: a month, in which a site changes from one
    /// system to another, and more than ten years.
    static let comparedDays = (standard: 30, most: 4_000)

    let queue: SampleQueue
    let deliveries: Deliveries
    let clock: any GatewayClock

    /// Every destination with the state of its delivery, exchanges too.
    func reports() async throws -> [DestinationReport] {
        try await reports(on: queue.enrollments())
    }

    /// The destinations that a person has added; ``Enrollments`` has the exchanges.
    func addedReports() async throws -> [DestinationReport] {
        try await reports(on: queue.enrollments().filter { $0.terms.kind == .destination })
    }

    private func reports(on enrollments: [Enrollment]) async throws -> [DestinationReport] {
        // Of all of them at once: there may be hundreds.
        let (straps, last) = (
            try await queue.sensorsOfDestinations(), try await queue.lastDeliveries()
        )
        var reports: [DestinationReport] = []
        for enrollment in enrollments {
            reports.append(
                try await report(on: enrollment, straps[enrollment.id] ?? 0, last[enrollment.id]))
        }
        return reports
    }

    /// One destination with the state of its delivery.
    func report(on enrollment: Enrollment) async throws -> DestinationReport {
        try await report(
            on: enrollment, try await queue.sensorsOfDestinations()[enrollment.id] ?? 0,
            try await queue.lastDeliveries()[enrollment.id])
    }

    private func report(
        on enrollment: Enrollment, _ straps: Int, _ last: UTC?
    ) async throws -> DestinationReport {
        let terms = enrollment.terms
        let balance = try await queue.balance(of: .enrollment(enrollment.id))
        let kind: String =
            switch terms.kind {
            case .invitation, .practitionerKey: "exchange"
            case .destination: terms.system ?? ""
            }
        return DestinationReport(
            id: enrollment.id, name: terms.name, kind: kind, place: terms.origin,
            state: enrollment.isPaused ? HoldReason.paused.rawValue : enrollment.state.rawValue,
            held: enrollment.isPaused ? nil : enrollment.holdReason,
            fault: await deliveries.fault(of: enrollment.id),
            partialFault: await deliveries.facts(of: enrollment.id)?.partialFault,
            everyStrap: terms.takesEveryStrap, straps: straps,
            keepDays: terms.keep.map { Int($0 / Coverage.day) },
            resolution: terms.resolution, pending: balance.unsent, delivered: balance.delivered,
            dead: balance.dead, dropped: balance.dropped,
            lastDelivery: last.map { Date($0) })
    }

    /// The counts of two destinations for the samples that go to both, day by day.
    func compare(_ ask: DestinationCompareRequest) async throws -> DestinationComparisonReport {
        guard ask.names.count == 2, ask.names[0] != ask.names[1] else {
            throw ProblemReport(
                code: .badRequest, message: "a comparison needs two destinations",
                advice: "edge-gateway destination compare ONE OTHER")
        }
        let days = ask.days ?? Self.comparedDays.standard
        guard 1...Self.comparedDays.most ~= days else {
            throw ProblemReport(
                code: .badRequest, message: "days must be 1 to \(Self.comparedDays.most)",
                advice: "edge-gateway destination compare ONE OTHER --last 30d")
        }
        let first = try await known(ask.names[0])
        let second = try await known(ask.names[1])
        let since = Coverage.dayStart(of: clock.read().wall - Coverage.day * (days - 1))
        let found = try await queue.compare(first.id, second.id, since: since)
        return DestinationComparisonReport(
            names: ask.names, days: found.days.map(DestinationComparisonReport.Day.init),
            alone: [found.firstOnly, found.secondOnly], same: found.isSame)
    }

    /// The destination of this name, exchanges too.
    func known(_ name: String) async throws -> Enrollment {
        let all = try await queue.enrollments()
        guard let enrollment = all.named(name) else {
            throw ProblemReport(
                code: .unknownEnrollment, message: "there is no destination of that name",
                advice: "edge-gateway destination list lists them")
        }
        return enrollment
    }

    /// The added destination of this name; enrollments do not count.
    func added(_ name: String) async throws -> Enrollment {
        let enrollment = try await known(name)
        guard enrollment.terms.kind == .destination else {
            throw ProblemReport(
                code: .badRequest, message: "\(name) is an enrollment, not an added destination",
                advice:
                    "edge-gateway erase \(name.shellWord) removes an enrollment, with everything "
                    + "that was recorded for it")
        }
        return enrollment
    }
}

extension EnrollmentTerms {
    /// The places for a person to look at while deliveries fail.
    var faultRemedy: String {
        let type = try? DestinationRegistry.kind(system ?? "")
        return type?.faultRemedy ?? DestinationRegistry.faultRemedy
    }
}

extension DestinationComparisonReport.Day {
    fileprivate init(_ day: ComparedDay) {
        func date(_ day: Int64) -> Date { Date(UTC(day: day)) }
        self.init(
            day: (day.days?.lowerBound).map(date),
            until: day.days.flatMap { $0.count > 1 ? date($0.upperBound) : nil },
            samples: day.samples,
            counts: [day.first, day.second].map { books in
                DestinationComparisonReport.Counts(
                    delivered: books.delivered, waiting: books.waiting, refused: books.dead,
                    dropped: books.dropped, before: books.before)
            })
    }
}
