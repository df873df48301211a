import Synchronization
import Testbed

/// What happened, for the judge and for who reads a failure. Times are UTC µs, by the truth.
final class ChaosLog: Sendable {
    private struct State {
        var deaths: [Int64] = []
        /// When frames under way to the gateway may have been lost: bus, bluetoothd and links broke.
        var breaks: [Int64] = []
        var full: [(from: Int64, until: Int64)] = []
        var notes: [String] = []
        var unexpectedDeaths = 0
        var falseWells: [String] = []
    }
    private let state = Mutex(State())
    private let clock: FastClock

    init(_ clock: FastClock) { self.clock = clock }

    var deaths: [Int64] { state.withLock { $0.deaths } }
    var breaks: [Int64] { state.withLock { $0.breaks } }
    var full: [(from: Int64, until: Int64)] { state.withLock { $0.full } }
    var notes: [String] { state.withLock { $0.notes } }

    /// How often the daemon ended without a kill.
    var unexpectedDeaths: Int { state.withLock { $0.unexpectedDeaths } }

    /// What did not flow while the gateway said that it was well.
    var falseWells: [String] { state.withLock { $0.falseWells } }

    func wellThough(_ text: String) {
        note("well, though \(text)")
        state.withLock { $0.falseWells.append("\(Int(clock.seconds)) s: well, though \(text)") }
    }

    /// Whether the daemon died so recently.
    func hasDied(withinSeconds seconds: Double) -> Bool {
        let since = clock.now - Int64(seconds * 1e6)
        return state.withLock { $0.deaths.contains { $0 >= since } }
    }

    func endedByItself(_ text: String) {
        note("ended by itself: \(text)")
        state.withLock { $0.unexpectedDeaths += 1 }
    }

    func killed() { state.withLock { $0.deaths.append(clock.now) } }
    func broke() { state.withLock { $0.breaks.append(clock.now) } }
    func note(_ text: String) {
        let line = "\(Int(clock.seconds)) s: \(text)"
        state.withLock { $0.notes.append(line) }
    }
    func diskFilled() { state.withLock { $0.full.append((clock.now, .max)) } }
    func diskFreed() {
        state.withLock { $0.full[$0.full.count - 1].until = clock.now }
    }
}
