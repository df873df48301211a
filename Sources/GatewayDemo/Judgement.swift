import GATTHeartRate
import Testbed

/// The balance at the end, with the own counts of the straps, the exchange and each system beside the
/// gateway's.
struct Judgement {
    let world: DemoWorld
    let status: GatewayStatus
    let books: [DestinationBooks]

    private static let headingWidth = 19

    /// Prints the balance and every disagreement.
    ///
    /// - Returns: whether everything agrees.
    func print(on view: inout DemoView) async -> Bool {
        let balance = status.balance
        let held = balance.held.values.reduce(0, +)
        let dropped = balance.dropped.values.reduce(0, +)
        var disagreements: [String] = []
        let gateway = "\(balance.delivered) delivered + \(balance.pending) waiting + \(held) held"
        view.say(
            """

            gateway received   \(balance.received) = \(balance.stored) stored \
            + \(balance.undecodable) undecodable
            gateway stored     \(balance.stored) = \(gateway) + \(balance.dead) dead \
            + \(dropped) dropped
            """)
        check(balance.received > 0, "nothing was received", &disagreements)
        check(balance.addsUp && balance.balanced, "the balance does not add up", &disagreements)
        check(balance.unsent == 0, "samples were not delivered in time", &disagreements)
        if let bluez = world.bluez { await compare(bluez, on: &view, &disagreements) }
        if let exchange = world.exchange { await compare(exchange, on: &view, &disagreements) }
        for book in books {
            view.say(heading("\(book.name) stored") + "\(book.stored) = \(book.sum)")
            view.say(
                heading("\(book.title) has") + "\(book.has) samples, \(book.repeated) came twice")
            disagreements += book.disagreements
        }
        for disagreement in disagreements { view.say("DISAGREES: \(disagreement)") }
        if disagreements.isEmpty {
            let place = books.isEmpty ? "there" : "at each destination"
            let times = books.allSatisfy { $0.repeated == 0 } ? " exactly once" : ""
            view.say("The books agree: each sample is \(place)\(times).")
        }
        return disagreements.isEmpty
    }

    /// The straps' own count and the gateway's.
    private func compare(
        _ bluez: SimulatedBlueZ, on view: inout DemoView, _ disagreements: inout [String]
    ) async {
        var sent = 0
        for patient in world.patients { sent += await bluez.framesSentCount(patient.address) }
        view.say("straps sent        \(sent) frames")
        check(sent == status.balance.received, "a frame was not received", &disagreements)
    }

    /// The exchange's own count and the gateway's.
    private func compare(
        _ exchange: StandInExchange, on view: inout DemoView, _ disagreements: inout [String]
    ) async {
        let stored = await exchange.stored
        let orphans = await exchange.orphans
        let duplicates = await exchange.duplicates.count
        view.say(
            "exchange has       \(stored.count) samples, \(duplicates) twice, \(orphans) orphans")
        check(
            stored.count == status.balance.delivered, "delivered is not what the exchange has",
            &disagreements)
        check(duplicates == 0 && orphans == 0, "a sample is there twice", &disagreements)
        guard let bluez = world.bluez else { return }
        for patient in world.patients {
            let worn = await bluez.framesSent(patient.address)
                .compactMap { try? HeartRateMeasurement(frame: $0.bytes) }
                .filter { Plausibility.judge($0).isEmpty }.map { Double($0.bpm) }
            let arrived = stored.filter { $0.patient == patient.patient }
                .sorted { ($0.effectiveTime ?? "") < ($1.effectiveTime ?? "") }
                .compactMap(\.beatsPerMinute)
            check(
                worn == arrived, "\(patient.name)'s heart is not what the exchange has",
                &disagreements)
        }
    }

    /// The begin of a line of the balance.
    private func heading(_ words: String) -> String {
        words + String(repeating: " ", count: max(1, Self.headingWidth - words.count))
    }

    private func check(_ holds: Bool, _ complaint: String, _ disagreements: inout [String]) {
        if !holds { disagreements.append(complaint) }
    }
}
