import Basics
import Synchronization
import Testbed

/// What happened, for the judge and for who reads a failure. Times are true ones.
final class ChaosLog: Sendable {
    private struct State {
        /// When frames under way to the gateway may have been lost: bus, bluetoothd and links broke.
        var breaks: [UTC] = []
        var full: [(from: UTC, until: UTC)] = []
        var notes: [String] = []
        var unexpectedDeaths = 0
        var falseWells: [String] = []
        var said: [String: Int] = [:]
    }
    private let state = Mutex(State())
    private let clock: FastClock

    init(_ clock: FastClock) { self.clock = clock }

    var deaths: [UTC] { clock.deaths }
    var breaks: [UTC] { state.withLock { $0.breaks } }
    var full: [(from: UTC, until: UTC)] { state.withLock { $0.full } }
    var notes: [String] { state.withLock { $0.notes } }

    /// How often the daemon ended without a kill.
    var unexpectedDeaths: Int { state.withLock { $0.unexpectedDeaths } }

    /// What did not flow while the gateway said that it was well.
    var falseWells: [String] { state.withLock { $0.falseWells } }

    /// How many of the looks, one a minute, found each health item.
    var said: [String: Int] { state.withLock { $0.said } }

    func said(_ name: String) { state.withLock { $0.said[name, default: 0] += 1 } }

    func wellThough(_ text: String) {
        note("well, though \(text)")
        state.withLock { $0.falseWells.append("\(Int(clock.seconds)) s: well, though \(text)") }
    }

    /// Whether the daemon died so recently.
    func hasDied(withinSeconds seconds: Double) -> Bool {
        let since = clock.now - .seconds(seconds)
        return deaths.contains { $0 >= since }
    }

    func endedByItself(_ text: String) {
        note("ended by itself: \(text)")
        state.withLock { $0.unexpectedDeaths += 1 }
    }

    func broke() { state.withLock { $0.breaks.append(clock.now) } }
    func note(_ text: String) {
        let line = "\(Int(clock.seconds)) s: \(text)"
        state.withLock { $0.notes.append(line) }
    }
    func diskFilled() { state.withLock { $0.full.append((clock.now, UTC(microseconds: .max))) } }
    func diskFreed() {
        state.withLock { $0.full[$0.full.count - 1].until = clock.now }
    }
}
