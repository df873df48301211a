import Basics
import ServiceLifecycle

/// Starts a part of the daemon again whenever it ends before the daemon does.
enum KeepRunning {
    /// The pause before the next start. An address that is missing at boot mostly appears within a minute.
    static let pauses = Backoff(first: .seconds(1), longest: .seconds(30))
    /// A part that ran for so long had recovered: its next pause is short again.
    static let recovered = Duration.seconds(60)

    /// A part returned before the daemon ends.
    struct EarlyEnd: Error, CustomStringConvertible {
        let description = "it ended without an error"
    }

    /// Runs `work` until the task is cancelled or the daemon shuts down. When it throws or returns before,
    /// `report` gets the reason, and nil when it is started again after a pause.
    static func keepRunning(
        isolation: isolated (any Actor)? = #isolation,
        pauses: Backoff = pauses, clock: UptimeClock,
        _ work: () async throws -> Void, report: ((any Error)?) async -> Void
    ) async {
        var backoff = pauses
        while !isEnding {
            var fault: any Error = EarlyEnd()
            let began = clock.now()
            do {
                try await work()
            } catch {
                fault = error
            }
            let elapsed = clock.now() - began
            guard !isEnding else { return }
            await report(fault)
            if elapsed >= recovered { backoff.reset() }
            let pause = backoff.next()
            await cancelWhenGracefulShutdown { await clock.sleep(pause) }
            guard !isEnding else { return }
            await report(nil)
        }
    }

    private static var isEnding: Bool { Task.isCancelled || Task.isShuttingDownGracefully }
}
