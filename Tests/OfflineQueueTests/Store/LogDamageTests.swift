import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("A damaged write-ahead log")
struct LogDamageTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    /// The files of a store as a kill leaves them: with commits that only the log has.
    private struct Killed {
        var files: [String: Data] = [:]
        var world: SalvageWorld
        /// What waited, of the commits in the log too.
        var waiting: Set<String> = []
        var rows = 0

        var log: [UInt8] {
            get { [UInt8](files["-wal"] ?? Data()) }
            set { files["-wal"] = Data(newValue) }
        }
        var frameBytes: Int { 24 + (files[""]?.pageBytes ?? 0) }
        /// Frames in the log, before the zeros.
        var frames: Int {
            let used = log.lastIndex { $0 != 0 } ?? 0
            return (used - 32) / frameBytes + 1
        }

        /// Changes one byte of a frame, counted from 0; the first 24 are its header.
        mutating func flip(frame: Int, byte: Int) { log[32 + frame * frameBytes + byte] ^= 0x10 }

        /// The frames that end a commit: of each the first, which is repeated up to the next block,
        /// and the last.
        var commits: [ClosedRange<Int>] {
            let (log, frameBytes) = (log, frameBytes)
            func part(_ frame: Int, _ bytes: Range<Int>) -> ArraySlice<UInt8> {
                log.dropFirst(32 + frame * frameBytes + bytes.lowerBound).prefix(bytes.count)
            }
            var found: [ClosedRange<Int>] = []
            let all = 0..<(log.count - 32) / frameBytes
            for frame in all where part(frame, 4..<8).contains(where: { $0 != 0 }) {
                if let last = found.last, last.upperBound == frame - 1,
                    part(frame, 0..<4).elementsEqual(part(frame - 1, 0..<4))
                {
                    found[found.count - 1] = last.lowerBound...frame
                } else {
                    found.append(frame...frame)
                }
            }
            return found
        }
    }

    private func kill(
        commits: Int = 40,
        afterwards: (SampleQueue, SalvageWorld) async throws -> Void = { _, _ in }
    ) async throws -> Killed {
        var killed = Killed(world: try await SalvageWorld(store, clock))
        let queue = try await store.open(clock, bootID: "boot-2")
        for bpm in 0..<commits {
            for worn in killed.world.worn {
                try await queue.beat(worn.assignment, bpm: UInt8(bpm), clock)
            }
            try await queue.flush()
            clock.advance(seconds: 1)
        }
        try await afterwards(queue, killed.world)
        for companion in ["", "-wal", "-shm"] {
            killed.files[companion] = try Data(
                contentsOf: URL(fileURLWithPath: store.path + companion))
        }
        for worn in killed.world.worn {
            let samples = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 1_000)
            killed.waiting.formUnion(samples.map(\.uuid))
        }
        killed.rows = killed.world.rows + 3 * commits
        try await queue.abandon()
        return killed
    }

    private func put(_ killed: Killed) throws {
        for companion in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: store.path + companion)
            if let data = killed.files[companion] {
                try data.write(to: URL(fileURLWithPath: store.path + companion))
            }
        }
    }

    /// Opens the damaged store; at most `lost` of the samples that waited are gone, and each is counted.
    @discardableResult
    private func expectSalvage(
        _ killed: Killed, lost: Int, _ comment: String
    ) async throws -> SalvageReport? {
        try put(killed)
        let found = try SampleQueue.verify(path: store.path)
        #expect(!found.isClean, "\(comment): verify")
        let queue = try await store.open(clock, bootID: "boot-3")
        guard let report = await queue.health().salvage else {
            Issue.record("\(comment): no salvage")
            try await queue.abandon()
            return nil
        }
        #expect(
            killed.rows - report.carried <= lost && report.orphaned == 0 && report.unknown == nil,
            "\(comment): \(report)")
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(comment): \(audit)")
        let balance = try await queue.balance()
        #expect(balance.isBalanced, "\(comment)")
        let sent = Set(try await killed.world.deliverAll(queue).map(\.uuid))
        #expect(killed.waiting.subtracting(sent).count <= lost, "\(comment): \(report)")
        // What was kept aside is what was there.
        let kept = store.directory.appendingPathComponent(report.brokenFile).path
        for companion in ["", "-wal"] {
            let data = FileManager.default.contents(atPath: kept + companion)
            #expect(data == killed.files[companion], "\(comment): kept\(companion)")
        }
        try await queue.close()
        return report
    }

    /// In the page, in its number, the commit mark, the salts and the checksum of a frame.
    @Test(arguments: [(0, 24), (1, 400), (9, 2), (20, 7), (33, 10), (47, 21), (60, 500)])
    func aByteFlippedInTheLogLosesNothingBehindIt(frame: Int, byte: Int) async throws {
        var killed = try await kill()
        try #require(killed.frames > 65)
        killed.flip(frame: frame, byte: byte)
        try await expectSalvage(killed, lost: 1, "frame \(frame), byte \(byte)")
    }

    @Test func aByteFlippedInTheLastCommitIsFoundByTheIndexOfTheLog() async throws {
        var killed = try await kill()
        killed.flip(frame: killed.frames - 2, byte: 300)
        try await expectSalvage(killed, lost: 3, "last commit")
    }

    @Test(arguments: [0, 4, 8, 10, 12, 16, 20, 24, 31])
    func aByteFlippedInTheHeaderOfTheLogLosesNothing(byte: Int) async throws {
        var killed = try await kill()
        killed.log[byte] ^= 0x01
        try await expectSalvage(killed, lost: 0, "header byte \(byte)")
    }

    /// What could be read of the store was older: the first patient got the frames.
    @Test func aStrapThatChangedPatientsBehindTheDamageSendsToTheSecond() async throws {
        var killed = try await kill { queue, world in
            let second = try await queue.enroll(.example("second", patient: "p-9"))
            try await queue.assign(sensor: world.worn[0].sensor.id, enrollment: second.id)
        }
        killed.flip(frame: 20, byte: 200)
        try put(killed)
        var settings = QueueSettings()
        settings.staysAvailable = true
        let queue = try await store.open(clock, bootID: "boot-3", settings: settings)
        let first = killed.world.worn[0].assignment
        let open = try #require(
            try await queue.openAssignments().first { $0.sensorID == first.sensorID })
        #expect(open.id != first.id)
        for bpm in UInt8(201)...202 { try await queue.beat(open, bpm: bpm, clock) }
        try await queue.flush()
        await queue.commitIfDue()
        while await queue.health().salvage?.isDone != true {
            try await Task.sleep(for: .milliseconds(1))
        }
        let late = try await queue.samples(limit: 10_000).filter { $0.frame[1] > 200 }
        #expect(Set(late.map(\.frame)) == [[0, 201], [0, 202]])
        #expect(late.allSatisfy { $0.enrollmentID == open.enrollmentID })
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
        try await queue.close()
    }

    @Test func anEmptiedFileIsMadeAgainFromALogThatHasAllOfIt() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<100 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        let log = try Data(contentsOf: URL(fileURLWithPath: store.path + "-wal"))
        try await queue.abandon()
        try Data().write(to: URL(fileURLWithPath: store.path))
        try log.write(to: URL(fileURLWithPath: store.path + "-wal"))
        let next = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await next.health().salvage)
        #expect(report.carried == 100 && report.orphaned == 0, "\(report)")
        let kept = store.directory.appendingPathComponent(report.brokenFile).path + "-wal"
        #expect(FileManager.default.contents(atPath: kept) == log)
        #expect(try await next.deliverAll(worn.enrollment.id).count == 100)
    }

    @Test(arguments: [0, 20, 32, 32 + 536 * 5, 32 + 536 * 40 + 500])
    func aLogThatWasCutIsReported(bytes: Int) async throws {
        var killed = try await kill()
        killed.log = Array(killed.log.prefix(bytes))
        try put(killed)
        let found = try SampleQueue.verify(path: store.path)
        #expect(!found.isClean)
        let queue = try await store.open(clock, bootID: "boot-3")
        #expect(await queue.health().salvage != nil)
        #expect(try await queue.audit().isClean)
    }

    /// SQLite would read each page of it at the wrong place.
    @Test func aLogWithPagesOfAnotherSizeIsReported() async throws {
        var killed = try await kill()
        let other = try TestStore()
        try other.make(pageBytes: 1024)
        let queue = try await other.open(clock, bootID: "boot-9")
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        killed.files["-wal"] = try Data(contentsOf: URL(fileURLWithPath: other.path + "-wal"))
        killed.files["-shm"] = nil
        try await queue.abandon()
        try put(killed)
        let found = try SampleQueue.verify(path: store.path)
        #expect(found.differences.first?.contains("pages of 1024 bytes, the store of 512") == true)
        let salvaged = try await store.open(clock, bootID: "boot-3")
        let report = try #require(await salvaged.health().salvage)
        #expect(report.carried >= killed.world.rows, "\(report) \(killed.world.rows)")
    }

    @Test func aLogThatWasRemovedIsReported() async throws {
        var killed = try await kill()
        killed.files["-wal"] = nil
        try put(killed)
        let queue = try await store.open(clock, bootID: "boot-3")
        #expect(await queue.health().salvage != nil)
    }

    /// After a power cut the index may be that of long ago, and the last commit may be there in parts, in
    /// any order: nothing of that was acknowledged.
    @Test func aTornTailIsNoDamage() async throws {
        let killed = try await kill()
        let (before, last) = try #require(killed.commits.suffix(2).pair)
        try #require(last.lowerBound - before.upperBound >= 2 && last.count > 1)
        var torn: [(comment: String, log: [UInt8], lost: Int)] = []
        let frameBytes = killed.frameBytes
        for cut in [1, 500, frameBytes, frameBytes + 30] {
            let end = 32 + (last.lowerBound + 1) * frameBytes
            torn.append(("cut by \(cut)", Array(killed.log.prefix(end - cut)), 3))
        }
        for frame in (before.upperBound + 1)...last.upperBound {
            var log = killed.log
            for at in (32 + frame * frameBytes)..<(32 + (frame + 1) * frameBytes) { log[at] = 0 }
            torn.append(("without frame \(frame)", log, frame <= last.lowerBound ? 3 : 0))
        }
        for (comment, log, lost) in torn {
            var after = killed
            after.log = log
            after.files["-shm"] = nil
            try put(after)
            #expect(try SampleQueue.verify(path: store.path).isClean, "\(comment)")
            let queue = try await store.open(clock, bootID: "boot-3")
            #expect(await queue.health().salvage == nil, "\(comment)")
            #expect(try await queue.balance().stored == killed.rows - lost, "\(comment)")
            #expect(try await queue.audit().isClean, "\(comment)")
            try await queue.abandon()
        }
    }

    @Test func theLogHasItsLengthFromTheStartAndKeepsIt() async throws {
        func length() throws -> Int {
            let values = try URL(fileURLWithPath: store.path + "-wal").resourceValues(
                forKeys: [.fileSizeKey])
            return values.fileSize ?? 0
        }
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let atFirst = try length()
        #expect(atFirst >= StoreFile.walPagesMax * (24 + StoreFile.newPageBytes))
        for _ in 0..<3 {
            for bpm in UInt8(0)..<100 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
            try await queue.flush()
            try await queue.beginLogAnew()
            #expect(try length() == atFirst)
        }
        try await queue.abandon()
        let next = try await store.open(clock, bootID: "boot-2")
        #expect(try length() == atFirst)
        #expect(try await next.balance().stored == 300)
    }

    /// A card that is cut off while it writes a block may lose what was in the block before.
    @Test func eachCommitBeginsInADiskBlockOfItsOwn() async throws {
        let killed = try await kill()
        let (commits, frameBytes) = (killed.commits, killed.frameBytes)
        #expect(commits.count > 30)
        for (before, commit) in zip(commits, commits.dropFirst()) {
            // What a power cut may take: the block in which the commit ends.
            let end = 32 + (before.lowerBound + 1) * frameBytes
            let block = (end + 4095) / 4096 * 4096
            let next = 32 + (before.upperBound + 1) * frameBytes
            #expect(next >= block, "\(before) before \(commit)")
        }
    }

    /// A log that was begun anew has frames of its earlier life behind the new ones.
    @Test func framesFromBeforeACheckpointAreNoDamage() async throws {
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<100 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            try await queue.flush()
        }
        try await queue.beginLogAnew()
        for bpm in UInt8(0)..<5 {
            try await queue.beat(worn.assignment, bpm: bpm, clock)
            try await queue.flush()
        }
        let log = WriteAheadLog(of: store.path, readsIndex: false)
        #expect(log.damage == nil && log.frames.count > 2 * log.committed && log.committed > 0)
        for companion in ["", "-wal"] {
            try FileManager.default.copyItem(
                atPath: store.path + companion, toPath: store.path + ".copy" + companion)
        }
        let copy = try SampleQueue(path: store.path + ".copy", clock: clock, bootID: "boot-2")
        #expect(await copy.health().salvage == nil)
        #expect(try await copy.balance().stored == 105)
    }
}

extension Collection {
    /// The first and the last of two.
    fileprivate var pair: (Element, Element)? {
        guard count == 2, let first else { return nil }
        return (first, self[index(after: startIndex)])
    }
}

extension SampleQueue {
    /// Copies the log home, so that the next commit begins it anew.
    fileprivate func beginLogAnew() throws {
        try store.writeOutside("test") { database in
            try database.writeWithoutTransaction { db in _ = try db.checkpoint(.restart) }
        }
    }
}
