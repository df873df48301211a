import Testbed
import Testing

extension TestWorld {
    /// Runs `body` in a fresh world in the host's time, with quick deliveries and commits, and clears it
    /// away, whatever happens.
    static func run(
        straps: Int = 1, settings: [String: String] = [:], starts: Bool = true,
        version: ExchangeVersion = .head, seed: ExchangeSeed = .standard,
        _ body: (TestWorld) async throws -> Void
    ) async throws {
        var setup = Setup()
        setup.straps = straps
        setup.version = version
        setup.seed = seed
        let quick = [
            "EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS": "1", "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "1",
        ]
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
