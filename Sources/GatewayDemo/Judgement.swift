import GATTHeartRate
import Testbed

/// The balance at the end, with the straps' and the exchange's own counts beside the gateway's.
struct Judgement {
    let world: DemoWorld
    let status: GatewayStatus
    let stop: (status: Int32, took: Duration)

    /// Longest time the daemon may take to leave.
    private static let stopMillisecondsMax = 5000

    /// Prints the balance and every disagreement.
    ///
    /// - Returns: whether everything agrees.
    func print(on view: inout DemoView) async throws -> Bool {
        let balance = status.balance
        let held = balance.held.values.reduce(0, +)
        let dropped = balance.dropped.values.reduce(0, +)
        var sent = 0
        var disagreements: [String] = []
        for wearer in DemoWorld.wearers {
            let frames = await world.bluez.framesSent(wearer.address).map(\.bytes)
            sent += frames.count
            disagreements += await compare(frames, of: wearer)
        }
        let stored = await world.exchange.storedCount()
        let orphans = await world.exchange.orphans
        let duplicates = await world.exchange.duplicates.count
        let gateway = "\(balance.delivered) delivered + \(balance.pending) pending + \(held) held"
        view.say(
            """

            straps sent        \(sent) frames
            gateway received   \(balance.received) = \(balance.stored) stored \
            + \(balance.undecodable) undecodable
            gateway stored     \(balance.stored) = \(gateway) + \(balance.dead) dead \
            + \(dropped) dropped
            exchange has       \(stored) samples, \(duplicates) twice, \(orphans) orphans
            """)
        check(sent == balance.received, "a frame was not received", &disagreements)
        check(balance.addsUp && balance.balanced, "the balance does not add up", &disagreements)
        check(balance.delivered == stored, "delivered is not what the exchange has", &disagreements)
        check(balance.unsent == 0, "samples were not delivered in time", &disagreements)
        check(sent > 0, "nothing was sent", &disagreements)
        check(duplicates == 0 && orphans == 0, "a sample is there twice", &disagreements)
        check(
            stop.status == 0 && Demo.milliseconds(stop.took) < Self.stopMillisecondsMax,
            "the daemon did not leave in time", &disagreements)
        for disagreement in disagreements { view.say("DISAGREES: \(disagreement)") }
        if disagreements.isEmpty { view.say("The books agree: each sample is there exactly once.") }
        return disagreements.isEmpty
    }

    /// The right patient got the right rates in the right order.
    private func compare(_ frames: [[UInt8]], of wearer: DemoWorld.Wearer) async -> [String] {
        let worn = frames.compactMap { try? HeartRateMeasurement(frame: $0) }
            .filter { Plausibility.judge($0).isEmpty }.map { Double($0.bpm) }
        let stored = await world.exchange.stored.filter { $0.patient == wearer.patient }
            .sorted { ($0.effectiveTime ?? "") < ($1.effectiveTime ?? "") }
            .compactMap(\.beatsPerMinute)
        return worn == stored ? [] : ["\(wearer.name)'s heart is not what the exchange has"]
    }

    private func check(_ holds: Bool, _ complaint: String, _ disagreements: inout [String]) {
        if !holds { disagreements.append(complaint) }
    }
}
