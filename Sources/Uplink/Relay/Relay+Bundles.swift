import Basics
import OfflineQueue

/// Sending what waits in bundles, and answering each request of one.
extension Relay {
    /// How many different strap datasheets are remembered at a time.
    private static let strapsMax = 64
    /// An answer of 500 that comes sooner is about what was sent: a worker that is killed takes 30 s.
    private static let poisonMax = Duration.seconds(5)

    /// Gives work to the workers that have none, and turns away what is too old.
    func schedule() async {
        let now = clock.read().uptime
        for job in batcher.expired(now) {
            numbers.expired += 1
            await turnAway(job.id)
        }
        alarm?.cancel()
        alarm = nil
        while true {
            switch batcher.next(clock.read().uptime) {
            case .wait(let until):
                if let until, !isEnding { wake(at: until) }
                return
            case .send(let jobs):
                // There are as many workers as the batcher counts.
                let worker = idle.removeLast()
                Task {
                    let took = await send(jobs, by: workers[worker])
                    idle.append(worker)
                    batcher.finished(jobs, took: took)
                    await schedule()
                    if isEnding, pending.isEmpty {
                        emptied?.resume()
                        emptied = nil
                    }
                }
            }
        }
    }

    private func wake(at time: Uptime) {
        let pause = max(.milliseconds(1), time - clock.read().uptime)
        alarm = Task {
            await clock.sleep(pause, tolerance: .zero)
            if !Task.isCancelled { await schedule() }
        }
    }

    /// Sends a bundle, in halves if it fails as a whole, and answers all of its requests.
    ///
    /// - Returns: how long the exchange took for one, at most.
    private func send(
        _ jobs: [RelayBatcher.Job], by worker: ExchangeDestination
    ) async -> Duration? {
        var bisection = RelayBisection(jobs)
        var failure: DeliveryAnswer?
        var longest: Duration?
        while true {
            let now = clock.read().uptime
            for job in bisection.drop({ $0.latest < now }) {
                numbers.expired += 1
                await conclude(job, failure ?? .throttled(retryAfter: Self.soon), from: 0)
            }
            guard let part = bisection.next else { return longest }
            let points = part.flatMap { pending[$0.id]?.points ?? [] }.map(told)
            let began = clock.read().uptime
            let latest = part.map(\.latest).min() ?? now
            let answer = await worker.deliver(
                points, alone: part[0].isAlone && points.count == 1
            ) { [clock] in clock.read().uptime <= latest }
            // The time above is some time ago: a token was fetched, a connection made, or this process stood still.
            guard let answer else { continue }
            let took = clock.read().uptime - began
            longest = max(longest ?? .zero, took)
            await forgetAttributions(heldIn: answer, to: points)
            numbers.bundles += 1
            numbers.exchangeFault = await worker.fault
            var isToBeHalved = part.count > 1
            if isToBeHalved { isToBeHalved = await isAboutContent(answer, took, worker) }
            if isToBeHalved {
                numbers.halved += 1
                failure = answer
            }
            var first = 0
            for job in bisection.answered(isToBeHalved: isToBeHalved) {
                let count = pending[job.id]?.points.count ?? 0
                await conclude(job, answer, from: first)
                first += count
            }
        }
    }

    /// The reason that holds a patient may have changed when a sample is tried the next time, by whichever worker.
    private func forgetAttributions(
        heldIn answer: DeliveryAnswer, to points: [OutgoingPoint]
    ) async {
        guard case .entries(let entries) = answer else { return }
        let held = Set(zip(entries, points).compactMap { $0.verdict.isHeld ? $1.patient : nil })
        guard !held.isEmpty else { return }
        for worker in workers { await worker.forgetAttributions(of: held) }
    }

    /// Whether the answer is about the content of the bundle and none of it is under way: then each request is sent by
    /// itself. An exchange that does not work at all answers 500, too.
    private func isAboutContent(
        _ answer: DeliveryAnswer, _ took: Duration, _ worker: ExchangeDestination
    ) async -> Bool {
        switch answer {
        case .malformed, .tooLarge, .held(.requestRefused, _): true
        case .unclear("500"): took < Self.poisonMax ? await worker.isHealthy() : false
        default: false
        }
    }

    /// Answers one request of a bundle.
    ///
    /// - Parameter first: where its entries begin in the answer.
    private func conclude(
        _ job: RelayBatcher.Job, _ whole: DeliveryAnswer, from first: Int
    ) async {
        guard let one = pending.removeValue(forKey: job.id) else { return }
        guard case .entries(let all) = whole, all.count >= first + one.points.count else {
            numbers.notTaken += one.points.count
            return await answer(one.reply, whole)
        }
        var entries = all[first..<first + one.points.count].makeIterator()
        let mine = one.known.compactMap { $0 ?? entries.next() }
        for entry in mine {
            switch entry.verdict {
            case .stored: numbers.stored += 1
            case .storedBefore: numbers.storedBefore += 1
            case .held, .refused, .notWanted, .unclear: numbers.notTaken += 1
            }
        }
        await answer(one.reply, .entries(mine))
    }

    /// The point with a number for its strap that means the same in requests of all gateways: what is the same in
    /// all data points of a kind of strap is then written once.
    private func told(_ point: OutgoingPoint) -> OutgoingPoint {
        if straps.count >= Self.strapsMax, straps[point.strap] == nil { straps = [:] }
        let number = straps[point.strap] ?? Int64(straps.count + 1)
        straps[point.strap] = number
        var told = point
        told.sensorID = number
        return told
    }
}
