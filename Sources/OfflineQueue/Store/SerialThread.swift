import Dispatch

/// The thread of the store: an actor executor on a queue of its own, so that a card that takes a
/// second over one write does not hold up a thread of Swift's shared pool.
final class SerialThread: SerialExecutor {
    private let queue = DispatchQueue(label: "edge-gateway.offline-queue")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}
