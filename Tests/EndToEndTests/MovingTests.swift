import Foundation
import Testbed
import Testing

/// Cards that are copied, replaced and emptied (operations.md, "Backup, and a new card").
@Suite(.serialized) struct MovingTests {
    private static let copying = FileManager.default

    @Test func anOldCopyOfTheStateSendsNothingTwiceAndGoesOn() async throws {
        try await TestWorld.run { bench in
            try await bench.put(on: 0)
            let state = bench.gateway.directory.appending(path: "state")
            let backup = bench.gateway.directory.appending(path: "backup")
            // Some of it is delivered at the time of the copy, some waits.
            let then = try await bench.eventually("delivered") { $0.balance.delivered >= 3 }
            await bench.exchange.cutNetwork()
            try await bench.eventually("waiting") { $0.balance.pending >= 3 }
            #expect(await bench.gateway.stop().status == 0)
            try Self.copying.copyItem(at: state, to: backup)
            try await bench.exchange.restoreNetwork()
            try await bench.gateway.start()
            let lost = try await bench.settle()
            #expect(lost.balance.delivered > then.balance.delivered)
            let there = await bench.exchange.storedCount()
            // The card breaks; what it had after the copy was delivered.
            await bench.gateway.kill()
            try Self.copying.removeItem(at: state)
            try Self.copying.copyItem(at: backup, to: state)
            await bench.bluez.setSendsFrames(true)
            try await bench.gateway.start()
            let restored = try await bench.gateway.status()
            try await bench.eventually("new samples") {
                $0.balance.stored >= restored.balance.stored + 3
            }
            let status = try await bench.settle()
            #expect(status.balance.addsUp && status.balance.balanced)
            #expect(await bench.exchange.duplicates.isEmpty)
            #expect(await bench.exchange.orphans == 0)
            #expect(await bench.exchange.storedCount() > there)
        }
    }

    @Test func afterForgetDrainAndPurgeNoSampleIsLeftInTheStore() async throws {
        try await TestWorld.run { bench in
            try await bench.put(on: 0)
            try await bench.eventually("delivered") { $0.balance.delivered >= 5 }
            try await bench.command("forget", TestWorld.addresses[0])
            try await bench.command("queue", "drain")
            try await bench.command("queue", "purge", "--dead", "--yes")
            let listed = try await bench.command("queue", "list", "--state", "delivered", "--json")
            #expect(listed.filter { !$0.isWhitespace }.contains("\"samples\":[]"), "\(listed)")
            #expect(await bench.gateway.stop().status == 0)
            let copy = bench.gateway.directory.appending(path: "all.ndjson").path
            try await bench.command("queue", "export", copy, "--all")
            let lines = try String(contentsOfFile: copy, encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 2, "only the file's first and last line")
        }
    }
}
