import Foundation
import Testing
import VirtualTime

private let environment = ProcessInfo.processInfo.environment

/// The whole gateway under virtual time: `make simulate`. It makes its thread's executor that of the process, and so has
/// a process of its own.
@Suite(.enabled(if: environment["SIMULATE"] != nil, "make simulate")) struct SimulationTests {
    @Test func noFrameIsLostOrTakenForAnothersWhateverHappensAtOnce() async {
        let failures = await withCheckedContinuation { continuation in
            let thread = Thread {
                VirtualExecutors.install()
                let failures = Simulation(environment).run()
                VirtualExecutors.leave()
                continuation.resume(returning: failures)
            }
            // SQLite and debug builds need some.
            thread.stackSize = 16 << 20
            thread.start()
        }
        #expect(failures.isEmpty, "seeds \(failures)")
    }
}
