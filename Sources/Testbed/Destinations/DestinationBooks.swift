/// The gateway's books of one destination, beside the counts of the system there.
public struct DestinationBooks: Sendable {
    /// The name it was added under.
    public var name: String
    /// A description of the system for people.
    public var title: String
    /// Samples that were stored for it.
    public var stored: Int
    /// Samples that the gateway takes for delivered.
    public var delivered: Int
    /// Samples that wait.
    public var waiting: Int
    /// Samples that wait for a person.
    public var held: Int
    /// Samples refused for good.
    public var dead: Int
    /// Samples withheld.
    public var dropped: Int
    /// Different samples that the system has, by its own count.
    public var has: Int
    /// Samples more that it has because they came again.
    public var repeated: Int
    /// Whether they may come again.
    public var mayRepeat: Bool

    /// - Parameters:
    ///   - destination: the gateway's books.
    ///   - stored: samples that every destination should have.
    ///   - counts: the system's own.
    public init(
        _ destination: GatewayStatus.Destination, stored: Int, system: any DestinationSystem,
        counts: (stored: Int, repeated: Int)
    ) {
        name = destination.name
        title = system.title
        self.stored = stored
        delivered = destination.delivered
        // A delivery is held as a whole.
        waiting = destination.held == nil ? destination.pending : 0
        held = destination.held == nil ? 0 : destination.pending
        dead = destination.dead
        dropped = destination.dropped.values.reduce(0, +)
        has = counts.stored
        repeated = counts.repeated
        mayRepeat = system.mayRepeat
    }

    /// Where the samples are, as a sum.
    public var sum: String {
        "\(delivered) delivered + \(waiting) waiting + \(held) held + \(dead) dead "
            + "+ \(dropped) dropped"
    }

    /// The disagreements, a line each; none when all agrees and nothing waits.
    public var disagreements: [String] {
        var found: [String] = []
        if stored != delivered + waiting + held + dead + dropped {
            found.append("\(name): the balance does not add up: \(stored) is not \(sum)")
        }
        if waiting + held > 0 {
            found.append("\(name): \(waiting + held) samples were not delivered in time")
        }
        if has != delivered {
            found.append("\(name): \(delivered) are delivered, and \(title) has \(has)")
        }
        if repeated > 0, !mayRepeat {
            found.append("\(name): \(title) has \(repeated) samples more than once")
        }
        return found
    }
}
