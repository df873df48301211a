import Basics
import Synchronization

/// Tells how old what a connection brings can be, and notices when it can be too old: this process was stopped, its
/// machine slept or had no time for it, or the network held something back.
///
/// A message that lay in a buffer meanwhile looks as if it had just come. So the server is asked something several times a
/// second. Its answer comes after all that it sent before, so what is read after the answer left the server after the
/// question had reached it. A value without I/O: its caller gives it the time, and each answer.
struct StallWatch: Sendable, Hashable {
    /// An answer that takes longer makes all that the connection brings suspect: what was read before the answer may
    /// be looked at after it.
    static let gapMax = Duration.seconds(3)

    /// The time of the last question that was answered.
    private var asked: Uptime
    /// The time since which messages may be of any age; nil while they are fresh.
    private(set) var stalledSince: Uptime?

    /// A watch over a subscription that is not made before `now`.
    init(_ now: Uptime) { asked = now }

    /// Looks at the clock.
    mutating func look(_ now: Uptime) {
        if stalledSince == nil, now - asked > Self.gapMax { stalledSince = asked }
    }

    /// The server has answered at `now` what it was asked at `asked`.
    mutating func answered(askedAt asked: Uptime, _ now: Uptime) {
        look(now)
        self.asked = max(self.asked, asked)
    }

    /// The earliest time at which what is read at `now` can have left the server.
    mutating func departure(ofWhatIsReadAt now: Uptime) -> Uptime {
        look(now)
        return stalledSince ?? asked
    }
}

/// A ``StallWatch`` that several threads look at.
final class SharedStallWatch: Sendable {
    private let state: Mutex<StallWatch>

    init(_ now: Uptime) { state = Mutex(StallWatch(now)) }

    /// Changes or reads it.
    func with<Value: Sendable>(_ body: (inout StallWatch) -> Value) -> Value {
        state.withLock { body(&$0) }
    }
}
