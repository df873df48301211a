#if DEBUG
    import Foundation
    import Synchronization
#endif

/// Lets a debug build die at a step of its own, as by `kill -9`: for the tests of what survives.
///
/// `EDGE_GATEWAY_KILL_AT=commit-rows:3` kills the process the third time it has come to the step of that
/// name. In release builds there is nothing of it.
package enum KillSwitch {
    /// The process has come to `step`.
    @inline(__always)
    package static func reach(_ step: @autoclosure () -> String) {
        #if DEBUG
            die(at: step())
        #endif
    }

    #if DEBUG
        /// The variable that names the step.
        package static let variable = "EDGE_GATEWAY_KILL_AT"

        /// Told of each step: a simulation kills a gateway that shares its process.
        package struct Observer: Sendable {
            let reached: @Sendable (String) -> Void

            package init(_ reached: @escaping @Sendable (String) -> Void) { self.reached = reached }
        }

        // A struct: a bare function would be wrapped once more with each look.
        package static let observer = Mutex<Observer?>(nil)

        package static func die(at step: String) {
            observer.withLock { $0 }?.reached(step)
            target.withLock { target in
                guard target.step == step else { return }
                target.remaining -= 1
                if target.remaining == 0 { kill(getpid(), SIGKILL) }
            }
        }

        private static let target = Mutex<(step: String?, remaining: Int)>(
            {
                let words = ProcessInfo.processInfo.environment[variable]?
                    .split(separator: ":")
                guard let words, let step = words.first else { return (nil, 0) }
                return (String(step), words.count > 1 ? Int(words[1]) ?? 1 : 1)
            }())
    #endif
}
