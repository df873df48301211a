import Health
import Logging
import ServiceLifecycle
import Synchronization

/// Which parts of the daemon run.
final class ServiceStates: Sendable {
    /// By name, why it does not run.
    private let states = Mutex<[String: String]>([:])

    /// A part began.
    func runs(_ name: String) { states.withLock { $0[name] = nil } }

    /// A part does not run.
    ///
    /// - Parameter fault: why, and the setting to look at if there is one; it names no secret.
    func failed(_ name: String, _ fault: String) { states.withLock { $0[name] = fault } }

    /// The parts that do not run, by name.
    func faults() -> [HealthSnapshot.Service] {
        states.withLock { states in
            states.sorted { $0.key < $1.key }.map {
                HealthSnapshot.Service(name: $0.key, fault: $0.value)
            }
        }
    }
}

/// A part of the daemon that is started again when it ends before the daemon does: no part takes the
/// others with it, and none goes without a word.
struct Supervised: Service {
    let name: String
    let states: ServiceStates
    let logger: Logger
    var clock: any Clock<Duration> & Sendable = ContinuousClock()
    /// Makes the part anew for each start.
    let part: @Sendable () async throws -> any Service

    func run() async throws {
        await KeepRunning.keepRunning(
            clock: clock,
            {
                let part = try await part()
                states.runs(name)
                try await part.run()
            },
            report: { fault in
                guard let fault else { return }
                states.failed(name, fault)
                logger.error("\(name) stopped", metadata: ["fault": "\(fault)"])
            })
    }
}
