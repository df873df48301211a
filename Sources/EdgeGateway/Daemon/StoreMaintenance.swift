import Logging
import OfflineQueue
import ServiceLifecycle

/// The store's housekeeping: commits that are due, the clock, old delivered samples, and a look at every row
/// now and then.
struct StoreMaintenance: Service {
    /// How often it checks for a due commit and a changed clock; bounds how late a commit can be.
    private static let tick = Duration.seconds(1)
    /// Delivered samples are pruned this often: deleting more rarely means longer transactions.
    private static let ticksPerPrune = 600

    let queue: SampleQueue
    let clock: any GatewayClock
    let logger: Logger
    /// Called when the store can be written again that could not be when the gateway began.
    let onReturn: @Sendable () async -> Void

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var ticks = 0
            var wasFailing = false
            var wasAbsent = await queue.health().isAbsent
            while !Task.isCancelled {
                await queue.commitIfDue()
                await noteClock()
                await queue.checkNextRows()
                if ticks % Self.ticksPerPrune == 0 { await prune() }
                ticks += 1
                let facts = await queue.health()
                if wasAbsent, !facts.isAbsent { await onReturn() }
                wasAbsent = facts.isAbsent
                let fault = facts.fault
                if let fault, !wasFailing { logger.error("\(fault)") }
                if fault == nil, wasFailing { logger.notice("the store takes samples again") }
                wasFailing = fault != nil
                try? await Task.sleep(for: Self.tick)
            }
        }
    }

    private func noteClock() async {
        do {
            try await queue.noteClock(clock.read())
        } catch {
            // It is tried again at the next tick; nothing is sent meanwhile.
            logger.debug("note clock: \(error)")
        }
    }

    private func prune() async {
        do {
            let pruned = try await queue.prune()
            if pruned > 0 { logger.debug("pruned", metadata: ["samples": "\(pruned)"]) }
        } catch {
            logger.warning("prune: \(error)")
        }
    }
}
