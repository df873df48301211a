import Basics
import Synchronization
import Testbed

/// What the straps were told to send, frame by frame.
///
/// Each frame of a strap has a number, which it carries as its energy; no two are alike.
final class ChaosStraps: Sendable {
    /// The strap that changes hands.
    static let shared = 3
    /// Every so many frames, one that cannot be decoded, and one of a strap that finds no pulse.
    private static let malformedEvery = 211
    private static let pulselessEvery = 307

    enum Content { case rate, noPulse, malformed }

    struct Sent {
        /// The true time.
        var at: UTC
        var content: Content
        /// Whether a client was subscribed: then it went to the bus.
        var wentOut: Bool
        /// The patient; nil while the strap changes hands.
        var patient: Int?
    }

    private struct State {
        var sent: [[Sent]] = Array(repeating: [], count: TestWorld.addresses.count)
        var patients: [Int?] = []
        var isSending = true
    }
    private let state = Mutex(State())
    private let clock: FastClock

    init(_ clock: FastClock, patients: [Int]) {
        self.clock = clock
        state.withLock { $0.patients = patients }
    }

    /// All frames of a strap, by their numbers.
    func sent(_ strap: Int) -> [Sent] { state.withLock { $0.sent[strap] } }

    /// Who wears a strap from now on; nil while that is unknown.
    func setPatient(of strap: Int, _ patient: Int?) {
        state.withLock { $0.patients[strap] = patient }
    }

    /// Whether they have not been stopped.
    var isSending: Bool { state.withLock { $0.isSending } }

    /// No more frames.
    func stop() { state.withLock { $0.isSending = false } }

    /// Makes all straps send at this interval, in seconds of the world, until ``stop()``.
    ///
    /// No strap makes up for lost time: the gateway takes two frames at once after a silence for frames that
    /// were held up, and dates the first of them back.
    func run(_ bluez: SimulatedBlueZ, every interval: Double) async {
        while isSending {
            for strap in TestWorld.addresses.indices { await send(strap, bluez) }
            await clock.sleep(for: .seconds(interval))
        }
    }

    private func send(_ strap: Int, _ bluez: SimulatedBlueZ) async {
        let (number, patient) = state.withLock { ($0.sent[strap].count, $0.patients[strap]) }
        let content: Content =
            number % Self.malformedEvery == 57
            ? .malformed : number % Self.pulselessEvery == 101 ? .noPulse : .rate
        let at = clock.now
        let frame = Self.frame(number, content)
        let wentOut = await bluez.emit(frame, from: TestWorld.addresses[strap])
        state.withLock {
            $0.sent[strap].append(
                Sent(at: at, content: content, wentOut: wentOut, patient: patient))
        }
    }

    /// The rate of frame `number`: it rises and falls as a heart's may.
    static func bpm(_ number: Int) -> Int { 60 + abs(number % 80 - 40) }

    private static func frame(_ number: Int, _ content: Content) -> [UInt8] {
        let low = UInt8(truncatingIfNeeded: number)
        let high = UInt8(truncatingIfNeeded: number >> 8)
        switch content {
        // Contact and energy; the second says 16 bits and has eight.
        case .rate: return [0x0E, UInt8(bpm(number)), low, high]
        case .noPulse: return [0x0E, 0, low, high]
        case .malformed: return [0x01, low]
        }
    }

    /// The number of the frame that was stored; nil for one no strap sent.
    static func number(of frame: [UInt8]) -> Int? {
        guard frame.count == 4, frame[0] == 0x0E else { return nil }
        return Int(frame[2]) | Int(frame[3]) << 8
    }
}
