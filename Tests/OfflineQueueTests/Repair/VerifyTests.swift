import Foundation
import GRDB
import Synchronization
import Testing

@testable import OfflineQueue

@Suite("Verifying a store")
struct VerifyTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    @Test func aSoundStoreHasNoFindings() async throws {
        let world = try await SalvageWorld(store, clock)
        let before = try Data(contentsOf: URL(fileURLWithPath: store.path))
        var parts: [Double] = []
        let audit = try SampleQueue.verify(path: store.path) { parts.append($0) }
        #expect(audit.isClean && audit.samples == world.rows, "\(audit)")
        #expect(parts.last == 1 && parts.count > 100 && parts == parts.sorted())
        #expect(try Data(contentsOf: URL(fileURLWithPath: store.path)) == before)
    }

    /// The way from one to the other is no number of 64 bits.
    @Test func numbersAtBothEndsOfWhatThereAreAreFindings() async throws {
        _ = try await SalvageWorld(store, clock)
        try await DatabaseQueue(path: store.path).write { db in
            for number in [Int64.min, .max] {
                try db.execute(
                    sql: """
                        INSERT INTO sample SELECT ?, segment, uptime_us, time_uncertainty_ms, flags, crc, frame
                        FROM sample WHERE id = 600
                        """, arguments: [number])
            }
        }
        #expect(try SampleQueue.verify(path: store.path).damaged == [.min, .max])
        let export = try SampleQueue.export(path: store.path, selection: .everything) { _ in }
        #expect(export.damaged == 2)
    }

    @Test func aStoreInUseCanBeVerifiedBesideItsDaemon() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<100 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        #expect(try SampleQueue.verify(path: store.path).samples == 100)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try SampleQueue.verify(path: store.path).isClean)
    }

    @Test(arguments: [
        ("UPDATE sample SET flags = 7 WHERE id = 600", "damaged"),
        ("DELETE FROM sample WHERE id = 600", "rows"),
        ("UPDATE segment SET settled_through = settled_through + 1 WHERE id = 5", "unsent"),
        ("UPDATE loss SET count = count + 1 WHERE kind = 'dropped'", "dropped"),
        ("DELETE FROM undecodable WHERE id = 1", "undecodable"),
        ("DELETE FROM dead_letter WHERE sample = 1", "dead"),
        ("DELETE FROM run WHERE id = (SELECT max(id) FROM run)", "name a run"),
        ("DELETE FROM segment WHERE id = 5", "outside"),
    ])
    func everyLieIsFound(lie: String, word: String) async throws {
        _ = try await SalvageWorld(store, clock)
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        try await DatabaseQueue(path: store.path, configuration: configuration).write { db in
            try db.execute(sql: lie)
        }
        let audit = try SampleQueue.verify(path: store.path)
        #expect(!audit.isClean)
        if word == "damaged" {
            #expect(audit.damaged == [600])
        } else {
            #expect(audit.differences.contains { $0.contains(word) }, "\(audit.differences)")
        }
    }

    @Test func whatIsNoStoreIsAFindingOrAnError() throws {
        #expect { try SampleQueue.verify(path: store.path) } throws: {
            ($0 as? QueueError)?.code == .cannotOpen
        }
        try Data("no database at all".utf8).write(to: URL(fileURLWithPath: store.path))
        #expect(try SampleQueue.verify(path: store.path).differences.count == 1)
    }
}
