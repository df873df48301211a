import Health
import Logging
import ServiceLifecycle
import Synchronization

/// Which parts of the daemon run.
final class ServiceStates: Sendable {
    private struct State {
        var isPage: Bool
        var fault: String?
    }

    private let states = Mutex<[String: State]>([:])

    /// A part began.
    func runs(_ name: String, isPage: Bool = false) {
        states.withLock { $0[name] = State(isPage: isPage, fault: nil) }
    }

    /// A part does not run.
    ///
    /// - Parameter fault: why, and the setting to look at if there is one; it names no secret.
    func failed(_ name: String, isPage: Bool = false, _ fault: String) {
        states.withLock { $0[name] = State(isPage: isPage, fault: fault) }
    }

    /// The parts that do not run, by name.
    func faults() -> [HealthSnapshot.Service] {
        states.withLock { states in
            states.filter { $0.value.fault != nil }.sorted { $0.key < $1.key }.map {
                HealthSnapshot.Service(
                    name: $0.key, isPage: $0.value.isPage, fault: $0.value.fault)
            }
        }
    }
}

/// A part of the daemon that is started again when it ends before the daemon does: no part takes the
/// others with it, and none goes without a word.
struct Supervised: Service {
    /// Between the first end and the next start; doubled each time.
    static let pauseMin = Duration.seconds(1)
    /// An address that is missing at boot is there within a minute, mostly.
    static let pauseMax = Duration.seconds(30)
    /// A part that ran for so long had recovered: its next pause is short again.
    static let recovered = Duration.seconds(60)

    let name: String
    /// People look at it; recording does not depend on it.
    var isPage = false
    let states: ServiceStates
    let logger: Logger
    var clock: any Clock<Duration> & Sendable = ContinuousClock()
    /// Makes the part anew for each start.
    let part: @Sendable () async throws -> any Service

    func run() async throws {
        var pause = Self.pauseMin
        while !isEnding {
            let elapsed = await clock.measured { await runOnce() }
            if isEnding { return }
            if elapsed >= Self.recovered { pause = Self.pauseMin }
            let rest = pause
            await cancelWhenGracefulShutdown { try? await clock.sleep(for: rest) }
            pause = min(pause * 2, Self.pauseMax)
        }
    }

    private var isEnding: Bool { Task.isCancelled || Task.isShuttingDownGracefully }

    private func runOnce() async {
        let fault: String
        do {
            let part = try await part()
            states.runs(name, isPage: isPage)
            try await part.run()
            fault = "it ended without an error"
        } catch {
            fault = "\(error)"
        }
        guard !isEnding else { return }
        states.failed(name, isPage: isPage, fault)
        logger.error("\(name) stopped", metadata: ["fault": "\(fault)"])
    }
}

extension Clock where Duration == Swift.Duration {
    fileprivate func measured(_ work: () async -> Void) async -> Swift.Duration {
        let began = now
        await work()
        return began.duration(to: now)
    }
}
