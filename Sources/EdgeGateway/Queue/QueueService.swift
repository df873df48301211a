import Basics
import Foundation
import Logging
import OfflineQueue

/// The store as commands see it.
struct QueueService: Sendable {
    let queue: SampleQueue
    let deadLetters: DeadLetterService
    let deliveries: Deliveries
    let logger: Logger

    /// How full the store is, where its samples are, and what became of broken ones.
    func report() async throws -> QueueReport {
        let balance = try await queue.balance()
        let fill = try await queue.fill()
        let boots = try await queue.untrustedBoots().count
        var destinations: [DestinationBooksReport] = []
        for enrollment in try await queue.enrollments() {
            let books = try await queue.balance(of: .enrollment(enrollment.id))
            destinations.append(
                DestinationBooksReport(name: enrollment.terms.name, balance: BalanceReport(books)))
        }
        return QueueReport(
            balance: BalanceReport(balance), destinations: destinations,
            oldestUnsent: balance.oldestUnsent.map { Date($0) },
            usedBytes: fill.usedBytes, reclaimableBytes: fill.reclaimableBytes,
            logBytes: fill.logBytes, maxBytes: fill.maxBytes, fullPolicy: fill.policy.rawValue,
            full: fill.isFull, clockUnknownBoots: boots,
            salvages: try await queue.salvages().map(SalvagedStoreReport.init))
    }

    /// Stored samples, newest first.
    ///
    /// - Parameter state: one of ``ListedSample/State``; nil for all.
    func samples(
        state: String?, sensor: Int64?, since: UTC? = nil, until: UTC? = nil, limit: Int
    ) async throws -> SamplesReport {
        try Listing.check(limit: limit)
        let chosen = state.flatMap(ListedSample.State.init(rawValue:))
        guard state == nil || chosen != nil else {
            throw ProblemReport(
                code: .badRequest, message: "unknown state",
                advice: "one of "
                    + ListedSample.State.allCases.map(\.rawValue).joined(separator: ", "))
        }
        let names = try await StoreNames(queue)
        let found = try await queue.samples(
            state: chosen, sensor: sensor, since: since, until: until,
            limit: min(limit + 1, SampleQueue.listedMax))
        return SamplesReport(
            samples: found.prefix(limit).map { sample in
                SampleReport(
                    id: sample.id,
                    time: sample.time.map { Date($0) },
                    timeUncertaintyMs: sample.timeUncertainty?.millisecondsAtMost,
                    sensor: sample.sensorID, address: names.address(sample.sensorID),
                    name: names.name(sample.sensorID),
                    enrollment: sample.enrollmentID.flatMap(names.enrollment),
                    bpm: StoreNames.bpm(sample.frame), state: sample.state.rawValue,
                    reason: sample.reason)
            }, more: found.count > limit)
    }

    /// Deletes what is done with, and dead letters if asked for.
    func purge(_ ask: PurgeRequest) async throws -> PurgeReport {
        let horizon = try await horizon(olderThanHours: ask.olderThanHours ?? 0)
        var report = PurgeReport(delivered: 0, dead: 0)
        var count = 0
        repeat {
            count = try await queue.purgeSettled(before: horizon)
            report.delivered += count
        } while count >= SampleQueue.pruneRowsMax
        if ask.dead ?? false {
            report.dead = try await deadLetters.each { letters in
                let old = letters.filter { letter in
                    horizon.map { horizon in letter.time.map { $0 < horizon } ?? false } ?? true
                }
                return try await queue.purge(deadLetters: old.map(\.sampleID))
            }
        }
        return report
    }

    private func horizon(olderThanHours hours: Int) async throws -> UTC? {
        guard (0...Self.purgeHoursMax).contains(hours) else {
            throw ProblemReport(
                code: .badRequest, message: "hours must be 0 to \(Self.purgeHoursMax)",
                advice: "edge-gateway queue purge --older-than 24h")
        }
        guard hours > 0 else { return nil }
        guard let now = await queue.presentTime else {
            throw ProblemReport(
                code: .clockUntrusted,
                message: "the age of the samples is unknown: the clock was never trusted since the "
                    + "machine started, or has jumped to another date",
                advice: "timedatectl, and for a jump: edge-gateway queue release; "
                    + "or purge without --older-than")
        }
        return now - .seconds(Int64(hours) * 3_600)
    }

    /// A hundred years: far beyond any store, and far from any overflow.
    private static let purgeHoursMax = 876_000

    // MARK: - Clocks

    /// The boots with an untrusted clock, whose samples wait for a time.
    func untrustedBoots() async throws -> [BootReport] {
        try await queue.untrustedBoots().map { boot in
            BootReport(
                boot: boot.bootID, running: boot.isRunning, held: boot.held,
                firstUptime: (boot.uptimes.lowerBound - .zero).inSeconds,
                lastUptime: (boot.uptimes.upperBound - .zero).inSeconds,
                earliestOffset: boot.earliestOffset.inSeconds,
                latestOffset: boot.latestOffset?.inSeconds)
        }
    }

    /// Sets the time of a boot, as a technician states it: its samples are delivered.
    func release(_ ask: ReleaseRequest) async throws -> SampleCountReport {
        guard let offset = Int64(exactly: (ask.offset * 1_000_000).rounded()) else {
            throw ProblemReport(
                code: .badRequest, message: "this is not a time",
                advice: "edge-gateway queue release")
        }
        let held = try await queue.untrustedBoots().first { $0.bootID == ask.boot }?.held
        try await queue.release(bootID: ask.boot, wallOffset: .microseconds(offset))
        logger.notice("a technician set the time of a boot")
        await deliveries.wakeAll()
        return SampleCountReport(samples: held ?? 0)
    }

    // MARK: - Broken stores

    /// Acknowledges the reports on broken stores.
    ///
    /// - Returns: those that were not acknowledged before.
    func acknowledgeSalvages() async throws -> [SalvagedStoreReport] {
        let unseen = try await queue.salvages().filter { !$0.isAcknowledged && $0.isDone }
        try await queue.acknowledgeSalvages()
        return unseen.map(SalvagedStoreReport.init)
    }
}

extension SalvagedStoreReport {
    init(_ salvage: SalvageReport) {
        self.init(
            at: Date(salvage.at), brokenFile: salvage.brokenFile,
            cause: salvage.cause, stored: salvage.stored?.samples,
            storedAt: salvage.stored.map { Date($0.at) },
            carried: salvage.carried, damaged: salvage.damaged, orphaned: salvage.orphaned,
            unknown: salvage.unknown, done: salvage.isDone, fault: salvage.fault,
            acknowledged: salvage.isAcknowledged)
    }

    /// In words.
    var figures: String {
        let had = stored.map { samples in
            "had \(samples)" + (storedAt.map { " at \(Terminal.time($0)) UTC" } ?? "") + ", "
        }
        let rest = unknown.map { "unknown \($0)" } ?? "unknown how many more"
        return (had ?? "") + "saved \(carried), damaged \(damaged), orphaned \(orphaned), "
            + (done ? rest : "and more are being read")
            + (fault.map { "; in the way: \(Printable.line($0))" } ?? "")
    }
}
