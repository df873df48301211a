import OfflineQueue
import Logging
import Synchronization
import VirtualTime

/// What happened in a world, for a person; and how often what was reached, for all worlds.
final class Trace: Sendable {
    private let lines = Mutex<[String]>([])
    private let counts = Mutex<[String: Int]>([:])
    /// Prints each line at once.
    let isLoud: Bool

    init(isLoud: Bool) { self.isLoud = isLoud }

    func note(_ line: @autoclosure () -> String) {
        let text = Self.time(VirtualExecutors.time.now) + "  " + line()
        if isLoud { print(text) }
        lines.withLock { $0.append(text) }
    }

    func count(_ what: String) { counts.withLock { $0[what, default: 0] += 1 } }

    var reached: [String: Int] { counts.withLock { $0 } }
    var all: [String] { lines.withLock { $0 } }

    static func time(_ microseconds: Int64) -> String {
        let text = "\(Double(microseconds / 1000) / 1000)"
        return String(repeating: " ", count: max(0, 8 - text.count)) + text
    }
}

/// Puts the gateway's log into the trace.
struct TraceLog: LogHandler {
    let trace: Trace
    var logLevel: Logger.Level = .info
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { $1 }
        let rest = all.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        trace.note("log \(event.level): \(event.message)\(rest)")
        if event.level >= .critical { trace.count("log critical: \(event.message)") }
    }
}
