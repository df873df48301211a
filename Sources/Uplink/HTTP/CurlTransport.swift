import Basics
import Synchronization

/// HTTP through libcurl: one easy handle, one request at a time, on a thread that waits for it.
///
/// Requests made while another is under way wait their turn. A request gets a fresh connection unless it says that it may
/// do without (``HTTPRequest/keepsConnection``): libcurl silently sends a request again when a connection it had kept
/// turns out dead, and an immediate resend is what makes permanent duplicates on the exchange
/// (docs/develop/exchange.md). One over a kept connection has a body that is given only once. TLS sessions are still
/// resumed.
public actor CurlTransport: HTTPTransport {
    private let thread: TaskThread
    /// Its thread.
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        thread.asUnownedSerialExecutor()
    }

    private let transfer: CurlTransfer

    /// A transport on a thread of its own, or on one that it shares.
    public init(
        _ settings: CurlSettings = CurlSettings(),
        on thread: TaskThread = TaskThread(label: "uplink")
    ) {
        self.thread = thread
        transfer = CurlTransfer(settings: settings)
    }

    /// Sends `request`, once, following no redirect. Cancelling the task aborts the transfer within
    /// about a second.
    public nonisolated func send(
        _ request: HTTPRequest
    ) async throws(TransportFault) -> HTTPAnswer {
        let cancelled = CurlCancellation()
        let result = await withTaskCancellationHandler {
            await perform(request, cancelled)
        } onCancel: {
            cancelled.set()
        }
        return try result.get()
    }

    private func perform(
        _ request: HTTPRequest, _ cancelled: CurlCancellation
    ) -> Result<HTTPAnswer, TransportFault> {
        cancelled.isSet ? .failure(.cancelled) : transfer.perform(request, cancelled)
    }
}

/// Tells libcurl's callbacks that nobody waits for the transfer any more.
final class CurlCancellation: Sendable {
    private let flag = Atomic(false)

    var isSet: Bool { flag.load(ordering: .relaxed) }

    func set() { flag.store(true, ordering: .relaxed) }
}
