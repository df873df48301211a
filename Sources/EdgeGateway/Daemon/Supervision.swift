import Basics
import Health
import Logging
import ServiceLifecycle
import Synchronization

/// Which parts of the daemon run, its servers among them. Reading it changes nothing.
final class ServiceStates: Sendable {
    /// By the part's name, what `status` says of it.
    private let states = Mutex<[String: HealthSnapshot.Service]>([:])

    /// A part began.
    ///
    /// - Returns: whether it was known not to run.
    @discardableResult
    func runs(_ name: String) -> Bool {
        states.withLock { $0.removeValue(forKey: name) != nil }
    }

    /// A part does not run.
    ///
    /// - Parameter fault: why, under the part's name or that of the setting to look at; it names no secret.
    /// - Returns: whether this is news.
    @discardableResult
    func failed(_ name: String, _ fault: HealthSnapshot.Service) -> Bool {
        states.withLock { $0.updateValue(fault, forKey: name) != fault }
    }

    /// Why a part does not run; nil while it does.
    func fault(of name: String) -> HealthSnapshot.Service? { states.withLock { $0[name] } }

    /// The parts that do not run, by name.
    func faults() -> [HealthSnapshot.Service] {
        states.withLock { $0.sorted { $0.key < $1.key }.map(\.value) }
    }
}

/// A part of the daemon that is started again when it ends before the daemon does: no part takes the
/// others with it, and none goes without a word.
struct Supervised: Service {
    let name: String
    let states: ServiceStates
    let logger: Logger
    let clock: UptimeClock
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
                states.failed(name, HealthSnapshot.Service(name: name, fault: "\(fault)"))
                logger.error("\(name) stopped", metadata: ["fault": "\(fault)"])
            })
    }
}
