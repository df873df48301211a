/// Waits until `body` is done, but no longer than `limit`; after that `body` goes on by itself.
///
/// - Returns: whether it is done.
public func wait(
    atMost limit: Duration, by clock: UptimeClock, for body: @escaping @Sendable () async -> Void
) async -> Bool {
    let (ends, sink) = AsyncStream<Bool>.makeStream()
    Task {
        await body()
        sink.yield(true)
    }
    let timer = Task {
        await clock.sleep(limit, tolerance: .zero)
        sink.yield(false)
    }
    defer { timer.cancel() }
    for await isDone in ends { return isDone }
    return false
}
