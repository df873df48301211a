import Basics
import GRDB

/// The work that the deliveries have under way: samples they were given, requests, outcomes that the store does not have yet,
/// and patients whose samples they keep back.
struct OpenDeliveries: Sendable {
    var lent = LentSamples()
    /// The last request of each delivery that sent one in this run.
    private var requests: [Int64: Request] = [:]
    private var requestsBefore: [Int64: Request] = [:]
    /// Outcomes that are written with the next transaction, by delivery.
    private var unwritten: [Int64: UnwrittenOutcomes] = [:]
    /// Whether transactions take them along: not since one failed that did, until they are written by
    /// themselves, so that they cost other data nothing.
    private var takesOutcomesAlong = true
    /// Why single patients' samples are held, by delivery and patient. In memory only: after a start the first
    /// refusal says it again.
    private(set) var patientHolds: [Int64: [String?: String]] = [:]

    // MARK: - Requests

    enum Request: Sendable {
        /// Sent; what became of it is not known.
        case unanswered
        /// Answered for certain: the exchange does not work on it any more.
        case answered
    }

    func lastRequest(of enrollment: Int64) -> Request? { requests[enrollment] }

    mutating func noteRequest(_ request: Request, of enrollment: Int64) {
        requests[enrollment] = request
    }

    /// Notes a request that begins; `before` is what to return to when nothing of it is sent.
    mutating func beginRequest(of enrollment: Int64, before: Request) {
        requestsBefore[enrollment] = before
        requests[enrollment] = .unanswered
    }

    mutating func cancelRequest(of enrollment: Int64) {
        requests[enrollment] = requestsBefore[enrollment] ?? .answered
    }

    /// The deliveries whose last request was answered.
    var answered: [Int64] {
        requests.compactMap { enrollment, request in
            if case .answered = request { enrollment } else { nil }
        }
    }

    // MARK: - Outcomes

    var hasUnwritten: Bool { !unwritten.isEmpty }

    /// Uptime at which the oldest outcome came that is not written.
    var unwrittenSince: Uptime? { unwritten.values.compactMap(\.since).min() }

    /// Outcomes to be written with the next transaction.
    mutating func add(
        _ outcomes: [SettledSample], _ upload: UploadRecord?, of enrollment: Int64,
        at uptime: Uptime
    ) {
        unwritten[enrollment, default: UnwrittenOutcomes()].add(outcomes, upload, at: uptime)
    }

    /// Takes what waits to be written of one delivery, to be written by itself.
    mutating func takeUnwritten(of enrollment: Int64) -> UnwrittenOutcomes? {
        unwritten.removeValue(forKey: enrollment)
    }

    /// Outcomes that the disk refused.
    mutating func putBack(_ outcomes: UnwrittenOutcomes, of enrollment: Int64) {
        unwritten[enrollment] = outcomes
    }

    /// Writes what waits along with something else, as far as it fits the books.
    func writeAlong(_ db: Database, wall: UTC?) throws -> [Int64: UnwrittenOutcomes] {
        guard takesOutcomesAlong else { return [:] }
        return try unwritten.filter { try $0.value.fits(db, $0.key, lent, wall: wall) }
    }

    /// The store has these outcomes of one delivery.
    mutating func written(_ outcomes: UnwrittenOutcomes, of enrollment: Int64) {
        takesOutcomesAlong = true
        writtenAlong([enrollment: outcomes])
    }

    /// The same for those that went along.
    mutating func writtenAlong(_ all: [Int64: UnwrittenOutcomes]) {
        for (enrollment, outcomes) in all {
            unwritten[enrollment] = nil
            lent.settled(outcomes.samples, by: enrollment)
        }
        if !all.isEmpty { FaultPoint.settled.reach() }
    }

    /// A transaction failed that took outcomes along.
    mutating func failedAlong() {
        if hasUnwritten { takesOutcomesAlong = false }
    }

    /// The store is another one: samples that were lent from the one before are offered again, under their identities.
    mutating func forgetStore() {
        lent = LentSamples()
        unwritten = [:]
        takesOutcomesAlong = true
    }

    // MARK: - Holds

    mutating func hold(_ patients: [String?: String], of enrollment: Int64) {
        patientHolds[enrollment] = patients.isEmpty ? nil : patients.mapValues(\.bounded)
    }

    /// Ends the holds of a patient, or with nil of all patients of a delivery.
    mutating func release(_ patient: String?, of enrollment: Int64) {
        if let patient {
            patientHolds[enrollment]?[patient] = nil
        } else {
            patientHolds[enrollment] = nil
        }
    }
}
