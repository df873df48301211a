import Foundation
import Testbed
import Testing

/// Every health item of `status` is provoked, and is reported by its name, with its beginning and
/// what to do.
@Suite struct HealthTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    @Test(arguments: Provocation.all.keys.sorted())
    func aConditionIsSaidWithSinceWhenAndWhatToDo(name: String) async throws {
        let provocation = try #require(Provocation.all[name])
        if provocation.onSmallDisk, geteuid() != 0 {
            return print("skipped: \(name): mounting a small file system takes root")
        }
        try await TestWorld.runFast(
            linksMax: provocation.linksMax, onSmallDisk: provocation.onSmallDisk,
            settings: provocation.settings
        ) { world, clock in
            let before = clock.date.timeIntervalSince1970
            try await provocation.provoke(world)
            let status = try await world.inTime(name) {
                $0.health.contains { $0.name == name }
            }
            let item = try #require(status.health.first { $0.name == name })
            #expect(!status.well)
            #expect(item.advice.contains(provocation.advice), "\(item.advice)")
            #expect(!item.message.isEmpty && !item.message.contains("4000"), "\(item.message)")
            let since = try Date(item.since, strategy: .iso8601).timeIntervalSince1970
            // In whole seconds, and from the look before, 15 s ago at most.
            #expect(since >= before - 16 && since <= clock.date.timeIntervalSince1970)
            #expect(before + provocation.sinceSecondsMax > since)
            let text = try await world.gateway.command(["status"])
            #expect(text.status == 1 && text.output.contains(item.advice.prefix(20)))
            // Some seconds later it is the same one, not a new one.
            try await world.pass(seconds: 5)
            let later = try await world.gateway.status().health.filter { $0.name == name }
            #expect(later.contains { $0.since == item.since }, "\(name): \(later)")
        }
    }

    /// It used to begin with the first request: a technician in the morning read that the adapter
    /// had gone a moment ago.
    @Test func aConditionHasItsOwnBeginningNotThatOfTheFirstRequest() async throws {
        try await TestWorld.runFast { world, clock in
            try await world.gateway.start()
            try await world.pass(seconds: 10)
            let gone = clock.date.timeIntervalSince1970
            await world.bluez.unplug(TestWorld.adapter)
            try await world.pass(seconds: 250)
            let status = try await world.gateway.status()
            let item = try #require(status.health.first { $0.name == "no-adapter" })
            let since = try Date(item.since, strategy: .iso8601).timeIntervalSince1970
            // The gateway looks four times a minute, and an item counts from the look before it; the
            // rest is for a loaded machine.
            #expect(since >= gone - 31 && since <= gone + 150, "\(since - gone) s")
        }
    }
}
