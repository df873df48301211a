import Foundation
import Testbed

/// What the tests of health need of a world whose time runs ten times as fast: conditions that take
/// minutes to show take seconds.
extension TestWorld {
    static let device = 70007
    /// Seconds of the world; most conditions have a patience of their own.
    private static let patience = 1_800

    /// Two straps with a steady heart.
    static func runFast(
        linksMax: Int = 16, onSmallDisk: Bool = false, settings: [String: String] = [:],
        _ body: (TestWorld, FastClock) async throws -> Void
    ) async throws {
        var setup = Setup()
        setup.straps = 2
        setup.heart = try RecordedHeart.steady(milliseconds: 1000)
        setup.linksMax = linksMax
        setup.speed = 10
        setup.hasSmallDisk = onSmallDisk
        setup.settings = settings
        setup.settings["EDGE_GATEWAY_CLOCK_TRUST"] = "kernel"
        setup.settings["EDGE_GATEWAY_UPLINK_INTERVAL_SECONDS"] = "5"
        try await run(setup, starts: false) { world in
            guard let clock = world.clock else { return }
            clock.setSynchronised()
            try await body(world, clock)
        }
    }

    /// Waits for the daemon to be in a state that is slow to come.
    @discardableResult
    func inTime(
        _ what: String, _ holds: (GatewayStatus) async throws -> Bool
    ) async throws -> GatewayStatus {
        try await eventually(what, withinSeconds: Self.patience, holds)
    }

    /// Starts, enrolls a patient and pairs a strap.
    func record(_ index: Int = 0) async throws {
        if await !gateway.isRunning { try await gateway.start() }
        try await put(on: index)
    }

    /// Enrolls by a practitioner's key and pairs a strap for a patient.
    func recordByKey(patient: Int) async throws {
        try await gateway.start()
        let key = ExchangeSeed.standard.practitionerKeys[0]
        let secret = Data("\(key.clientID):\(key.secret)".utf8).base64EncodedString()
        let file = gateway.directory.appending(path: "key.json").path
        try #"{"id":7,"label":"g","created":"2026-11-20T10:00:00Z","name":"g","key":"\#(secret)"}"#
            .write(toFile: file, atomically: true, encoding: .utf8)
        chmod(file, 0o600)
        try await command(
            "enroll", "--practitioner-key-file", file, "--name", "ward", "--exchange",
            "http://127.0.0.1:\(exchange.port)", "--device", "\(Self.device)")
        try await command("pair", Self.addresses[0], "--patient", "\(patient)")
    }

    func delivered() async throws {
        try await inTime("a delivery") { $0.balance.delivered > 0 }
    }
}
