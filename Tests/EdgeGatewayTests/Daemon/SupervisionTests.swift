import Health
import Logging
import ServiceLifecycle
import Synchronization
import Testing

@testable import EdgeGateway

@Suite struct SupervisionTests {
    private struct Broken: Error, CustomStringConvertible {
        var description: String { "address in use" }
    }

    /// A part that fails some times and then runs until it is cancelled.
    private struct Part: Service {
        var failure: (any Error)?
        let runs: @Sendable () -> Void

        func run() async throws {
            if let failure { throw failure }
            runs()
        }
    }

    @Test func aPartThatFailsIsStartedAgainAndSaidMeanwhile() async throws {
        let clock = ImmediateClock()
        let states = ServiceStates()
        let tries = Mutex(0)
        let seen = Mutex<[String]>([])
        let task = Mutex<Task<Void, any Error>?>(nil)
        let supervised = Supervised(
            name: "radio", states: states, logger: Logger(label: "test"), clock: clock.uptime
        ) {
            let count = tries.withLock {
                $0 += 1
                return $0
            }
            seen.withLock { $0.append(states.faults().first?.fault ?? "") }
            // As a server whose address cannot be parsed, and as one that cannot bind.
            if count == 1 { throw Broken() }
            return Part(failure: count < 7 ? Broken() : nil) {
                #expect(states.faults().isEmpty)
                task.withLock { $0?.cancel() }
            }
        }
        let run = Task {
            // Until the task is known, so that the part can end it.
            while task.withLock({ $0 }) == nil { await Task.yield() }
            try await supervised.run()
        }
        task.withLock { $0 = run }
        try await run.value
        #expect(seen.withLock { $0 } == [""] + Array(repeating: "address in use", count: 6))
        #expect(clock.slept == [1, 2, 4, 8, 16, 30].map { .seconds($0) })
    }
}
