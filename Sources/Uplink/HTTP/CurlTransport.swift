import CCurl
import Dispatch
import Foundation
import Synchronization

/// HTTP through libcurl: one easy handle, on a thread of its own, one request at a time.
///
/// Requests made while another is under way wait their turn. Every request gets a fresh connection:
/// libcurl silently sends a request again when a connection it had kept turns out dead, and an
/// immediate resend is what makes permanent duplicates on the exchange (docs/develop/exchange.md). TLS
/// sessions are still resumed.
public final class CurlTransport: HTTPTransport {
    private let worker: CurlWorker

    /// A transport with its thread, which ends with the transport.
    public init(_ settings: CurlSettings = CurlSettings()) {
        let worker = CurlWorker(settings: settings)
        self.worker = worker
        let thread = Thread { worker.run() }
        thread.name = "uplink"
        thread.stackSize = CurlWorker.stackBytes
        thread.start()
    }

    deinit {
        worker.stop()
    }

    /// Sends `request`, once, following no redirect. Cancelling the task aborts the transfer within
    /// about a second.
    public func send(_ request: HTTPRequest) async throws(TransportFault) -> HTTPAnswer {
        let job = CurlJob(request: request)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { worker.enqueue(job, continuation: $0) }
        } onCancel: {
            job.cancelled.set()
        }
        return try result.get()
    }
}

/// A request on its way to the thread, and whether its sender has given up.
final class CurlJob: Sendable {
    let request: HTTPRequest
    let cancelled = CurlCancellation()

    init(request: HTTPRequest) {
        self.request = request
    }
}

/// Whether nobody waits any more for what libcurl does.
final class CurlCancellation: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .relaxed) }

    func set() { flag.store(true, ordering: .relaxed) }
}

/// The thread's side: takes jobs one after another until stopped.
final class CurlWorker: Sendable {
    typealias Continuation = CheckedContinuation<Result<HTTPAnswer, TransportFault>, Never>

    /// OpenSSL's handshakes need well under 100 KiB.
    static let stackBytes = 512 << 10

    private struct Inbox {
        var jobs: [(job: CurlJob, continuation: Continuation)] = []
        var stopped = false
    }

    private let settings: CurlSettings
    private let inbox = Mutex(Inbox())
    private let bell = DispatchSemaphore(value: 0)

    init(settings: CurlSettings) {
        self.settings = settings
    }

    func enqueue(_ job: CurlJob, continuation: Continuation) {
        let accepted = inbox.withLock { inbox in
            if !inbox.stopped { inbox.jobs.append((job, continuation)) }
            return !inbox.stopped
        }
        if accepted {
            bell.signal()
        } else {
            continuation.resume(returning: .failure(.cancelled))
        }
    }

    func stop() {
        inbox.withLock { $0.stopped = true }
        bell.signal()
    }

    func run() {
        let transfer = CurlTransfer(settings: settings)
        while true {
            bell.wait()
            let (next, stopped) = inbox.withLock { inbox in
                (inbox.jobs.isEmpty ? nil : inbox.jobs.removeFirst(), inbox.stopped)
            }
            if let next {
                let result =
                    stopped || next.job.cancelled.isSet
                    ? .failure(.cancelled) : transfer.perform(next.job)
                next.continuation.resume(returning: result)
            } else if stopped {
                return
            }
        }
    }
}
