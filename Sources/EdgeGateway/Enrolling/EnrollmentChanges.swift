import Basics
import Foundation
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

/// The content of an enrollment's file.
enum Credentials {
    case tokens(TokenRecord)
    /// Of a destination that is not an exchange.
    case secrets(DestinationSecrets)
}

/// The changes of an enrollment: its row in the store, its tokens and its delivery, all of it or nothing.
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
        _ terms: EnrollmentTerms, insteadOf known: Enrollment?, _ credentials: Credentials,
        hold: HoldReason? = nil
    ) async throws -> Enrollment {
        let id: Int64 = try await alone {
            guard let known else { return try await add(terms, credentials, hold: hold?.rawValue) }
            return try await renew(known, terms, credentials, hold: hold?.rawValue)
        }
        logger.info("enrolled", metadata: ["enrollment": "\(terms.name)"])
        guard let stored = try await queue.enrollments().first(where: { $0.id == id }) else {
            throw QueueError(.unknownReference, "enroll", "it is gone")
        }
        return stored
    }

    /// The tokens are stored first: that is what fails on a disk that is full or read-only.
    private func add(
        _ terms: EnrollmentTerms, _ credentials: Credentials, hold: String?
    ) async throws -> Int64 {
        let id = try await queue.nextEnrollmentID()
        try failing(.tokens)
        let remove = try save(credentials, of: id)
        do {
            try failing(.store)
            try await queue.enroll(terms, as: id, hold: hold)
        } catch {
            remove()
            throw error
        }
        // From here on the enrollment is complete: a delivery that does not start is started later.
        try? await startDelivery(of: id)
        return id
    }

    private func renew(
        _ known: Enrollment, _ terms: EnrollmentTerms, _ credentials: Credentials, hold: String?
    ) async throws -> Int64 {
        // A delivery that runs may renew the tokens that are being replaced.
        await deliveries.stop(known.id)
        do {
            let present = try await queue.enrollments().first { $0.id == known.id } ?? known
            // A delivery that a person paused goes on when a person says so.
            let hold = present.isPaused ? HoldReason.paused.rawValue : hold
            if case .secrets(let secrets) = credentials {
                // Before the new terms are stored: afterwards nobody knows where the old ones published something.
                _ = try await deliveries.withdraw(
                    present, tokens: tokenPath(of: known.id), for: terms.destination(secrets))
            }
            try failing(.tokens)
            let putBack = try save(credentials, of: known.id)
            do {
                try failing(.store)
                try await queue.renewEnrollment(known.id, terms: terms, hold: hold)
            } catch {
                putBack()
                throw error
            }
        } catch {
            try? await startDelivery(of: known.id)
            throw error
        }
        try? await startDelivery(of: known.id)
        return known.id
    }

    /// Stores what belongs into the file of an enrollment; returns what puts the earlier file back.
    private func save(_ credentials: Credentials, of id: Int64) throws -> () -> Void {
        switch credentials {
        case .tokens(let tokens): return try save(tokens, in: tokenFile(of: id))
        case .secrets(let secrets): return try save(secrets, in: secretFile(of: id))
        }
    }

    private func save<Record: Codable & Sendable>(
        _ record: Record, in file: SecretFile<Record>
    ) throws -> () -> Void {
        var earlier: Record?
        var isNew = false
        do throws(SecretFile<Record>.Fault) {
            earlier = try file.load()
        } catch {
            if case .missing = error { isNew = true }
        }
        do {
            try file.save(record)
        } catch {
            throw ProblemReport(
                code: .tokensNotStored, message: "nothing was changed: \(error)",
                advice: "make the state directory writable, then give the same command again")
        }
        return { [logger, earlier, isNew] in
            do {
                if let earlier {
                    try file.save(earlier)
                } else if isNew {
                    try file.remove()
                }
            } catch {
                // The new ones are for the same patient, and serve as well.
                logger.error("put the earlier tokens back", metadata: ["fault": "\(error)"])
            }
        }
    }

    /// Has a delivery take the person whom the exchange names now for the one who was enrolled.
    ///
    /// - Throws: ``ProblemReport``; then nothing was changed.
    func confirmPerson(_ patient: String?, of enrollment: Enrollment) async throws {
        let fault = try await alone {
            guard let answer = await deliveries.confirmPerson(patient, of: enrollment.id) else {
                throw ProblemReport(
                    code: .enrollAgain, message: "the delivery does not run",
                    advice:
                        "edge-gateway destination resume \(enrollment.terms.name.shellWord), if it is paused; "
                        + "else enroll again with --person same")
            }
            return answer
        }
        switch fault {
        case .confirmed: logger.notice("a person confirmed whose number the patient's is")
        case .otherNumber where patient != nil:
            throw ProblemReport(
                code: .noHeartRateStudy, message: "no study of this patient collects heart rate",
                advice: "ask the study's staff to add it, then confirm the patient")
        case .otherNumber:
            throw ProblemReport(
                code: .patientChanged, message: "the tokens are for another patient's number",
                advice: "enroll again with an invitation of the right patient")
        case .notAsked(let why):
            throw ProblemReport(
                code: .exchangeUnreachable,
                message: "the exchange cannot be asked about the patient: \(why)",
                advice: "try again when it answers; nothing was changed")
        }
    }

    // MARK: - Tokens and deliveries

    /// Where the tokens of an enrollment are, whether there are any or not.
    func tokenFile(of enrollment: Int64) -> TokenFile {
        TokenFile(path: tokenPath(of: enrollment), policy: sealTokens)
    }

    /// The same file, as a destination that is not an exchange has it.
    func secretFile(of enrollment: Int64) -> SecretFile<DestinationSecrets> {
        SecretFile(path: tokenPath(of: enrollment), policy: sealTokens)
    }

    private func tokenPath(of enrollment: Int64) -> String {
        stateDirectory + "/tokens-\(enrollment).json"
    }

    /// Starts the delivery of an enrollment, or says in the books that it cannot run. One that a person has
    /// paused stays as it is.
    func startDelivery(of id: Int64) async throws {
        guard let enrollment = try await queue.enrollments().first(where: { $0.id == id })
        else { return }
        try await startDelivery(of: enrollment)
    }

    private func startDelivery(of enrollment: Enrollment) async throws {
        guard !enrollment.isPaused else { return }
        let id = enrollment.id
        let hasTokens = await deliveries.start(enrollment, tokens: tokenPath(of: id))
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
                let enrollments = try await queue.enrollments()
                await clearUp(Set(enrollments.map(\.id)))
                for enrollment in enrollments
                where await !deliveries.isRunning(enrollment.id) {
                    try await startDelivery(of: enrollment)
                }
            } catch {
                logger.error("start delivery: \(error)")
            }
            await deliveries.noteAllStarted()
        }
    }

    /// Clears up what a power cut has left beside token files, whose deliveries do not run: the store says whether
    /// the erasure that had set one aside was done.
    private func clearUp(_ known: Set<Int64>) async {
        // A copy that can be read instead of the store may be older than the erasure.
        guard await !queue.health().isAbsent else { return }
        let names = try? FileManager.default.contentsOfDirectory(atPath: stateDirectory)
        for name in names ?? [] {
            guard let left = name.wholeMatch(of: /tokens-([0-9]+)\.json\.(new|erasing)/),
                let id = Int64(left.1), await !deliveries.isRunning(id)
            else { continue }
            do {
                try tokenFile(of: id).clearUp(isKept: known.contains(id))
            } catch {
                logger.error("clear up token files", metadata: ["fault": "\(error)"])
            }
        }
    }
}

extension Enrollment {
    /// Whether a person has paused its delivery.
    var isPaused: Bool { holdReason == HoldReason.paused.rawValue }
}
