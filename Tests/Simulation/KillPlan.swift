import Foundation
import Synchronization

/// When the gateway is to be killed. Told of each step within a job, it keeps what the files are at that instant.
final class KillPlan: Sendable {
    private struct State {
        var point: String?
        var afterJobs: Int?
        var pause: Int64 = 0
        /// The step at which it has died.
        var reached: String?

        var isDue: Bool { reached != nil || afterJobs.map { $0 <= 0 } ?? false }
    }

    private let state = Mutex(State())
    private let folder: URL

    init(folder: URL) { self.folder = folder }

    /// It dies at a step, or after so many jobs; `pause` later it starts again.
    func set(point: String? = nil, afterJobs: Int? = nil, pause: Int64) {
        state.withLock { state in
            guard !state.isDue else { return }
            state = State(point: point, afterJobs: afterJobs, pause: pause)
        }
    }

    func clear() { state.withLock { if !$0.isDue { $0 = State() } } }

    var isDue: Bool { state.withLock { $0.isDue } }

    /// A job has ended.
    func isDueAfterJob() -> Bool {
        state.withLock { state in
            if let left = state.afterJobs { state.afterJobs = left - 1 }
            return state.isDue
        }
    }

    /// The gateway has come to a step.
    func reach(_ step: String) {
        let dies = state.withLock { state in
            guard state.point == step, state.reached == nil else { return false }
            state.reached = step
            return true
        }
        guard dies else { return }
        try? FileManager.default.copyItem(
            at: folder.appending(path: "state"), to: folder.appending(path: "left"))
    }

    /// The kill takes place.
    func take() -> (point: String?, pause: Int64) {
        state.withLock { state in
            defer { state = State() }
            return (state.reached, state.pause)
        }
    }
}
