import Basics
import Logging
import OfflineQueue
import ServiceLifecycle

/// The store's housekeeping: commits that are due, the clock, old delivered samples, and a look at every row
/// now and then.
struct StoreMaintenance: Service {
    /// Delivered samples are pruned this often: deleting more rarely means longer transactions.
    private static let prunePause = Duration.seconds(600)

    let queue: SampleQueue
    let clock: any GatewayClock
    let logger: Logger
    let startup: Startup

    func run() async throws {
        // Its waits and its calls then wake one thread.
        await withTaskExecutorPreference(queue.tasks) {
            await cancelWhenGracefulShutdown { await tend() }
        }
    }

    private func tend() async {
        var pruneAt = Uptime.zero
        var wasFailing = false
        while !Task.isCancelled {
            let (facts, next) = await queue.tend()
            let now = clock.read().uptime
            if now >= pruneAt {
                await prune()
                // A backlog leaves free pages in the middle of the heap.
                Heap.trim()
                pruneAt = now + Self.prunePause
            }
            await startup.follow(facts)
            let fault = facts.fault
            if let fault, !wasFailing { logger.error("\(fault)") }
            if fault == nil, wasFailing { logger.notice("the store takes samples again") }
            wasFailing = fault != nil
            await clock.sleep(max(next - now, .zero), tolerance: .zero)
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
