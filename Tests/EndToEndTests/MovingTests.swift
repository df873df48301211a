import Foundation
import Testbed
import Testing

/// Cards that are copied, replaced and emptied (docs/operate/operations.md, "Backup, and a new card").
@Suite(.serialized) struct MovingTests {
    private static let copying = FileManager.default

    @Test func anOldCopyOfTheStateSendsNothingTwiceAndGoesOn() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            let state = fixture.gateway.directory.appending(path: "state")
            let backup = fixture.gateway.directory.appending(path: "backup")
            // Some of it is delivered at the time of the copy, some waits.
            let then = try await fixture.eventually("delivered") { $0.balance.delivered >= 3 }
            await fixture.exchange.cutNetwork()
            try await fixture.eventually("waiting") { $0.balance.pending >= 3 }
            #expect(await fixture.gateway.stop().status == 0)
            try Self.copying.copyItem(at: state, to: backup)
            try await fixture.exchange.restoreNetwork()
            try await fixture.gateway.start()
            let lost = try await fixture.settle()
            #expect(lost.balance.delivered > then.balance.delivered)
            let there = await fixture.exchange.storedCount()
            // The card breaks; what it had after the copy was delivered.
            await fixture.gateway.kill()
            try Self.copying.removeItem(at: state)
            try Self.copying.copyItem(at: backup, to: state)
            await fixture.bluez.setSendsFrames(true)
            try await fixture.gateway.start()
            let restored = try await fixture.gateway.status()
            try await fixture.eventually("new samples") {
                $0.balance.stored >= restored.balance.stored + 3
            }
            let status = try await fixture.settle()
            #expect(status.balance.addsUp && status.balance.balanced)
            #expect(await fixture.exchange.duplicates.isEmpty)
            #expect(await fixture.exchange.orphans == 0)
            #expect(await fixture.exchange.storedCount() > there)
        }
    }

    @Test func afterForgetDrainAndPurgeNoSampleIsLeftInTheStore() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("delivered") { $0.balance.delivered >= 5 }
            try await fixture.command("forget", TestWorld.addresses[0])
            try await fixture.command("queue", "drain")
            try await fixture.command("queue", "purge", "--dead", "--yes")
            let listed = try await fixture.command(
                "queue", "list", "--state", "delivered", "--json")
            #expect(listed.filter { !$0.isWhitespace }.contains("\"samples\":[]"), "\(listed)")
            #expect(await fixture.gateway.stop().status == 0)
            let copy = fixture.gateway.directory.appending(path: "all.ndjson").path
            try await fixture.command("queue", "export", copy, "--all")
            let lines = try String(contentsOfFile: copy, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 2, "only the file's first and last line")
        }
    }
}
