import Logging
import OfflineQueue
import Uplink

/// A step of a change to an enrollment.
enum EnrollmentStep: String, CaseIterable {
    /// The tokens are stored, or removed.
    case tokens
    /// The enrollment is stored, or removed.
    case store
}

/// What changes an enrollment: its row in the store, its tokens and its delivery, all of it or nothing.
///
/// Enrolling, erasing and starting what does not run take turns here: the number of a new enrollment must
/// not go to another's tokens, and no delivery may start while its patient is being erased.
struct EnrollmentChanges: Sendable {
    private let queue: SampleQueue
    private let deliveries: Deliveries
    private let stateDirectory: String
    private let sealTokens: TokenSeal.Policy
    private let logger: Logger
    private let turns = OneAtATime()
    /// Called before each step of a change; what it throws makes the step fail. For tests.
    let failing: @Sendable (EnrollmentStep) throws -> Void

    init(
        queue: SampleQueue, deliveries: Deliveries, settings: Settings, logger: Logger,
        failing: @escaping @Sendable (EnrollmentStep) throws -> Void = { _ in }
    ) {
        self.queue = queue
        self.deliveries = deliveries
        stateDirectory = settings.stateDirectory
        sealTokens = settings.sealTokens
        self.logger = logger
        self.failing = failing
    }

    /// Does `work` while no other change to an enrollment is under way.
    func alone<Value>(_ work: () async throws -> Value) async rethrows -> Value {
        try await turns.run(work)
    }

    /// Stores an enrollment and starts its delivery; with `insteadOf`, in the place of an earlier one for the
    /// same patient. If a step fails, everything is as it was, and an earlier delivery goes on.
    func begin(
        _ terms: EnrollmentTerms, insteadOf known: Enrollment?, _ tokens: TokenRecord?,
        hold: HoldReason? = nil
    ) async throws -> Enrollment {
        let id: Int64 = try await alone {
            guard let known else { return try await add(terms, tokens, hold: hold?.rawValue) }
            return try await renew(known, terms, tokens, hold: hold?.rawValue)
        }
        logger.info("enrolled", metadata: ["enrollment": "\(terms.name)"])
        guard let stored = try await queue.enrollments().first(where: { $0.id == id }) else {
            throw QueueError(.unknownReference, "enroll", "it is gone")
        }
        return stored
    }

    /// The tokens are stored first: that is what fails on a disk that is full or read-only.
    private func add(
        _ terms: EnrollmentTerms, _ tokens: TokenRecord?, hold: String?
    ) async throws -> Int64 {
        let id = try await queue.nextEnrollmentID()
        let file = tokenFile(of: id)
        try failing(.tokens)
        if let tokens { try saveTokens(tokens, in: file) }
        do {
            try failing(.store)
            try await queue.enroll(terms, as: id, hold: hold)
        } catch {
            if tokens != nil { try? file.remove() }
            throw error
        }
        // From here on the enrollment is complete: a delivery that does not start is started later.
        try? await startDelivery(of: id)
        return id
    }

    private func renew(
        _ known: Enrollment, _ terms: EnrollmentTerms, _ tokens: TokenRecord?, hold: String?
    ) async throws -> Int64 {
        let file = tokenFile(of: known.id)
        // A delivery that runs may renew the tokens that are being replaced.
        await deliveries.stop(known.id)
        do {
            try await replace(known.id, terms, tokens, in: file, hold: hold)
        } catch {
            try? await startDelivery(of: known.id)
            throw error
        }
        try? await startDelivery(of: known.id)
        return known.id
    }

    private func replace(
        _ id: Int64, _ terms: EnrollmentTerms, _ tokens: TokenRecord?, in file: TokenFile,
        hold: String?
    ) async throws {
        let earlier = try? file.load()
        try failing(.tokens)
        if let tokens { try saveTokens(tokens, in: file) }
        do {
            try failing(.store)
            try await queue.renewEnrollment(id, terms: terms, hold: hold)
        } catch {
            guard tokens != nil, let earlier else { throw error }
            do {
                try file.save(earlier)
            } catch let fault {
                // The new tokens are for the same patient, and serve as well.
                logger.error("put the earlier tokens back", metadata: ["fault": "\(fault)"])
            }
            throw error
        }
    }

    private func saveTokens(_ tokens: TokenRecord, in file: TokenFile) throws {
        do {
            try file.save(tokens)
        } catch {
            throw ProblemReport(
                code: .tokensNotStored, message: "nothing was changed: \(error)",
                advice: "make the state directory writable, then enroll with the same link again")
        }
    }

    // MARK: - Tokens and deliveries

    /// Where the tokens of an enrollment are, whether there are any or not.
    func tokenFile(of enrollment: Int64) -> TokenFile {
        TokenFile(path: stateDirectory + "/tokens-\(enrollment).json", policy: sealTokens)
    }

    /// Starts the delivery of an enrollment, or says in the books that it cannot run.
    func startDelivery(of id: Int64) async throws {
        guard let enrollment = try await queue.enrollments().first(where: { $0.id == id }) else {
            return
        }
        let hasTokens = await deliveries.start(enrollment, tokens: tokenFile(of: id))
        if !hasTokens {
            try await queue.setState(enrollment: id, .enrollAgain)
        } else if enrollment.state == .enrollAgain,
            enrollment.holdReason != HoldReason.enrollAgain.rawValue
        {
            // The file could not be read at an earlier start; the exchange itself has refused nothing.
            try await queue.setState(enrollment: id, .active)
        }
    }

    /// Starts every delivery that should run and does not: its tokens could not be read, or the store failed
    /// when it was last to start.
    func startMissingDeliveries() async {
        await alone {
            do {
                for enrollment in try await queue.enrollments()
                where await !deliveries.isRunning(enrollment.id) {
                    try await startDelivery(of: enrollment.id)
                }
            } catch {
                logger.error("start delivery: \(error)")
            }
        }
    }
}
