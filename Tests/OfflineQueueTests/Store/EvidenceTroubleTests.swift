import Basics
import FaultyDisk
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("A store that breaks on a disk in trouble")
struct EvidenceTroubleTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private static var settings: QueueSettings {
        var settings = QueueSettings()
        settings.staysAvailable = true
        return settings
    }

    private func open(_ bootID: String = "boot-1") async throws -> SampleQueue {
        try await store.open(clock, bootID: bootID, settings: Self.settings)
    }

    private func beat(_ queue: SampleQueue, _ worn: Worn, _ count: Int) async throws {
        for bpm in 0..<count {
            try await queue.beat(worn.assignment, bpm: UInt8(bpm % 200), clock)
            clock.advance(seconds: 1)
            await queue.commitIfDue()
        }
    }

    /// A store with a hundred samples of a strap, closed, and its header damaged.
    private func broken() async throws -> Worn {
        let queue = try await open()
        let worn = try await Worn(queue)
        try await beat(queue, worn, 100)
        try await queue.close()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        try file.write(contentsOf: Data(count: 100))
        try file.close()
        return worn
    }

    private var files: [String] { Evidence(of: store.path).files }

    private func saved(_ queue: SampleQueue) async throws {
        repeat {
            await queue.commitIfDue()
            try await Task.sleep(for: .milliseconds(1))
        } while await queue.health().isSalvaging
    }

    @Test func aDeviceThatFailsForFiveMinutesIsBrokenAndNothingIsLost() async throws {
        let disk = try BadDisk(store.directory, seed: 1)
        let queue = try await open()
        let worn = try await Worn(queue)
        try await beat(queue, worn, 100)
        try await queue.flush()
        disk.fail(FAULTY_DISK_IO, perThousand: 1_000)
        try await beat(queue, worn, 290)
        #expect(files.isEmpty, "it may recover")
        try await beat(queue, worn, 40)
        #expect(files.count == 1)
        #expect(await queue.health().isAbsent)
        disk.fail(0)
        try await beat(queue, worn, 10)
        try await queue.flush()
        try await saved(queue)
        let report = try #require(await queue.health().salvage)
        #expect(report.isDone && report.fault == nil && report.carried >= 100, "\(report)")
        let balance = try await queue.balance()
        #expect(balance.stored == 440 && balance.isBalanced && balance.refused.isEmpty)
        #expect(try await queue.audit().isClean)
        #expect(Set(try await queue.deliverAll(worn.enrollment.id).map(\.uuid)).count == 440)
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func aReadOnlyDiskKeepsABrokenStoreInItsPlaceUntilItCanBeRenamed() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 8_000)
        let worn = try await broken()
        let bytes = try Data(contentsOf: URL(fileURLWithPath: store.path))
        try disk.remountReadOnly()
        let queue = try await open("boot-2")
        #expect(await queue.health().isAbsent)
        try await beat(queue, worn, 30)
        #expect(await queue.health().buffered == 30)
        #expect(try Data(contentsOf: URL(fileURLWithPath: store.path)) == bytes && files.isEmpty)
        try disk.remountWritable()
        try await beat(queue, worn, 10)
        try await queue.flush()
        try await saved(queue)
        let file = try #require(files.first)
        #expect(
            try Data(contentsOf: URL(fileURLWithPath: Evidence(of: store.path).place(of: file)))
                == bytes)
        #expect(try await queue.balance().stored == 140)
        #expect(await queue.health().salvage?.unknown == 0)
        #expect(try await queue.audit().isClean)
    }

    @Test func rowsThatWereOverwrittenInPlaceAreStoreLostInTheCoverage() async throws {
        let queue = try await open()
        let worn = try await Worn(queue)
        try await beat(queue, worn, 100)
        try await queue.flush()
        try await queue.emptyLog()
        let older = try Data(contentsOf: URL(fileURLWithPath: store.path))
        try await beat(queue, worn, 200)
        try await queue.flush()
        try await queue.emptyLog()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        try file.write(contentsOf: older)
        try file.truncate(atOffset: UInt64(older.count))
        try file.close()
        try await beat(queue, worn, 100)
        try await queue.flush()
        try await saved(queue)
        let report = try #require(await queue.health().salvage)
        let stored = try await queue.balance().stored
        let lost = 400 - stored
        #expect(lost > 100, "\(report)")
        #expect(report.unknown == lost, "\(report)")
        let coverage = try await queue.coverage(
            of: .enrollment(worn.enrollment.id), dayStartingAt: ManualClock.midnight)
        let seconds = coverage.secondsByCause[.storeLost] ?? 0
        #expect(abs(seconds - Double(lost)) < 5, "\(lost) are lost: \(coverage)")
        #expect(abs(coverage.coveredSeconds - Double(stored)) < 5, "\(coverage)")
    }

    /// Every commit was refused, and frames waited in memory for a disk that never takes them.
    @Test func aStoreThatSQLiteTakesForReadOnlyThoughItIsNotIsBroken() async throws {
        let queue = try await open()
        let worn = try await Worn(queue)
        try await beat(queue, worn, 100)
        try await queue.flush()
        try await queue.emptyLog()
        try store.unnoticed {
            let file = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
            try file.seek(toOffset: 18)
            try file.write(contentsOf: [3])
            try file.close()
        }
        // As the background check does.
        await queue.store.database.releaseMemory()
        try await beat(queue, worn, 290)
        #expect(files.isEmpty, "a disk may be read-only for a while")
        try await beat(queue, worn, 40)
        try await queue.flush()
        try await saved(queue)
        #expect(files.count == 1)
        #expect(await queue.health().salvage?.cause.contains("readonly") == true)
        #expect(try await queue.balance().stored == 430)
        #expect(try await queue.audit().isClean)
    }

    @Test func whoWearsWhatIsSaidToBeUnwrittenWhileItIs() async throws {
        let queue = try await open()
        let blocks = ["0", "1"].map { store.path + ".registry-\($0).part/in-the-way" }
        for path in blocks {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true)
        }
        let worn = try await Worn(queue)
        #expect(await queue.health().sidecarFault != nil)
        for path in blocks {
            try FileManager.default.removeItem(
                at: URL(fileURLWithPath: path).deletingLastPathComponent())
        }
        await queue.commitIfDue()
        #expect(await queue.health().sidecarFault == nil)
        let open = try #require(try Sidecar.newest(besides: store.path)?.rows(of: "assignment"))
        #expect(open[worn.assignment.id] != nil)
    }

    /// The file that took the erasure was written twice, and the other one not at all.
    @Test(arguments: [0, 1])
    func anErasureThatOneOfTheFilesDidNotTakeAtOnceIsInBoth(blocked: Int) async throws {
        let queue = try await open()
        let worn = try await Worn(queue)
        try await queue.forgetSensor(worn.sensor.id)
        let block = "\(store.path).registry-\(blocked).part"
        try FileManager.default.createDirectory(
            atPath: block + "/in-the-way", withIntermediateDirectories: true)
        while try await !queue.erase(Erasure(enrollment: worn.enrollment.id)) {}
        #expect(await queue.health().sidecarFault != nil)
        try FileManager.default.removeItem(atPath: block)
        await queue.commitIfDue()
        #expect(await queue.health().sidecarFault == nil)
        for number in 0..<2 {
            let text = try String(
                contentsOfFile: "\(store.path).registry-\(number)", encoding: .utf8)
            #expect(!text.contains("p-1") && !text.contains("ward-1"), "\(number)")
        }
    }

    /// It was taken for the broken one at each attempt, one every five seconds.
    @Test func aFreshStoreThatCannotBeOpenedAtOnceIsNotSetAside() async throws {
        let disk = try BadDisk(store.directory, seed: 1)
        let queue = try await open()
        let worn = try await Worn(queue)
        try await beat(queue, worn, 100)
        try await queue.flush()
        disk.refuseOpening(true)
        await queue.note(QueueError(.corrupt, "read", "as if a call had met damage"))
        try await beat(queue, worn, 60)
        #expect(files.count == 1)
        #expect(await queue.health().isAbsent)
        disk.refuseOpening(false)
        try await beat(queue, worn, 10)
        try await queue.flush()
        try await saved(queue)
        #expect(files.count == 1)
        let report = try #require(try await queue.salvages().first)
        #expect(report.isDone && report.unknown == 0 && report.carried == 100, "\(report)")
        #expect(report.cause == "as if a call had met damage")
        #expect(try await queue.balance().stored == 170)
        #expect(try await queue.audit().isClean)
    }

    /// The commit was over after the other program's write, and took it for its own.
    @Test func aStoreThatIsOverwrittenDuringACommitIsSetAside() async throws {
        let queue = try await open()
        let worn = try await Worn(queue)
        try await beat(queue, worn, 100)
        try await queue.flush()
        try await queue.emptyLog()
        let path = store.path
        // A store of another test that writes at the same time covers it up: a gateway has one.
        for _ in 0..<20 where files.isEmpty {
            try? await queue.write("as a commit") { db in
                try db.execute(sql: "UPDATE walk SET through = 0")
                let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
                try file.seek(toOffset: 5_120)
                try file.write(contentsOf: Data(repeating: 0xA5, count: 512))
            }
            try await saved(queue)
        }
        #expect(files.count == 1)
        #expect(await queue.health().salvage?.isDone == true)
        #expect(try await queue.audit().isClean)
    }

    /// It was tried once a minute for ever, and nobody was told.
    @Test func aSaveThatCannotSucceedIsToldWithItsReasonAndEnds() async throws {
        _ = try await broken()
        let queue = try await open("boot-2")
        let file = try #require(files.first)
        for companion in Evidence.companions {
            unlink(Evidence(of: store.path).place(of: file) + companion)
        }
        var tries = 0
        while await queue.health().salvage?.isDone != true {
            try await saved(queue)
            #expect(await queue.health().salvage?.fault?.contains("No such file") == true)
            clock.advance(seconds: 400)
            tries += 1
            try #require(tries < 10)
        }
        let report = try #require(try await queue.salvages().first)
        #expect(report.isDone && report.fault != nil && report.unknown == 100, "\(report)")
        try await queue.acknowledgeSalvages()
        #expect(await queue.health().salvage == nil)
    }

    @Test func filesOfABrokenStoreAreListedUntilAYearIsOver() async throws {
        _ = try await broken()
        let queue = try await open("boot-2")
        try await saved(queue)
        let path = Evidence(of: store.path).place(of: try #require(files.first))
        #expect(await queue.evidence().first == path)
        clock.advance(seconds: 366 * 86_400)
        _ = try await queue.prune()
        // The clock may have been wrong when it broke.
        #expect(files.count == 1, "nobody has acknowledged it")
        try await queue.acknowledgeSalvages()
        _ = try await queue.prune()
        #expect(files.isEmpty)
        #expect(await queue.evidence().isEmpty)
        #expect(try await queue.salvages().count == 1, "that it broke is known still")
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func filesOfABrokenStoreMakeRoomWhenTheDiskIsFull() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 8_000)
        _ = try await broken()
        let queue = try await open("boot-2")
        try disk.fillWhole()
        _ = try? await queue.prune()
        #expect(files.count == 1, "it is not saved yet")
        disk.makeRoom()
        try await saved(queue)
        try disk.fillWhole()
        _ = try? await queue.prune()
        #expect(files.isEmpty)
        #expect(try await queue.balance().stored == 100)
    }
}
