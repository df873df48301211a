import Basics
import Foundation

/// How far something is, for a person who waits: on standard error, only on a terminal, and only if it
/// takes long enough to wonder.
final class ProgressLine {
    private static let patience = Duration.seconds(1)
    private static let pause = Duration.milliseconds(200)

    private let what: String
    private let isShown = isatty(STDERR_FILENO) == 1
    private var next = ContinuousClock.now + patience
    private var isThere = false

    init(_ what: String) { self.what = what }

    deinit { if isThere { Terminal.rewriteLine("") } }

    /// - Parameter part: 0…1.
    func show(_ part: Double) { show("\(Int(min(max(part, 0), 1) * 100)) %") }

    /// - Parameter state: a few words.
    func show(_ state: String) {
        let now = ContinuousClock.now
        guard isShown, now >= next else { return }
        next = now + Self.pause
        isThere = true
        Terminal.rewriteLine("\(what): \(state)")
    }

    /// Runs something that reports no progress, and shows how long it has been running.
    ///
    /// - Parameter seconds: how long it takes, where that is known: then what is left is shown.
    static func during<Value>(
        _ what: String, seconds: Int? = nil, isolation: isolated (any Actor)? = #isolation,
        _ work: () async throws -> Value
    ) async rethrows -> Value {
        let ticker = Task {
            let line = ProgressLine(what)
            let began = ContinuousClock.now
            while !Task.isCancelled {
                let passed = Int((ContinuousClock.now - began) / .seconds(1))
                line.show(seconds.map { "\(max($0 - passed, 0)) s left" } ?? "\(passed) s")
                await UptimeClock.system.sleep(pause)
            }
        }
        do {
            let value = try await work()
            await end(ticker)
            return value
        } catch {
            await end(ticker)
            throw error
        }
    }

    /// The line is gone before anything else is printed.
    private static func end(_ ticker: Task<Void, Never>) async {
        ticker.cancel()
        await ticker.value
    }
}
