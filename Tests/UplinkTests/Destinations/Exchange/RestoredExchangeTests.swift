import Basics
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// An exchange that was restored from a backup has lost what it once said that it had.
@Suite struct RestoredExchangeTests {
    /// They counted as delivered, and nothing could send them again.
    @Test(arguments: [Resolution.raw, .tenSeconds])
    func whatABackupLacksIsDeliveredAgainAndIsThereOnce(resolution: Resolution) async throws {
        let fixture = try await DeliveryFixture(samples: 320, resolution: resolution)
        let began = fixture.clock.read().wall - .seconds(330)
        try await fixture.drain()
        let stored = await fixture.exchange.storedCount()
        let uuids = await fixture.exchange.stored.map(\.identifiers)
        await fixture.exchange.restoreBackup(rows: stored / 2)
        #expect(try await fixture.redeliver(since: began, resolution) == 320)
        #expect(try await fixture.queue.balance().pending == 320)
        try await fixture.drain()
        try await fixture.checkExactlyOnce(stored)
        #expect(Set(await fixture.exchange.stored.map(\.identifiers)) == Set(uuids))
        let balance = try await fixture.queue.balance()
        #expect(balance.delivered == 320 && balance.dead == 0)
        await fixture.exchange.stop()
    }
}
