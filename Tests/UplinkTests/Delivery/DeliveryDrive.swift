import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// A delivery with an imagined exchange and time of its own.
struct DeliveryDrive {
    typealias Server = (_ indices: [Int], _ alone: Bool) -> DeliveryAnswer

    var delivery: Delivery
    var now = Uptime.seconds(1_000)
    var requests: [(at: Uptime, indices: [Int], alone: Bool)] = []
    var healthChecks = 0
    var healthTook = Duration.zero
    var outcomes: [Int: SettledSample.Outcome] = [:]
    /// Samples of the queue not settled yet, by number.
    var queue: [Int]
    var fetched: [Int] = []
    /// Samples that come later, one while each request is under way.
    var coming: [Int] = []
    var isHealthy = true
    var isMended = true
    var probes: [Uptime] = []
    var silenceChecks: [Uptime] = []
    var isSilenceOver: (Uptime) -> Bool = { _ in true }
    var took = Duration.milliseconds(100)
    let quick = Duration.milliseconds(100)
    /// When the request under way was sent, for a server whose answer depends on it.
    let sentAt = Box(Uptime.zero)

    init(
        _ count: Int, settings: DeliverySettings = DeliverySettings(), heldSince: HoldReason? = nil,
        mayRace: Bool = false,
        choosing choose: @escaping @Sendable (ClosedRange<Duration>) -> Duration = { $0.upperBound }
    ) {
        delivery = Delivery(
            settings: settings, heldSince: heldSince, mayRace: mayRace, choosing: choose)
        queue = Array(0..<count)
    }

    /// Runs until the queue is empty, nothing happens any more, or the time is over.
    mutating func run(for time: Duration = .seconds(86_400), _ server: Server) {
        let end = now + time
        while now < end {
            switch delivery.step(now) {
            case .wait(let until):
                guard let until, !queue.isEmpty else { return }
                #expect(until > now)
                now = min(until, end)
            case .fetch(let limit):
                fetched = Array(queue.prefix(limit))
                delivery.fetched(
                    fetched.map { _ in nil }, hasMore: fetched.count >= limit, now)
            case .send(let indices): request(indices, false, server)
            case .sendAlone(let index): request([index], true, server)
            case .checkHealth:
                healthChecks += 1
                now += healthTook
                take(delivery.checked(isHealthy: isHealthy, now))
            case .checkSilence:
                silenceChecks.append(now)
                delivery.checkedSilence(isOver: isSilenceOver(now), now)
            case .probe:
                probes.append(now)
                delivery.probed(isMended: isMended, now)
            case .fetchTrial, .probePatient:
                Issue.record("this delivery has one patient")
                return
            }
        }
    }

    private mutating func request(_ indices: [Int], _ alone: Bool, _ server: Server) {
        #expect(delivery.step(now) == .wait(until: nil), "one request at a time")
        let numbers = indices.map { fetched[$0] }
        requests.append((now, numbers, alone))
        sentAt.set(now)
        let answer = server(numbers, alone)
        if !coming.isEmpty { queue.append(coming.removeFirst()) }
        now += took
        take(delivery.answered(answer, took: took, now))
    }

    private mutating func take(_ resolved: [Delivery.Resolved]) {
        for one in resolved {
            outcomes[fetched[one.index]] = one.outcome
            queue.removeAll { $0 == fetched[one.index] }
        }
    }

    var delivered: [Int] {
        outcomes.filter { $0.value == .delivered }.keys.sorted()
    }
}

extension EntryAnswer {
    /// What an exchange says of one sample of a bundle.
    static func entry(_ status: Int, _ text: String = "") -> EntryAnswer {
        EntryAnswer(status: status, diagnostics: text, endpoint: .bundle)
    }
}

extension DeliveryAnswer {
    static func stored(_ indices: [Int]) -> DeliveryAnswer {
        .entries(indices.map { _ in .entry(201) })
    }
}
