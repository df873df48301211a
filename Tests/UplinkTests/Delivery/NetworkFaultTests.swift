import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// Delivery over a network that drops, delays, cuts, garbles and repeats, at every place of both
/// messages.
@Suite struct NetworkFaultTests {
    /// How many seeds are tried: `NETWORK_FAULT_SEEDS`, or a dozen, which take some seconds.
    static let seeds: [UInt64] = {
        let text = ProcessInfo.processInfo.environment["NETWORK_FAULT_SEEDS"]
        let count = text.flatMap { UInt64($0) } ?? 12
        return Array(1...max(count, 1))
    }()

    /// Connections that may go wrong; those after them are well, so that every run ends.
    static let connections = 14
    static let samples = 60
    /// Small, so that a run has several requests to go wrong.
    static let batchSamples = 20

    @Test("each sample is stored once over any network", arguments: seeds)
    func everySampleOnce(seed: UInt64) async throws {
        var settings = DeliverySettings()
        settings.batchSamplesMax = Self.batchSamples
        let script = NetworkFaultScript(seed: seed, connections: Self.connections)
        try await check(script, settings, "seed \(seed)")
    }

    @Test func noWayToFailIsLeftOut() {
        #expect(Set(NetworkFaultScript.everyWay).count == 60)
        #expect(
            NetworkFaultScript(seed: 7, connections: 40)
                == NetworkFaultScript(seed: 7, connections: 40))
        let message = Array("POST / HTTP/1.1\r\nHost: a\r\n\r\nbody".utf8)
        for way in NetworkFaultScript.everyWay {
            for position in [0, 0.3, 1] {
                var fault = way
                fault.position = position
                let offset = fault.offset(in: message) ?? -1
                switch fault.place {
                case .startLine: #expect(0...16 ~= offset)
                case .headers: #expect(17...27 ~= offset)
                case .bodyStart: #expect(offset == 28)
                case .bodyMiddle: #expect(28...31 ~= offset)
                case .bodyEnd: #expect(offset == 31)
                }
                #expect(fault.offset(in: []) == nil)
                #expect(fault.offset(in: [0x0A]) == 0)
            }
        }
    }

    private func check(
        _ script: NetworkFaultScript, _ settings: DeliverySettings, _ name: String
    ) async throws {
        let comment = Comment(rawValue: "\(name): \(script.faults)")
        let delivery = try await DeliveryFixture(
            samples: Self.samples, through: script, settings: settings)
        try await delivery.drain(seconds: 86_400)
        await delivery.proxy?.settle()
        let balance = try await delivery.queue.balance()
        #expect(balance.delivered == Self.samples, comment)
        #expect(balance.isBalanced, comment)
        let exchange = delivery.exchange
        #expect(await exchange.storedCount(patient: 40001) == Self.samples, comment)
        #expect(await exchange.duplicates.isEmpty, comment)
        #expect(await exchange.orphans == 0, comment)
        #expect(await exchange.overlappingRequests == 0, comment)
        delivery.proxy?.stop()
        await exchange.stop()
    }
}
