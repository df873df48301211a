import Basics
import Foundation
import OfflineQueue
import Synchronization
import Uplink

/// A transport that answers from a script and remembers what it was asked.
final class ScriptedTransport: HTTPTransport {
    typealias Handler = @Sendable (HTTPRequest) -> Result<HTTPAnswer, TransportFault>

    private let handler: Handler
    private let log = Mutex<[HTTPRequest]>([])

    init(_ handler: @escaping Handler) {
        self.handler = handler
    }

    var requests: [HTTPRequest] { log.withLock { $0 } }
    var lines: [String] { requests.map { "\($0.method.rawValue) \($0.target)" } }

    func send(_ request: HTTPRequest) async throws(TransportFault) -> HTTPAnswer {
        log.withLock { $0.append(request) }
        return try handler(request).get()
    }
}

extension Result where Success == HTTPAnswer, Failure == TransportFault {
    static func json(_ status: Int, _ text: String) -> Self {
        .success(
            HTTPAnswer(status: status, contentType: "application/json", body: Array(text.utf8)))
    }

    static func html(_ status: Int) -> Self {
        .success(
            HTTPAnswer(
                status: status, contentType: "text/html", body: Array("<h1>Oops</h1>".utf8)))
    }
}

/// A clock that stands still until it is moved.
final class StillClock: GatewayClock {
    private let reading: Mutex<ClockReading>

    init(
        uptime: Uptime = .seconds(1_000), wall: UTC = UTC(microseconds: 1_795_000_000_000_000),
        isTrusted: Bool = true
    ) {
        reading = Mutex(ClockReading(uptime: uptime, wall: wall, isTrusted: isTrusted))
    }

    func read() -> ClockReading { reading.withLock { $0 } }

    func advance(by time: Duration) {
        reading.withLock {
            $0.uptime += time
            $0.wall += time
        }
    }

    func advance(to uptime: Uptime) { advance(by: max(uptime - read().uptime, .zero)) }
}

/// A counter and store of answers for scripts that change as they go.
final class Box<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) {
        self.value = Mutex(value)
    }

    var now: Value { value.withLock { $0 } }

    func set(_ new: Value) {
        value.withLock { $0 = new }
    }

    func change<Result: Sendable>(_ body: @Sendable (inout Value) -> Result) -> Result {
        value.withLock { value in body(&value) }
    }
}

/// A directory of its own, removed with the value.
final class Scratch: Sendable {
    let path: String

    init() throws {
        var template = Array("/tmp/uplink-test-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw CocoaError(.fileWriteUnknown) }
        path = String(cString: made)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }
}
