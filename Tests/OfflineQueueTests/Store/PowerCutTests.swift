import Basics
import Foundation
import Testing

@testable import OfflineQueue

/// A writer on a file system of its own is frozen in the middle; what its disk holds then is copied,
/// mounted and opened, as after a power cut.
///
/// Shown: whatever the store has not had synced is missing, and nothing acknowledged is. Not shown: a
/// disk that reorders or tears writes, or lies about having written them.
@Suite("Power cuts", .enabled(if: LoopDisk.obstacle == nil, "\(LoopDisk.obstacle ?? "")"))
struct PowerCutTests {
    private static let cuts = 20
    private let store: TestStore
    private let clock = ManualClock()

    init() throws { store = try TestStore() }

    @Test func whatWasAcknowledgedIsOnTheDisk() async throws {
        var samples: [Int] = []
        var lost = 0
        try await cut(Self.cuts, synchronous: nil) { disk, notes in
            let queue = try open(disk)
            let books = try await KilledWriter.check(
                queue, disk.store, noting: notes, since: Balance(), notes)
            samples.append(books.stored)
            lost += max(try Acknowledged.read(notes).stored - books.stored, 0)
            try await queue.close()
        }
        try Self.leaveFigure(lost)
        #expect(samples == samples.sorted() && samples.last ?? 0 > 0)
    }

    /// The same with a store that does not sync: were nothing lost, the test above would show nothing.
    /// The kernel may write it all by itself just before one of the cuts.
    @Test func aStoreThatDoesNotSyncIsFoundOut() async throws {
        var lossy = 0
        try await cut(3, synchronous: "OFF") { disk, notes in
            let acknowledged = try Acknowledged.read(notes).stored
            let queue = try? open(disk)
            let stored = try? await queue?.balance().stored
            if (stored ?? 0) < acknowledged { lossy += 1 }
            try? await queue?.abandon()
        }
        #expect(lossy > 0)
    }

    /// For Benchmarks/power-cut, which says where.
    private static func leaveFigure(_ lost: Int) throws {
        guard let path = ProcessInfo.processInfo.environment["POWER_CUT_FIGURES"] else { return }
        let text = """
            {"figures": [{"figure": "acked lost, \(cuts) power cuts", "goal": "0",
            "ours": \(lost), "limit": 0, "noise": 0, "unit": "", "peers": {}}]}

            """
        try text.write(toFile: path, atomically: true, encoding: .utf8)
    }

    private func open(_ disk: LoopDisk) throws -> SampleQueue {
        clock.advance(seconds: KilledWriter.roundSeconds)
        return try SampleQueue(path: disk.store, clock: clock, bootID: "parent-cut")
    }

    private func cut(
        _ count: Int, synchronous: String?, _ look: (LoopDisk, String) async throws -> Void
    ) async throws {
        let disk = try LoopDisk(in: store.directory, named: "disk")
        try await KilledWriter.prepare(path: disk.store, clock)
        sync()
        var random = SeededRandom(seed: 1)
        let pauses = (0..<count).map { _ in Double.random(in: 0.02...0.1, using: &random) }
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [
                path = disk.store as String, notes = store.path as String,
                image = disk.image.path as String, pauses = pauses as [Double],
                synchronous = synchronous as String?
            ] in
            try await KilledWriter.run(
                path, noting: notes, round: 0, first: 0, steps: 20_000, synchronous: synchronous
            ) { step in
                guard step == 1 else { return }
                try? PowerCutter.begin(
                    image: image, note: notes + ".acknowledged", pauses: pauses)
            }
        }
        for index in 0..<count {
            let image = disk.image.path + ".\(index)"
            let copy = try LoopDisk(
                in: store.directory, named: "cut-\(index)", image: URL(filePath: image))
            try await look(copy, image)
        }
    }
}
