import Foundation
import Testbed
import Testing

/// An exchange that was restored from a backup, or is at another address.
@Suite(.serialized) struct LostExchangeTests {
    /// What was delivered since the backup was gone there, counted as delivered here, and could not be sent again.
    @Test func whatABackupLacksIsDeliveredAgainByOneCommand() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("deliveries") { $0.balance.delivered >= 8 }
            let lost = await fixture.exchange.storedCount() - 2
            await fixture.exchange.restoreBackup(rows: 2)
            let refused = try await fixture.gateway.command(
                ["queue", "redeliver", "--since", "2020-01-01"])
            #expect(refused.status == 2)
            #expect(refused.complaint.contains("--yes"))
            let told = try await fixture.command(
                "queue", "redeliver", "--since", "2020-01-01", "--yes")
            #expect(told.contains("wait for e0 again"))
            let status = try await fixture.settle()
            await fixture.expectExactlyOnce(status.balance)
            #expect(status.balance.delivered >= lost + 2)
            let later = try await fixture.command(
                "queue", "redeliver", "--since", "2100-01-01", "--yes")
            #expect(later.contains("nothing was delivered to e0 since then"))
        }
    }

    /// A second enrollment began at the new address, and the first one's samples waited for ever.
    @Test func whatWaitsForAnExchangeThatHasMovedGoesToItsNewAddress() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("deliveries") { $0.balance.delivered >= 2 }
            await fixture.exchange.cutNetwork()
            let moved = try await StandInExchange.start()
            try await fixture.eventually("waiting") { $0.balance.pending >= 4 }
            let link = await moved.invite(patient: TestWorld.patients[0])
            // Who does not know of --moved learns of it.
            let plain = try await fixture.command("enroll", "-", "--name", "new", input: link)
            #expect(plain.contains("wait for e0") && plain.contains("--moved e0"), "\(plain)")
            try await fixture.command("erase", "new", "--yes")
            let unasked = try await fixture.gateway.command(
                ["enroll", "-", "--moved", "e0"], input: link)
            #expect(unasked.status == 2)
            // Another patient's invitation moves nothing.
            let other = try await fixture.gateway.command(
                ["enroll", "-", "--moved", "e0", "--yes"],
                input: await moved.invite(patient: TestWorld.patients[1]))
            #expect(other.status != 0)
            #expect(other.complaint.contains("e0 is not the enrollment of the same patient"))
            let told = try await fixture.command(
                "enroll", "-", "--moved", "e0", "--yes", input: link)
            #expect(told.contains("enrolled as e0 at \(moved.baseURL)"))
            try await fixture.eventually("all of it") {
                let stored = await moved.storedCount()
                return $0.balance.pending <= 2 && stored >= 4
            }
            #expect(await moved.duplicates.isEmpty)
            #expect(try await fixture.command("enrollments").contains("e0"))
            await moved.stop()
        }
    }
}
