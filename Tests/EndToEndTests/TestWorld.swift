import Testbed
import Testing

extension TestWorld {
    /// What makes deliveries and commits quick.
    static let quick = [
        "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "1", "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "1",
    ]

    /// Runs `body` in a fresh world with quick deliveries and commits, and clears it away, whatever happens.
    ///
    /// - Parameter speed: how many times as fast as the host's its time runs at most; nil for the host's own time.
    ///   Half a minute before the same samples are sent again, or a minute from one look at a hold to the next,
    ///   is long in that one.
    static func run(
        straps: Int = 1, settings: [String: String] = [:], starts: Bool = true,
        version: ExchangeVersion = .head, seed: ExchangeSeed = .standard, speed: Int64? = nil,
        _ body: (TestWorld) async throws -> Void
    ) async throws {
        var setup = Setup()
        setup.straps = straps
        setup.version = version
        setup.seed = seed
        setup.speed = speed
        setup.settings = quick.merging(settings) { $1 }
        try await run(setup, starts: starts, body)
    }

    /// The exchange has each delivered sample once, and no request of ours raced another.
    func expectExactlyOnce(
        _ balance: GatewayStatus.Balance, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let faults = await deliveryFaults(balance)
        #expect(faults.isEmpty, "\(faults)", sourceLocation: sourceLocation)
    }
}
