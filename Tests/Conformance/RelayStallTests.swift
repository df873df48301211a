import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// A relay that stood still while its gateways gave up.
@Suite(.serialized) struct RelayStallTests {
    /// What a gateway waits; a quarter of it may pass before its request begins at the exchange.
    private static let patience = Duration.seconds(4)

    @Test(.timeLimit(.minutes(5)))
    func whatCameWhileARelayStoodStillIsNotSentAfterwards() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "stall-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let (gatewayKey, relayKey) = (try RelayFixture.key(), try RelayFixture.key())
        let cluster = try await NATSCluster.start(users: [
            .gateway("g0", key: gatewayKey.publicKey), .relay(key: relayKey.publicKey),
        ])
        let exchange = try await RelayFixture.exchange(patients: 1)
        let patient = RelayFixture.patient(0)
        let relays = try await RelayProcesses(
            directory, cluster, exchange, relayKey, table: [("g0", patient)])
        try await relays.start(0)
        let gateway = try await RelayFixture.destination(
            cluster, "g0", gatewayKey, patience: Self.patience)
        func eventually(_ points: [OutgoingPoint]) async throws {
            while await gateway.deliver(points, alone: false)
                != .entries(points.map { _ in RelayFixture.stored })
            {
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        try await eventually(RelayFixture.points(1, patient: patient, run: 1))
        await relays.signal(0, SIGSTOP)
        for run in 2...3 as ClosedRange<UInt64> {
            let answer = await gateway.deliver(
                RelayFixture.points(5, patient: patient, run: run), alone: false)
            #expect(answer == .unanswered("no answer in time"))
        }
        await relays.signal(0, SIGCONT)
        // When this one is through, those before it are as well.
        try await eventually(RelayFixture.points(1, patient: patient, run: 4))
        #expect(await exchange.storedCount() == 2)
        #expect(await exchange.orphans == 0)
        let log = try String(contentsOfFile: relays.log(0), encoding: .utf8)
        #expect(log.contains("stood still"), "\(log)")
        await gateway.finish()
        await relays.stop()
        await exchange.stop()
        await cluster.stop()
    }
}
