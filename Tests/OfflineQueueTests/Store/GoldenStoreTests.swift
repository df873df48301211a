import Foundation
import GRDB
import Testing

@testable import OfflineQueue

/// A store of each version of the schema, made by the code of its time.
///
/// `OFFLINE_QUEUE_GOLDEN=1 swift test --filter GoldenStoreTests` makes the files of the newest version. A version that
/// was released keeps its files.
@Suite("Stores of every version")
struct GoldenStoreTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Golden")
    private static let isMaking = ProcessInfo.processInfo.environment["OFFLINE_QUEUE_GOLDEN"] != nil
    private static let versions = Schema.migrator.migrations

    @Test(.enabled(if: isMaking, "makes the files of the newest version"))
    func makeFiles() async throws {
        let version = try #require(Self.versions.last)
        let path = Self.folder.appendingPathComponent("\(version).sqlite").path
        try? FileManager.default.removeItem(atPath: path)
        let lines = try await GoldenStore.make(path)
        try Data((lines.joined(separator: "\n") + "\n").utf8)
            .write(to: Self.folder.appendingPathComponent("\(version).txt"))
        for companion in ["-wal", "-shm", ".lock", ".registry-0", ".registry-1"] {
            try? FileManager.default.removeItem(atPath: path + companion)
        }
    }

    @Test(.enabled(if: !isMaking), arguments: versions)
    func opensAndIsDeliveredAsItWas(version: String) async throws {
        let store = try TestStore()
        try FileManager.default.copyItem(
            at: Self.folder.appendingPathComponent("\(version).sqlite"),
            to: URL(fileURLWithPath: store.path))
        let expected = try String(
            contentsOf: Self.folder.appendingPathComponent("\(version).txt"), encoding: .utf8)
        let queue = try await store.open(ManualClock(), bootID: "golden-boot-3")
        #expect(await queue.health().salvage == nil)
        let delivery = try #require(try await queue.enrollments().first).id
        let lines = try await GoldenStore.lines(queue, delivery: delivery)
        #expect(lines == expected.split(separator: "\n").map(String.init))
        let balance = try await queue.balance()
        #expect(balance.received == 82 && balance.undecodable == 1 && balance.isBalanced)
        #expect(balance.dead == 1 && balance.delivered == 7)
        try await checkElsewhere(queue)
        #expect(balance.held == ["not-enrolled": 40, "clock-unknown": 1])
        let letters = try await queue.deadLetters()
        #expect(letters.filter { $0.enrollmentID == delivery }.map(\.diagnostics) == ["words"])
        #expect(letters.allSatisfy { SampleIdentity(text: $0.uuid)?.kind == .heartRate })
        #expect(try await queue.sensors().first?.details.name == "Strap 1")
        #expect(try await queue.uploads().map(\.count) == [10])
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
        try await queue.close()
        let report = try SampleQueue.verify(path: store.path)
        #expect(report.isClean, "\(report)")
    }

    private func checkElsewhere(_ queue: SampleQueue) async throws {
        let elsewhere = try #require(try await queue.enrollments().last).id
        let balance = try await queue.balance(of: .enrollment(elsewhere))
        #expect(balance.isBalanced && balance.stored == 41 && balance.delivered == 3)
        #expect(balance.dead == 1 && balance.dropped == ["zero-rate": 1] && balance.pending == 35)
        #expect(balance.held == ["clock-unknown": 1])
        let letters = try await queue.deadLetters().filter { $0.enrollmentID == elsewhere }
        #expect(letters.map(\.diagnostics) == ["elsewhere"])
        #expect(try await queue.nextBatch(enrollment: elsewhere, limit: 100).count == 35)
    }
}
