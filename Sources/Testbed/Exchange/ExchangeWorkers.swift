import Foundation

/// The server's workers: each works on one request at a time, and what they have no time for waits for them.
struct ExchangeWorkers {
    /// How many there are; nil for as many as there are requests.
    var count: Int?
    private var working = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []
    private var total = Duration.zero
    private var latest = ContinuousClock.now

    /// Whether a worker is free, who is busy from now on.
    mutating func take() -> Bool {
        if let count, working >= count { return false }
        change(by: 1)
        return true
    }

    mutating func wait(_ continuation: CheckedContinuation<Void, Never>) {
        waiting.append(continuation)
    }

    /// A worker has done its request, and goes on with what has waited longest.
    mutating func release() {
        guard waiting.isEmpty else { return waiting.removeFirst().resume() }
        change(by: -1)
    }

    /// How long all of them have worked, added up.
    mutating func worked() -> Duration {
        change(by: 0)
        return total
    }

    private mutating func change(by difference: Int) {
        let now = ContinuousClock.now
        total += (now - latest) * working
        (latest, working) = (now, working + difference)
    }
}

extension StandInExchange {
    /// Lets so many workers serve all requests, as gunicorn's do: the others wait.
    public func setWorkers(_ count: Int) { workers.count = count }

    /// How long its workers have worked, added up.
    public var worked: Duration { workers.worked() }

    /// Waits until a worker is free.
    func takeWorker() async {
        if !workers.take() { await withCheckedContinuation { workers.wait($0) } }
    }
}
