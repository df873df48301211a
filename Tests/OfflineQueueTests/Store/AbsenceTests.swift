import Basics
import FaultyDisk
import Foundation
import GRDB
import Testing

@testable import OfflineQueue

@Suite("A store that cannot be written")
struct AbsenceTests {
    let store: TestStore
    let aside: TestStore
    let clock = ManualClock()

    init() throws {
        store = try TestStore()
        aside = try TestStore()
    }

    private var settings: QueueSettings {
        var settings = QueueSettings()
        settings.staysAvailable = true
        settings.asideDirectories = [aside.directory.path]
        return settings
    }

    private func open(bootID: String = "boot-1") async throws -> SampleQueue {
        try await store.open(clock, bootID: bootID, settings: settings)
    }

    /// A store with a strap, closed in order unless `isKilled`: then its log is beside it.
    private func prepare(isKilled: Bool) async throws -> Worn {
        let queue = try await open()
        let worn = try await Worn(queue)
        for bpm in UInt8(0)..<50 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        try await queue.flush()
        guard isKilled else {
            try await queue.close()
            return worn
        }
        var files: [String: Data] = [:]
        for companion in ["", "-wal"] {
            files[companion] = try Data(contentsOf: URL(fileURLWithPath: store.path + companion))
        }
        try await queue.abandon()
        for (companion, data) in files {
            try data.write(to: URL(fileURLWithPath: store.path + companion))
        }
        return worn
    }

    private func beat(_ queue: SampleQueue, _ worn: Worn, _ count: Int) async throws {
        for bpm in 0..<count {
            try await queue.beat(worn.assignment, bpm: UInt8(100 + bpm % 100), clock)
            clock.advance(seconds: 1)
            await queue.commitIfDue()
        }
    }

    /// What runs have left there.
    private var asides: [String] { Evidence(of: store.path).asides(in: aside.directory.path) }

    /// Takes up what earlier runs set aside.
    private func takeUp(_ queue: SampleQueue) async throws {
        repeat {
            await queue.commitIfDue()
            try await Task.sleep(for: .milliseconds(1))
        } while await queue.health().isSalvaging
    }

    private func expectAllThere(_ queue: SampleQueue, _ worn: Worn, _ count: Int) async throws {
        let facts = await queue.health()
        #expect(!facts.isAbsent && facts.fault == nil && facts.buffered == 0, "\(facts)")
        let balance = try await queue.balance()
        #expect(balance.stored == count && balance.isBalanced && balance.refused.isEmpty)
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
        let sent = try await queue.deliverAll(worn.enrollment.id)
        #expect(sent.count == count && Set(sent.map(\.uuid)).count == count)
    }

    @Test(
        .enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"),
        arguments: [false, true])
    func aDiskThatIsFullAtTheStartKeepsNothingFromBeingRecorded(isKilled: Bool) async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 800)
        let worn = try await prepare(isKilled: isKilled)
        try disk.fillWhole()
        let queue = try await open(bootID: "boot-2")
        var facts = await queue.health()
        #expect(facts.isAbsent && facts.fault?.code == .diskFull, "\(facts)")
        // Who wears what is known, and what is stored can be read.
        #expect(try await queue.openAssignments().count == 1)
        #expect(
            facts.lastKnown?.samples == (isKilled ? 0 : 50), "as of the last time it was written")
        await #expect(throws: QueueError.self) {
            try await queue.addSensor(address: "A0:9E:1A:00:00:0F")
        }
        try await beat(queue, worn, 30)
        facts = await queue.health()
        // In the last block of the log there may be room for what an opening writes, and for no more.
        #expect(facts.fault != nil && facts.buffered == 30 && facts.refused == 0, "\(facts)")
        disk.makeRoom()
        try await beat(queue, worn, 10)
        await queue.commitIfDue()
        try await queue.flush()
        try await expectAllThere(queue, worn, 90)
        #expect(await queue.health().salvage == nil)
        // It was there from the beginning: no gap in which it was off.
        let gaps = try await queue.gaps()
        #expect(gaps.allSatisfy { $0.cause == .gatewayOff } && gaps.count <= 1, "\(gaps)")
        try await queue.close()
    }

    @Test(
        .enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"),
        arguments: [false, true])
    func aReadOnlyDiskAtTheStartKeepsNothingFromBeingRecorded(isKilled: Bool) async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 2_000)
        let worn = try await prepare(isKilled: isKilled)
        try disk.remountReadOnly()
        let queue = try await open(bootID: "boot-2")
        #expect(await queue.health().fault?.code == .readOnly)
        #expect(await queue.health().lastKnown != nil)
        try await beat(queue, worn, 10)
        #expect(await queue.health().buffered == 10)
        try disk.remountWritable()
        try await beat(queue, worn, 10)
        try await queue.flush()
        try await expectAllThere(queue, worn, 70)
        try await queue.close()
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func aDiskWithoutInodesIsNotTakenForAFailingCard() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 2_000, inodes: 30)
        let worn = try await prepare(isKilled: false)
        for companion in ["-wal", "-shm"] { unlink(store.path + companion) }
        try disk.takeInodes()
        let queue = try await open(bootID: "boot-2")
        let fault = try #require(await queue.health().fault)
        #expect(fault.code == .diskFull, "\(fault)")
        try await beat(queue, worn, 10)
        disk.giveInodes()
        try await beat(queue, worn, 10)
        try await queue.flush()
        try await expectAllThere(queue, worn, 70)
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func withoutAStoreYetItWaitsForTheDisk() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 800)
        try disk.fillWhole()
        let queue = try await open()
        #expect(await queue.health().isAbsent)
        #expect(try await queue.sensors().isEmpty)
        disk.makeRoom()
        clock.advance(seconds: 6)
        await queue.commitIfDue()
        _ = try await Worn(queue)
    }

    @Test(
        .enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"),
        arguments: [false, true])
    func whatWaitsAtTheEndIsTakenUpOnceByTheNextStart(isFullAtStart: Bool) async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 800)
        let worn = try await prepare(isKilled: false)
        if isFullAtStart { try disk.fillWhole() }
        var queue = try await open()
        if !isFullAtStart { try disk.fillWhole() }
        var sent = 50
        while await queue.health().buffered < 40 {
            try await beat(queue, worn, 1)
            sent += 1
            try #require(sent < 5_000)
        }
        guard case .setAside(let frames, _) = await queue.closeSettingAside() else {
            Issue.record("not set aside")
            return
        }
        let buffered = frames
        #expect(buffered >= 40)
        let file = try #require(asides.first)
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        let copy = try Data(contentsOf: URL(fileURLWithPath: file))
        disk.makeRoom()
        clock.advance(seconds: 100)
        queue = try await open()
        try await takeUp(queue)
        #expect(asides.isEmpty)
        #expect(try await queue.balance().stored == sent)
        #expect(await queue.health().salvage == nil)
        try await queue.close()
        // The file is there again, as if its removal had not reached the disk.
        try copy.write(to: URL(fileURLWithPath: file))
        queue = try await open()
        try await takeUp(queue)
        try await expectAllThere(queue, worn, sent)
        #expect(asides.isEmpty)
        // They fill the time until that run ended; after it the gateway was off.
        let gaps = try await queue.gaps()
        #expect(gaps.allSatisfy { $0.cause == .gatewayOff }, "\(gaps)")
    }

    /// A commit that a disk refuses at its last bytes, or at the sync after them, is whole in the log, and counted at
    /// the next start: what was set aside was there twice.
    @Test(arguments: [FAULTY_DISK_FULL, FAULTY_DISK_IO])
    func whatADiskRefusedAtTheLastBytesIsTakenUpOnce(fault: Int) async throws {
        var countedCommits = 0
        for changes in 0..<24 {
            let store = try TestStore()
            let disk = try BadDisk(store.directory, seed: 1)
            var queue = try await store.open(clock, settings: settings)
            let worn = try await Worn(queue)
            try await queue.beat(worn.assignment, clock)
            try await queue.flush()
            for bpm in UInt8(1)...20 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
            disk.fail(fault, after: changes)
            let closing = await queue.closeSettingAside()
            // So many changes are all that there are.
            guard disk.failures > 0 else { break }
            disk.fail(0)
            let stored = try store.number("SELECT count(*) FROM sample")
            if case .setAside = closing, stored == 21 { countedCommits += 1 }
            queue = try await store.open(clock, bootID: "boot-2", settings: settings)
            try await takeUp(queue)
            try await expectAllThere(queue, worn, 21)
            try await queue.close()
        }
        #expect(countedCommits > 0)
    }

    /// The same where the store is salvaged before the disk takes the commit.
    @Test(arguments: [FAULTY_DISK_FULL, FAULTY_DISK_IO])
    func whatADiskRefusedAtTheLastBytesIsThereOnceAfterASalvage(fault: Int) async throws {
        var countedCommits = 0
        for changes in 0..<16 {
            let store = try TestStore()
            let disk = try BadDisk(store.directory, seed: 1)
            let queue = try await store.open(clock)
            let worn = try await Worn(queue)
            let (id, strap) = (worn.assignment.id, worn.sensor.id)
            var isRefused = false
            for round in 0..<2 {
                for bpm in UInt8(0)..<20 {
                    try await queue.beat(worn.assignment, bpm: bpm, clock)
                    clock.advance(seconds: bpm == 9 ? 30 : 1)
                }
                try await queue.append(
                    Arrival(sensorID: strap, at: clock.read(), frame: [], fault: "e"))
                clock.advance(seconds: 1)
                if round == 1 {
                    await queue.note(.linkLost, of: strap, at: clock.read().uptime)
                    disk.fail(fault, after: changes)
                }
                isRefused = (try? await queue.flush()) == nil
            }
            disk.fail(0)
            await queue.note(QueueError(.corrupt, "read sample", "as a test wills it"))
            await queue.commitIfDue()
            let carried = await queue.health().salvage?.carried
            if isRefused, carried == 40 { countedCommits += 1 }
            clock.advance(seconds: 70)
            await queue.commitIfDue()
            let balance = try await queue.balance()
            #expect(balance.stored == 40 && balance.undecodable == 2 && balance.isBalanced)
            #expect(try await queue.audit().isClean)
            #expect(try await queue.deliverAll(worn.enrollment.id).count == 40)
            let gaps = try await queue.gaps(assignment: id)
            #expect(gaps.map(\.cause) == [.silent, .silent, .undecodable, .linkLost], "\(gaps)")
            try await queue.close()
        }
        #expect(countedCommits > 0)
    }

    /// The change is whole in the log, and counts at the next start: the frames that came after it were stored for the
    /// first patient, whose assignment had ended.
    @Test func framesAfterAChangeThatADiskRefusedAtTheLastBytesAreTheSecondPatients() async throws {
        var countedChanges = 0
        for changes in 0..<24 {
            let store = try TestStore()
            let disk = try BadDisk(store.directory, seed: 1)
            var queue = try await store.open(clock, settings: settings)
            let worn = try await Worn(queue)
            let second = try await queue.enroll(.example("second", patient: "p-9"))
            for bpm in UInt8(0)..<20 {
                try await queue.beat(worn.assignment, bpm: bpm, clock)
                clock.advance(seconds: 1)
            }
            try await queue.flush()
            disk.fail(FAULTY_DISK_FULL, after: changes)
            let isRefused =
                (try? await queue.assign(sensor: worn.sensor.id, enrollment: second.id)) == nil
            for bpm in UInt8(20)..<40 where isRefused {
                try await queue.beat(worn.assignment, bpm: bpm, clock)
                clock.advance(seconds: 0.1)
            }
            let closing = await queue.closeSettingAside()
            disk.fail(0)
            queue = try await store.open(clock, bootID: "boot-2", settings: settings)
            try await takeUp(queue)
            let open = try #require(try await queue.openAssignments().first)
            let samples = try await queue.samples(limit: 1_000)
            if isRefused, case .setAside = closing {
                #expect(samples.count == 40)
                let late = samples.filter { $0.frame[1] >= 20 }
                #expect(late.allSatisfy { $0.enrollmentID == open.enrollmentID })
                if open.id != worn.assignment.id { countedChanges += 1 }
            }
            #expect(try await queue.balance().isBalanced)
            let audit = try await queue.audit()
            #expect(audit.isClean, "\(audit)")
            try await queue.close()
        }
        #expect(countedChanges > 0)
    }

    /// A queue whose disk takes nothing more, closed with a frame of each assignment in memory.
    private func setAside(
        _ store: TestStore, _ assignments: (SampleQueue) async throws -> [Assignment]
    ) async throws {
        let disk = try BadDisk(store.directory, seed: 1)
        let queue = try await store.open(clock, settings: settings)
        let worn = try await assignments(queue)
        disk.fail(FAULTY_DISK_FULL, perThousand: 1_000)
        for assignment in worn { try await queue.beat(assignment, clock) }
        guard case .setAside(worn.count, _) = await queue.closeSettingAside() else {
            Issue.record("not set aside")
            return
        }
    }

    /// The store was put back to an older state: which patient wore the second strap nobody knows.
    @Test func whatWasSetAsideOfAnAssignmentThatTheStoreDoesNotKnowWaitsForAPerson() async throws {
        let worn = try await prepare(isKilled: false)
        let older = try Data(contentsOf: URL(fileURLWithPath: store.path))
        try await setAside(store) { queue in
            [worn.assignment, try await Worn(queue, 2).assignment]
        }
        for companion in ["-wal", "-shm"] { unlink(store.path + companion) }
        try older.write(to: URL(fileURLWithPath: store.path))
        let queue = try await open(bootID: "boot-2")
        try await takeUp(queue)
        let facts = await queue.health()
        #expect(!facts.isAbsent && facts.fault == nil, "\(facts)")
        #expect(try await queue.balance().stored == 52)
        #expect(try await queue.unboundSamples().map(\.samples) == [1])
        #expect(asides.isEmpty)
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func whatCannotEvenBeSetAsideIsToldAndItsTimeIsAGap() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 800)
        let worn = try await prepare(isKilled: false)
        let small = try SmallDisk(at: aside.directory, kibibytes: 8)
        var queue = try await open()
        try disk.fillWhole()
        var sent = 50
        while await queue.health().buffered < 300 {
            try await beat(queue, worn, 1)
            sent += 1
            try #require(sent < 5_000)
        }
        guard case .lost(let frames, _) = await queue.closeSettingAside() else {
            Issue.record("not lost")
            return
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: aside.directory.path) == [])
        disk.makeRoom()
        queue = try await open()
        #expect(try await queue.balance().stored == sent - frames)
        #expect(try await queue.audit().isClean)
        let gap = try #require(try await queue.gaps().last)
        #expect(gap.cause == .gatewayOff)
        withExtendedLifetime(small) {}
    }

    /// Of a damaged one nobody knows whether all of it was found: it stays. So does another store's.
    @Test(arguments: [false, true])
    func whatWasSetAsideIsReadThoughItIsDamaged(isGarbage: Bool) async throws {
        let worn = try await prepare(isKilled: false)
        let other = try TestStore()
        try await setAside(other) { [try await Worn($0).assignment] }
        let strangers = try #require(asides.first)
        try await setAside(store) { _ in [worn.assignment] }
        let own = try #require(asides.first { $0 != strangers })
        var bytes = try Data(contentsOf: URL(fileURLWithPath: own))
        bytes[20] ^= 1
        if isGarbage { bytes = Data("no database".utf8) }
        try bytes.write(to: URL(fileURLWithPath: own))
        let queue = try await open()
        try await takeUp(queue)
        #expect(try await queue.balance().stored == (isGarbage ? 50 : 51))
        #expect(Set(asides) == [strangers, own])
        #expect(try Data(contentsOf: URL(fileURLWithPath: own)) == bytes)
        let report = try #require(await queue.health().salvage)
        #expect(report.isDone && report.unknown == nil, "\(report)")
        #expect(try await queue.audit().isClean)
    }

    /// A page of zeros says nothing of what it held: the file was deleted with it.
    @Test func whatWasSetAsideStaysIfNotAllOfItsSamplesAreFound() async throws {
        let worn = try await prepare(isKilled: false)
        let disk = try BadDisk(store.directory, seed: 1)
        var queue = try await open()
        disk.fail(FAULTY_DISK_FULL, perThousand: 1_000)
        try await beat(queue, worn, 200)
        guard case .setAside(200, _) = await queue.closeSettingAside() else {
            Issue.record("not set aside")
            return
        }
        disk.fail(0)
        let file = try #require(asides.first)
        let database = try DatabaseQueue(path: file)
        let leaf = try await database.read { db in
            try Int.fetchAll(
                db,
                sql: """
                    SELECT pageno - 1 FROM dbstat WHERE name = 'sample' AND pagetype = 'leaf'
                    ORDER BY 1
                    """)
        }.dropLast().last
        try database.close()
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: file))
        try handle.seek(toOffset: UInt64(try #require(leaf) * StoreFile.newPageBytes))
        try handle.write(contentsOf: Data(count: StoreFile.newPageBytes))
        try handle.close()
        queue = try await open()
        try await takeUp(queue)
        #expect((200..<250).contains(try await queue.balance().stored))
        #expect(asides == [file])
        let report = try #require(await queue.health().salvage)
        #expect(report.isDone && report.unknown == nil, "\(report)")
        #expect(try await queue.audit().isClean)
    }

    /// It lay there for ever, and nobody was told.
    @Test func whatWasSetAsideAndCannotBeReadIsSaid() async throws {
        let worn = try await prepare(isKilled: false)
        let file = aside.directory.appendingPathComponent("queue.sqlite.aside-1f")
        try Data("no database".utf8).write(to: file)
        for round in 0..<2 {
            let queue = try await open(bootID: "boot-\(round)")
            try await takeUp(queue)
            let report = try #require(await queue.health().salvage)
            #expect(report.isDone && report.fault != nil && report.unknown == nil, "\(report)")
            #expect(asides == [file.path])
            try await beat(queue, worn, 1)
            try await queue.close()
        }
        let queue = try await open(bootID: "boot-3")
        #expect(try await queue.salvages().count == 1)
        try await queue.acknowledgeSalvages()
        #expect(await queue.health().salvage == nil)
    }

    /// A fault that passed at one start would have kept it from ever being taken up.
    @Test(.enabled(if: SmallDisk.isPossible, "needs the right to mount a tmpfs"))
    func whatCouldNotBeReadAtOneStartIsTakenUpByTheNext() async throws {
        let disk = try SmallDisk(at: store.directory, kibibytes: 800)
        let worn = try await prepare(isKilled: false)
        try disk.fillWhole()
        var queue = try await open()
        try await beat(queue, worn, 10)
        guard case .setAside(10, _) = await queue.closeSettingAside() else {
            Issue.record("not set aside")
            return
        }
        disk.makeRoom()
        let file = URL(fileURLWithPath: try #require(asides.first))
        let bytes = try Data(contentsOf: file)
        try Data("no database".utf8).write(to: file)
        queue = try await open()
        try await takeUp(queue)
        #expect(await queue.health().salvage?.fault != nil)
        try await queue.close()
        try bytes.write(to: file)
        queue = try await open()
        try await takeUp(queue)
        #expect(await queue.health().salvage == nil && asides.isEmpty)
        try await expectAllThere(queue, worn, 60)
    }

    /// Frames that memory had no room for either are counted once, with those that it had.
    @Test func whatWasRefusedBeforeTheEndIsCountedByTheNextStart() async throws {
        var settings = settings
        settings.bufferedSamplesMax = 10
        let disk = try BadDisk(store.directory, seed: 1)
        var queue = try await store.open(clock, settings: settings)
        let worn = try await Worn(queue)
        disk.fail(FAULTY_DISK_FULL, perThousand: 1_000)
        for bpm in UInt8(0)..<15 { try await queue.beat(worn.assignment, bpm: bpm, clock) }
        guard case .setAside(10, _) = await queue.closeSettingAside() else {
            Issue.record("not set aside")
            return
        }
        disk.fail(0)
        for _ in 0..<2 {
            queue = try await store.open(clock, bootID: "boot-2", settings: settings)
            try await takeUp(queue)
            let balance = try await queue.balance()
            #expect(balance.stored == 10 && balance.isBalanced, "\(balance)")
            #expect(balance.refused == [LossReason.storeUnwritable.rawValue: 5], "\(balance)")
            #expect(try await queue.audit().isClean)
            try await queue.close()
        }
    }

    /// A fresh store takes frames at once, and what the broken one had is imported meanwhile.
    @Test(arguments: [false, true])
    func recordingGoesOnWhileAStoreIsSaved(isAtStart: Bool) async throws {
        let world = try await SalvageWorld(store, clock)
        func damage() throws {
            let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
            try handle.seek(toOffset: 0)
            try handle.write(contentsOf: Data(count: 512))
            try handle.close()
        }
        if isAtStart { try damage() }
        let queue = try await open(bootID: "boot-2")
        if !isAtStart {
            await queue.note(QueueError(.corrupt, "test", "as if a call had met damage"))
            await #expect(throws: QueueError.self) { try await queue.balance() }
        }
        await queue.commitIfDue()
        #expect(await !queue.health().isAbsent)
        #expect(try await queue.sensors().count == 3)
        try await queue.beat(world.worn[0].assignment, bpm: 222, clock)
        try await queue.flush()
        while await queue.health().salvage?.isDone != true {
            try await Task.sleep(for: .milliseconds(1))
        }
        let facts = await queue.health()
        #expect(!facts.isSalvaging && facts.buffered == 0 && facts.fault == nil, "\(facts)")
        #expect(facts.salvage?.carried == world.rows && facts.salvage?.unknown == 0, "\(facts)")
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
        #expect(try await world.deliverAll(queue).contains { $0.frame == [0, 222] })
        try await queue.close()
    }
}
