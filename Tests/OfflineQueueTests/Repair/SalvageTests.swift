import Basics
import Foundation
import GRDB
import Synchronization
import Testing

@testable import OfflineQueue

@Suite("A broken store")
struct SalvageTests {
    let store: TestStore
    let clock = ManualClock()

    init() throws { store = try TestStore() }

    private var url: URL { URL(fileURLWithPath: store.path) }

    private func brokenFiles() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: store.directory.path)
            .filter { $0.contains(".broken-") && !$0.contains("-wal") && !$0.contains("-shm") }
            // The reader of one that was saved may be about to take its view away.
            .filter { !$0.hasSuffix(SalvageView.suffix) }
            .sorted()
    }

    /// Overwrites a page, counted from 0.
    private func overwrite(page: Int, with byte: UInt8 = 0) throws {
        let pageBytes = try Data(contentsOf: url).pageBytes
        let handle = try FileHandle(forUpdating: url)
        try handle.seek(toOffset: UInt64(page * pageBytes))
        try handle.write(contentsOf: Data(repeating: byte, count: pageBytes))
        try handle.close()
    }

    /// The pages that hold rows of a table, counted from 0.
    private func pages(of table: String, leaves: Bool) throws -> [Int] {
        try DatabaseQueue(path: store.path).read { db in
            try Int.fetchAll(
                db,
                sql: "SELECT pageno - 1 FROM dbstat WHERE name = ? AND pagetype = ? ORDER BY 1",
                arguments: [table, leaves ? "leaf" : "internal"])
        }
    }

    /// Everything that identifies a sample.
    private func identities(_ samples: [PendingSample]) -> Set<String> {
        Set(samples.map { "\($0.uuid) \($0.time) \($0.frame) \($0.patient ?? "")" })
    }

    /// Its size of a page stands in the first one.
    @Test func aStoreWithoutItsFirstPageIsSalvagedWhole() async throws {
        let world = try await SalvageWorld(store, clock)
        try overwrite(page: 0)
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(
            report.carried == world.rows && report.unknown == 0 && report.orphaned == 0,
            "\(report) \(world.rows)")
        #expect(try brokenFiles() == [report.brokenFile])
        #expect(identities(try await world.deliverAll(queue)) == identities(world.pending))
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
        #expect(try await queue.balance().dead == 5)
        #expect(try await queue.sensors().count == 3)

        // Nothing is shown for ever, and the next start finds a store like any other.
        try await queue.acknowledgeSalvages()
        #expect(await queue.health().salvage == nil)
        #expect(try await queue.salvages().count == 1)
        try await queue.close()
        let again = try await store.open(clock, bootID: "boot-2")
        #expect(await again.health().salvage == nil)
        #expect(try brokenFiles().count == 1)
    }

    @Test func samplesThatWereImportedComeHome() async throws {
        let elsewhere = try TestStore()
        let other = try await elsewhere.open(clock, bootID: "elsewhere")
        let there = try await Worn(other)
        for bpm in UInt8(60)..<80 { try await other.beat(there.assignment, bpm: bpm, clock) }
        try await other.close()
        var bytes: [UInt8] = []
        try SampleQueue.export(path: elsewhere.path) { bytes += $0 }
        let file = store.directory.appendingPathComponent("samples.ndjson").path
        try Data(bytes).write(to: URL(fileURLWithPath: file))

        var queue = try await store.open(clock)
        let target = ImportTarget(enrollmentID: try await queue.enroll(.example("e")).id)
        #expect(try await queue.importSamples(from: file, into: target).added == 20)
        try await queue.close()
        try overwrite(page: 0)
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(try await queue.importSamples(from: file, into: target).known == 20)
        #expect(try await queue.deliverAll(target.enrollmentID).count == 20)
        #expect(try await queue.audit().isClean)
    }

    /// Time that was covered, as a destination had been told, was told once more as lost with the store.
    @Test func noDestinationIsToldOnceMoreOfADayThatItWasToldOf() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<600 {
            try await queue.beat(worn.assignment, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        try await queue.deliverAll(worn.enrollment.id)
        clock.advance(seconds: 2 * 86_400)
        try await queue.prune()
        while true {
            let told = try await queue.nextLedgerEntries(
                enrollment: worn.enrollment.id, limit: 100)
            if told.isEmpty { break }
            try await queue.settleLedger(enrollment: worn.enrollment.id, told)
        }
        try await queue.close()
        try overwrite(page: 0)
        queue = try await store.open(clock, bootID: "boot-2")
        let again = try await queue.nextLedgerEntries(
            enrollment: worn.enrollment.id, limit: 100)
        let today = UTC(day: clock.read().wall.day)
        for entry in again {
            guard case .gap(let cause, let from, _, _) = entry.content else {
                Issue.record("a day that it has: \(entry)")
                continue
            }
            #expect(cause != .storeLost || from.map { $0 >= today } == true, "\(entry)")
        }
    }

    /// It cut them every thousand samples, and of each part an average was made.
    @Test func aSalvageCutsNoMinute() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for number in 0..<2_500 {
            try await queue.beat(worn.assignment, bpm: UInt8(number % 100), clock)
            clock.advance(seconds: 1)
        }
        try await queue.close()
        try overwrite(page: 0)
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == 2_500)
        let ranges = try await queue.nextRanges(
            enrollment: worn.enrollment.id, perSegment: 2_000, limit: 4_000)
        #expect(ranges.reduce(0) { $0 + $1.samples.count } == 2_500 && ranges.count > 1)
        let minutes = ranges.map { range in
            Set(range.samples.map { $0.time.microseconds / ImportMinute.length })
        }
        for (earlier, later) in zip(minutes, minutes.dropFirst()) {
            #expect(earlier.isDisjoint(with: later))
        }
    }

    /// A damaged page of samples kept from being read who wears what: all other samples were nobody's.
    @Test func aDamagedPageOfSamplesTakesNoPatientAwayWhereThereIsNoSidecar() async throws {
        let world = try await SalvageWorld(store, clock)
        try overwrite(page: try #require(try pages(of: "sample", leaves: true).last), with: 0xA5)
        for end in [".registry-0", ".registry-1"] {
            try FileManager.default.removeItem(atPath: store.path + end)
        }
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect((1..<world.rows).contains(report.carried), "\(report)")
        #expect(try await queue.unboundSamples().isEmpty)
        #expect(try await queue.openAssignments().count == 3)
    }

    /// A page of zeros says nothing of what it held, and the command said that all was saved.
    @Test func whatAPageOfZerosHeldIsMissing() async throws {
        let world = try await SalvageWorld(store, clock)
        func salvaged() throws -> (samples: Int, unread: SalvageReader.Unread) {
            try SampleQueue.salvage(path: store.path, selection: .everything) { _ in }
        }
        #expect(try salvaged().unread.missing == 0)
        try overwrite(page: try #require(try pages(of: "sample", leaves: true).dropLast(3).last))
        let found = try salvaged()
        #expect(found.unread.missing > 0 && found.unread.damaged == 0, "\(found)")
        #expect(found.samples + found.unread.missing == world.rows, "\(found)")
    }

    /// Both stores have a segment of that number, and one's samples got the other's strap and patient.
    @Test(arguments: [false, true])
    func samplesOfTwoStoresInOneFileGetNoOtherPatient(hasSidecar: Bool) async throws {
        let mine = try await store.open(clock)
        let worn = try await Worn(mine, 1)
        for _ in 0..<900 { try await mine.beat(worn.assignment, bpm: 61, clock) }
        try await mine.flush()
        try await mine.emptyLog()
        try await mine.close()
        let other = try TestStore()
        let theirs = try await other.open(clock, bootID: "elsewhere")
        let stranger = try await Worn(theirs, 2)
        for _ in 0..<5 { try await theirs.beat(stranger.assignment, bpm: 99, clock) }
        try await theirs.flush()
        // The log has the first page, which says whose it is.
        try other.execute("CREATE TABLE x (y); DROP TABLE x")
        try? FileManager.default.removeItem(atPath: store.path + "-wal")
        try FileManager.default.copyItem(
            atPath: other.path + "-wal", toPath: store.path + "-wal")
        if !hasSidecar {
            for end in [".registry-0", ".registry-1"] {
                try FileManager.default.removeItem(atPath: store.path + end)
            }
        }
        var text: [UInt8] = []
        let found = try SampleQueue.salvage(path: store.path, selection: .everything) { text += $0 }
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n")
        #expect(lines.count == found.samples + 2)
        for (frame, strap) in [("003d", "00:01"), ("0063", "00:02")] {
            let theirs = lines.filter { $0.contains("\"frame\":\"\(frame)\"") }
            #expect(theirs.allSatisfy { $0.contains(strap) }, "\(theirs.prefix(1))")
            #expect(!hasSidecar || theirs.isEmpty == (frame == "0063"))
        }
        let unread = found.unread
        #expect(unread.strangers + unread.orphaned > 0, "\(found)")
        try await theirs.close()
    }

    @Test func whatAnOverwrittenPageHeldIsCountedAsLost() async throws {
        let world = try await SalvageWorld(store, clock)
        let leaf = try #require(try pages(of: "sample", leaves: true).dropLast(3).last)
        try overwrite(page: leaf, with: 0xA5)
        var queue = try await store.open(clock, bootID: "boot-2")
        // Found when a delivery gets there; salvaged at the next tick; delivered then.
        await #expect(throws: QueueError.self) { try await world.deliverAll(queue) }
        await queue.commitIfDue()
        let before = try await queue.balance().delivered - 90
        let report = try #require(await queue.health().salvage)
        #expect(report.unknown.map { $0 > 0 && report.carried == world.rows - $0 } == true)
        #expect(try await queue.balance().isBalanced)
        #expect(try await queue.audit().isClean)
        // The run goes on, under its nonce, and what arrives is recorded.
        let nonce = await queue.run.nonce
        try await queue.beat(world.worn[0].assignment, bpm: 201, clock)
        try await queue.flush()
        let sent = try await world.deliverAll(queue)
        #expect(sent.contains { $0.frame == [0, 201] && $0.runNonce == nonce })
        let old = identities(sent.filter { $0.runNonce != nonce })
        #expect(
            old.isSubset(of: identities(world.pending))
                && old.count >= world.pending.count - before - (report.unknown ?? 0),
            "\(report) \(old.count) \(world.pending.count)")
        try await queue.close()
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(try await queue.audit().isClean)
    }

    /// SQLite reads one table's rows as another's, and uptimes of frames became nonces, of which identities are made.
    @Test func noSampleGetsAnotherIdentityByAPageOfAnotherTable() async throws {
        let world = try await SalvageWorld(store, clock)
        let runs = try #require(try pages(of: "run", leaves: true).last)
        let frames = try #require(try pages(of: "undecodable", leaves: true).last)
        let size = try store.pageBytes()
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: store.path))
        try handle.seek(toOffset: UInt64(frames * size))
        let page = try #require(try handle.read(upToCount: size))
        try handle.seek(toOffset: UInt64(runs * size))
        try handle.write(contentsOf: page)
        try handle.close()
        let queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == world.rows)
        let sent = try await world.deliverAll(queue)
        #expect(identities(sent) == identities(world.pending))
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    /// The number of an erased assignment has no checksum; a damaged one took a patient's samples away, uncounted.
    @Test func aDamagedNoteOfAnErasureTakesNobodyAway() async throws {
        let world = try await SalvageWorld(store, clock)
        try store.execute(
            """
            INSERT INTO erased_number VALUES
                ('assignment', \(world.worn[0].assignment.id)), ('assignment', 7),
                ('enrollment', \(world.worn[1].enrollment.id));
            INSERT INTO erased_until VALUES ('sample', \(Int64.max)), ('segment', 40)
            """)
        let leaf = try #require(try pages(of: "sample", leaves: true).dropLast(3).last)
        try overwrite(page: leaf, with: 0xA5)
        // The number of a sample that cannot be is found at the opening.
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(report.unknown.map { $0 > 0 && report.carried == world.rows - $0 } == true)
        #expect(try await queue.enrollments().count == world.worn.count)
        #expect(try await queue.audit().isClean)
    }

    /// Who wears what as it is written down beside the store.
    private func notes() throws -> [(URL, Data)] {
        try [".registry-0", ".registry-1"].map { end in
            let url = URL(fileURLWithPath: store.path + end)
            return (url, try Data(contentsOf: url))
        }
    }

    /// Changes an octet of the file.
    private func change(_ offset: Int, _ change: (UInt8) -> UInt8) throws {
        let handle = try FileHandle(forUpdating: url)
        try handle.seek(toOffset: UInt64(offset))
        let octet = try #require(try handle.read(upToCount: 1)?.first)
        try handle.seek(toOffset: UInt64(offset))
        try handle.write(contentsOf: [change(octet)])
        try handle.close()
    }

    /// The store had it and its notes did not yet: the first patient was believed, and got the second one's samples.
    @Test func aHandOverThatAKillKeptFromBeingWrittenDownIsBelieved() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let before = try notes()
        let second = try await queue.enroll(.example("second", patient: "p-9"))
        let (_, assignment) = try await queue.pair(
            address: worn.sensor.address, details: worn.sensor.details, enrollment: second.id,
            insteadOf: worn.assignment.id)
        try await queue.abandon()
        for (url, data) in before { try data.write(to: url) }
        try change(18) { _ in 3 }
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == 1)
        #expect(try await queue.openAssignments() == [assignment])
        #expect(try await queue.audit().isClean)
    }

    /// It was taken for a change that was newer than the notes.
    @Test func aPatientWhomNobodyChangedIsDamage() async throws {
        let world = try await SalvageWorld(store, clock)
        try store.execute("UPDATE enrollment SET patient = 'p-8' WHERE patient = 'p-1'")
        let queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == world.rows)
        #expect(try await queue.enrollments().map(\.terms.patient) == ["p-1", "p-2", "p-3"])
        #expect(try await queue.audit().isClean)
    }

    /// A page that leads to others says that it is one shorter, and SQLite says nothing.
    @Test func rowsThatSQLitePassesOverAreFoundInThePages() async throws {
        let world = try await SalvageWorld(store, clock)
        let inner = try #require(try pages(of: "sample", leaves: false).last)
        try change(inner * StoreFile.newPageBytes + 4) { $0 - 1 }
        #expect(try store.number("SELECT count(*) FROM sample") < world.rows)
        try change(18) { _ in 3 }
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == world.rows && report.unknown == 0, "\(report)")
        #expect(identities(try await world.deliverAll(queue)) == identities(world.pending))
        #expect(try await queue.audit().isClean)
    }

    /// SQLite said nothing, and the reader of pages believed the count as well: samples were lost, or had no segment.
    @Test(arguments: ["sample", "segment"])
    func aPageThatCountsItsRowsTooLowHidesNone(table: String) async throws {
        let world = try await SalvageWorld(store, clock)
        let rows = try store.number("SELECT count(*) FROM \(table) NOT INDEXED")
        let leaf = try #require(try pages(of: table, leaves: true).last)
        try change(leaf * StoreFile.newPageBytes + 4) { $0 - 1 }
        #expect(try store.number("SELECT count(*) FROM \(table) NOT INDEXED") == rows - 1)
        try change(18) { _ in 3 }
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(
            report.carried == world.rows && report.unknown == 0 && report.orphaned == 0,
            "\(report)")
        #expect(identities(try await world.deliverAll(queue)) == identities(world.pending))
        #expect(try await queue.audit().isClean)
    }

    /// One flipped bit, and nobody looked for samples on a page that leads to others.
    @Test func aPageOfSamplesThatCallsItselfOneOfAnotherKindIsSearched() async throws {
        let world = try await SalvageWorld(store, clock)
        let leaf = try #require(try pages(of: "sample", leaves: true).dropLast().last)
        try change(leaf * StoreFile.newPageBytes) { $0 ^ 0x08 }
        try change(18) { _ in 3 }
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == world.rows && report.unknown == 0, "\(report)")
        #expect(identities(try await world.deliverAll(queue)) == identities(world.pending))
        #expect(try await queue.audit().isClean)
    }

    /// The reader went on behind the number that one octet had made of a row's.
    @Test func aDamagedRowNumberHidesNoRowBehindIt() async throws {
        let world = try await SalvageWorld(store, clock)
        // The last of the first thousand that are read at once.
        let id = try store.number("SELECT id FROM sample ORDER BY id LIMIT 1 OFFSET 999")
        let number = [UInt8(id >> 7 | 0x80), UInt8(id & 0x7F)]
        let file = [UInt8](try Data(contentsOf: url))
        // In pieces, with their types: the compiler took as long for one expression as for ten other files.
        let cells = try pages(of: "sample", leaves: true).flatMap { page -> [Int] in
            let start: Int = page * StoreFile.newPageBytes
            return (0..<Int(file[start + 4])).map { cell -> Int in
                let pointer: Int = start + 8 + 2 * cell
                let (high, low) = (Int(file[pointer]), Int(file[pointer + 1]))
                return start + (high << 8 | low)
            }
        }
        let offset = try #require(cells.first { [file[$0 + 1], file[$0 + 2]] == number })
        try change(offset + 1) { _ in 0xFF }
        try change(18) { _ in 3 }
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(
            report.carried == world.rows - 1 && report.damaged == 1 && report.unknown == 1,
            "\(report)")
        #expect(try await queue.audit().isClean)
    }

    /// A kill left them in the log, and another run gave their numbers, and that of their segment, to others.
    @Test func rowsOfACommitThatWasNeverMadeAreNobodys() async throws {
        let world = try await SalvageWorld(store, clock)
        let last = try store.number("SELECT max(id) FROM sample")
        let segment = try store.number("SELECT segment FROM sample ORDER BY id DESC LIMIT 1")
        let uptime = clock.read().uptime
        let database = try DatabaseQueue(path: store.path)
        try await database.write { db in
            let (key, insertion) = (try db.storeKey(), try SampleInsertion(db))
            for number in 1...60 {
                try insertion.insert(
                    SampleRow(
                        key, id: Int64(last + number), segment: Int64(segment), uptime: uptime,
                        uncertainty: nil, flags: 0, frame: [0, 250]))
            }
        }
        // The pages that are freed keep what they hold.
        try await database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA secure_delete = OFF")
            try db.execute(sql: "DELETE FROM sample WHERE id > ?", arguments: [last])
        }
        try database.close()
        try change(18) { _ in 3 }
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == world.rows && report.unknown == 0, "\(report)")
        #expect(try await queue.audit().isClean)
    }

    /// The header says how large pages are, whatever those of a new store have.
    @Test func aStoreWithLargerPagesIsSalvagedByItsHeader() async throws {
        try store.make(pageBytes: 4096)
        let world = try await SalvageWorld(store, clock)
        let leaf = try #require(try pages(of: "sample", leaves: true).dropLast().last)
        try overwrite(page: leaf, with: 0xA5)
        let queue = try await store.open(clock, bootID: "boot-2")
        await #expect(throws: QueueError.self) { try await world.deliverAll(queue) }
        await queue.commitIfDue()
        let report = try #require(await queue.health().salvage)
        #expect(
            report.unknown.map { $0 > 0 && report.carried == world.rows - $0 } == true, "\(report)")
        #expect(try await queue.audit().isClean)
        #expect(try store.pageBytes() == StoreFile.newPageBytes)
    }

    @Test func aPageTornInHalfGivesTheRowsOfItsOtherHalf() async throws {
        let world = try await SalvageWorld(store, clock)
        let leaves = try pages(of: "sample", leaves: true)
        let pageBytes = try store.pageBytes()
        let handle = try FileHandle(forUpdating: url)
        try handle.seek(toOffset: UInt64(leaves[leaves.count - 4] * pageBytes))
        try handle.write(contentsOf: Data(count: pageBytes / 2))
        try handle.close()
        try overwrite(page: 0)
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        let perPage = world.rows / leaves.count
        #expect((1..<perPage).contains(report.unknown ?? 0), "\(report) \(world.rows)")
        #expect(try await queue.audit().isClean)
    }

    /// They lie in pages of their own, of which the log has the newer ones.
    @Test func theLongestFramesAreSalvagedToo() async throws {
        var queue = try await store.open(clock, bootID: "boot-1")
        let worn = try await Worn(queue)
        func arrive(_ count: Int) async throws {
            let frame = [0, 72] + (2..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            try await queue.append(
                Arrival(
                    sensorID: worn.assignment.sensorID, at: clock.read(), frame: frame))
            clock.advance(seconds: 1)
        }
        let lengths = [20, 300, 420, 440, 470, 512]
        for length in lengths { try await arrive(length) }
        try await queue.close()
        queue = try await store.open(clock, bootID: "boot-1")
        for length in lengths { try await arrive(length) }
        try await queue.flush()
        let sent = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 100)
        try #require(sent.count == 12)
        let log = try Data(contentsOf: URL(fileURLWithPath: store.path + "-wal"))
        let file = try Data(contentsOf: url)
        try await queue.abandon()
        for companion in ["-shm", "-wal"] {
            try? FileManager.default.removeItem(atPath: store.path + companion)
        }
        try file.write(to: url)
        try log.write(to: URL(fileURLWithPath: store.path + "-wal"))
        try overwrite(page: 0)

        queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == 12 && report.damaged == 0, "\(report)")
        #expect(report.unknown == nil, "nobody knows what a power cut took")
        let after = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 100)
        #expect(after.map(\.frame) == sent.map(\.frame))
        #expect(try await queue.audit().isClean)
    }

    /// Its row runs over into another page, which an update has written anew. Where that one is damaged, too, the
    /// sidecar knows it.
    @Test(arguments: [false, true])
    func anEnrollmentWithLongAddressesIsSalvaged(isSpoilt: Bool) async throws {
        var queue = try await store.open(clock, bootID: "boot-1")
        func long(_ text: String) -> String { text + String(repeating: "x", count: 170) }
        let enrollment = try await queue.enroll(
            EnrollmentTerms(
                name: "ward", origin: long("https://exchange.example/"),
                fhirBase: long("https://exchange.example/FHIR/R5/"), patient: "40001", device: "7",
                codeSystem: long("urn:code:"), code: "c", identifierSystem: long("urn:id:")))
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
        for _ in 0..<20 { try await queue.beat(assignment, clock) }
        try await queue.close()
        try overwrite(page: 0)
        if isSpoilt {
            // Each page of that row but its first.
            let file = try Data(contentsOf: url)
            let pageBytes = StoreFile.newPageBytes
            let text = Data(repeating: UInt8(ascii: "x"), count: 60)
            for page in 1..<(file.count / pageBytes) {
                let bytes = file[(page * pageBytes)..<((page + 1) * pageBytes)]
                if bytes.first == 0, bytes.range(of: text) != nil {
                    let handle = try FileHandle(forUpdating: url)
                    try handle.seek(toOffset: UInt64(page * pageBytes + 100))
                    try handle.write(contentsOf: Data(count: 40))
                    try handle.close()
                }
            }
        }
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == 20)
        let kept = try await queue.enrollments()
        #expect(kept.map(\.terms.patient) == ["40001"])
        #expect(try await queue.deliverAll(enrollment.id).count == 20)
        #expect(try await queue.audit().isClean)
    }

    @Test func aRowThatFailsItsChecksumIsLeftAndCounted() async throws {
        let world = try await SalvageWorld(store, clock)
        try store.execute(
            "UPDATE sample SET frame = x'00FF' WHERE id = (SELECT max(id) FROM sample)")
        try overwrite(page: 0)
        let queue = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await queue.health().salvage)
        #expect(
            report.damaged == 1 && report.unknown == 1 && report.carried == world.rows - 1,
            "\(report) \(world.rows)")
        #expect(try await queue.audit().isClean)
    }

    @Test func aLogThatWasNotCopiedHomeIsSalvagedToo() async throws {
        let world = try await SalvageWorld(store, clock)
        var queue = try await store.open(clock, bootID: "boot-2")
        for bpm in UInt8(100)..<200 {
            try await queue.beat(world.worn[0].assignment, bpm: bpm, clock)
        }
        try await queue.flush()
        // A copy as a power cut leaves it: the file, and a log that the file does not know yet.
        let log = try Data(contentsOf: URL(fileURLWithPath: store.path + "-wal"))
        let file = try Data(contentsOf: url)
        let nonce = await queue.run.nonce
        try await queue.close()
        try file.write(to: url)
        try log.write(to: URL(fileURLWithPath: store.path + "-wal"))
        try overwrite(page: 0)
        // The first page is in the log too, so break that as well.
        var bad = log
        let frameBytes = 24 + file.pageBytes
        for frame in stride(from: 32, to: log.count - frameBytes + 1, by: frameBytes)
        where log[frame + 3] == 1 && log[frame + 2] == 0 {
            bad.resetBytes(in: (frame + 24)..<(frame + 124))
        }
        try bad.write(to: URL(fileURLWithPath: store.path + "-wal"))
        queue = try await store.open(clock, bootID: "boot-3")
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == world.rows + 100 && report.orphaned == 0, "\(report)")
        let sent = try await world.deliverAll(queue)
        #expect(sent.count { $0.runNonce == nonce } == 100)
        #expect(try await queue.audit().isClean)
    }

    @Test func aFileThatIsNoDatabaseIsKeptAsideAndRecordingGoesOn() async throws {
        let text = Data("not a database, but long enough to look like one".utf8)
        try text.write(to: url)
        let queue = try await store.open(clock)
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == 0 && report.cause == "the file is no database")
        let kept = store.directory.appendingPathComponent(report.brokenFile)
        #expect(try Data(contentsOf: kept) == text)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        #expect(try await queue.audit().isClean)
    }

    @Test func anEmptiedFileBesideItsLogIsNoNewStore() async throws {
        let world = try await SalvageWorld(store, clock)
        let queue = try await store.open(clock, bootID: "boot-2")
        try await queue.beat(world.worn[0].assignment, clock)
        try await queue.flush()
        let log = try Data(contentsOf: URL(fileURLWithPath: store.path + "-wal"))
        try await queue.abandon()
        try Data().write(to: url)
        try log.write(to: URL(fileURLWithPath: store.path + "-wal"))
        let next = try await store.open(clock, bootID: "boot-2")
        #expect(await next.health().salvage != nil)
    }

    @Test func brokenFilesStayUntilAPersonHasAcknowledgedThem() async throws {
        for _ in 0..<5 {
            try Data("no database".utf8).write(to: url)
            try await store.open(clock).abandon()
            clock.advance(seconds: 60)
        }
        #expect(try brokenFiles().count == 5)
        let queue = try await store.open(clock)
        #expect(try await queue.salvages().count == 5)
        try await queue.acknowledgeSalvages()
        let files = try brokenFiles()
        #expect(files.count == SampleQueue.brokenFilesMax)
        #expect(files.last == "queue.sqlite.broken-20261201T000400Z")
    }

    /// The state after each rename, made by hand.
    @Test(arguments: [0, 1, 2])
    func aPowerCutBetweenTheRenamesIsMadeUpFor(renamed: Int) async throws {
        let world = try await SalvageWorld(store, clock)
        try overwrite(page: 0)
        let queue = try await store.open(clock, bootID: "boot-2")
        try await queue.beat(world.worn[0].assignment, clock)
        try await queue.flush()
        let file = try Data(contentsOf: url)
        let log = try Data(contentsOf: URL(fileURLWithPath: store.path + "-wal"))
        try await queue.abandon()
        let broken = store.path + ".broken-20261201T010000Z"
        for companion in ["", "-wal"].prefix(renamed) {
            try FileManager.default.moveItem(
                atPath: store.path + companion, toPath: broken + companion)
        }
        let again = try await store.open(clock, bootID: "boot-3")
        #expect(try await again.balance().stored == world.rows + 1)
        #expect(try await again.audit().isClean)
        guard renamed > 0 else { return }
        #expect(try Data(contentsOf: URL(fileURLWithPath: broken)) == file)
        #expect(try Data(contentsOf: URL(fileURLWithPath: broken + "-wal")) == log)
    }

    /// No strap's frames could be stored any more, for the ledger of one had no assignment.
    @Test(arguments: ["assignment", "sensor", "enrollment"])
    func whatIsWornGoesOnAfterASalvageThatCannotReadIt(table: String) async throws {
        let queue = try await store.open(clock)
        let worn = [try await Worn(queue, 1), try await Worn(queue, 2)]
        func beat(_ count: UInt8) async throws {
            for bpm in 60..<60 + count {
                for strap in worn { try await queue.beat(strap.assignment, bpm: bpm, clock) }
                clock.advance(seconds: 1)
                await queue.commitIfDue()
            }
        }
        try await beat(20)
        try await queue.flush()
        let (sensors, assignments) = (
            try await queue.sensors(), try await queue.openAssignments()
        )
        try await queue.emptyLog()
        for page in try pages(of: table, leaves: true) { try overwrite(page: page) }
        await queue.note(QueueError(.corrupt, "read", "as if a call had met damage"))
        try await beat(20)
        try await queue.flush()
        let health = await queue.health()
        #expect(health.salvage?.carried == 40 && health.salvage?.orphaned == 0, "\(health)")
        #expect(health.fault == nil)
        #expect(try await queue.sensors() == sensors)
        let now = try await queue.openAssignments()
        #expect(now.map(\.id) == assignments.map(\.id))
        if table != "enrollment" { #expect(now == assignments) }
        #expect(try await queue.balance().stored == 80)
        #expect(try await queue.gaps().isEmpty)
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
        try await queue.close()
        let again = try await store.open(clock, bootID: "boot-2")
        #expect(try await again.balance().stored == 80)
    }

    /// Nobody must get samples that may be another's: they wait for a person.
    @Test(arguments: ["enrollment", "sensor"])
    func withoutASidecarSamplesAreListedForAPerson(table: String) async throws {
        let queue = try await store.open(clock)
        let (one, two) = (try await Worn(queue, 1), try await Worn(queue, 2))
        for _ in 0..<5 {
            for strap in [one, two] { try await queue.beat(strap.assignment, clock) }
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        try await queue.close()
        for page in try pages(of: table, leaves: true) { try overwrite(page: page) }
        try overwrite(page: 0)
        for end in [".registry-0", ".registry-1"] {
            try FileManager.default.removeItem(atPath: store.path + end)
        }
        let again = try await store.open(clock, bootID: "boot-2")
        let report = try #require(await again.health().salvage)
        #expect(report.carried == 10 && report.orphaned == 0 && report.unknown == nil, "\(report)")
        let found = try await again.unboundSamples()
        #expect(found.map(\.samples) == [5, 5])
        #expect(found.map(\.isRecording) == [false, false])
        #expect(try await again.totals().notEnrolledEnded == 10)
        let renewed = try await again.enroll(.example("ward-1", patient: "p-1"))
        try await again.bind(assignment: found[0].assignment.id, enrollment: renewed.id)
        #expect(try await again.deliverAll(renewed.id).count == 5)
        #expect(try await again.audit().isClean)
    }

    /// What could be read was older than what the run knew: the strap was the first patient's again, or worn again.
    @Test(arguments: [false, true])
    func aSalvageBelievesWhatTheRunKnowsOfAStrap(isForgotten: Bool) async throws {
        let queue = try await store.open(clock)
        let first = try await Worn(queue, 1)
        let other = try await Worn(queue, 2)
        let second = try await queue.enroll(.example("second", patient: "p-9"))
        func beat(_ assignment: Assignment) async throws {
            for bpm in UInt8(60)..<80 {
                try await queue.beat(assignment, bpm: bpm, clock)
                clock.advance(seconds: 1)
            }
            try await queue.flush()
        }
        try await beat(first.assignment)
        let page = try #require(try pages(of: "assignment", leaves: true).first) + 1
        try await queue.emptyLog()
        let changed: Assignment
        if isForgotten {
            try await queue.forgetSensor(first.sensor.id)
            changed = other.assignment
        } else {
            changed = try await queue.assign(sensor: first.sensor.id, enrollment: second.id)
        }
        try await beat(changed)
        // The log's newest state of that page is damaged, and the file has an older one.
        let log = URL(fileURLWithPath: store.path + "-wal")
        var bytes = [UInt8](try Data(contentsOf: log))
        let pageBytes = try Data(contentsOf: url).pageBytes
        for frame in stride(from: 32, to: bytes.count, by: 24 + pageBytes)
        where bytes[frame..<frame + 4].reduce(0, { $0 << 8 | Int($1) }) == page {
            bytes[frame + 24 + 200] ^= 1
        }
        let handle = try FileHandle(forWritingTo: log)
        try handle.write(contentsOf: bytes)
        try handle.close()
        await queue.note(QueueError(.corrupt, "read", "as if a call had met damage"))
        await queue.commitIfDue()
        try await beat(changed)
        let health = await queue.health()
        #expect(health.salvage?.orphaned == 0 && health.fault == nil, "\(health)")
        let open = try await queue.openAssignments()
        let expected = isForgotten ? [other.assignment.id] : [other.assignment.id, changed.id]
        #expect(open.map(\.id) == expected)
        #expect(try await queue.sensors().count == expected.count)
        let samples = try await queue.samples(limit: 1_000)
        let own = samples.filter { $0.enrollmentID == first.enrollment.id }
        #expect(own.count == 20 && samples.count == 60, "\(own.count) of \(samples.count)")
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
        try await queue.close()
    }

    /// Pruning leaves their rows behind its cursor, and a salvage left them out.
    @Test func deadLettersThatArePrunedAroundAreSaved() async throws {
        let world = try await SalvageWorld(store, clock)
        var queue = try await store.open(clock, bootID: "boot-2")
        let strap = world.worn[0]
        let elsewhere = try await queue.enroll(.elsewhere())
        try await queue.add(destination: elsewhere.id, to: strap.assignment.id, from: .now)
        for bpm in UInt8(60)..<63 { try await queue.beat(strap.assignment, bpm: bpm, clock) }
        try await queue.flush()
        let batch = try await queue.nextBatch(enrollment: elsewhere.id, limit: 10)
        try await queue.settle(
            enrollment: elsewhere.id,
            batch.enumerated().map { number, sample in
                SettledSample(
                    sample, number == 0 ? .dead(reason: "r", diagnostics: "d") : .delivered)
            })
        try await world.deliverAll(queue)
        _ = try await queue.purgeSettled()
        let letters = try await queue.deadLetters()
        #expect(letters.count == 6)
        let back = try #require(letters.last { $0.enrollmentID == strap.enrollment.id })
        try await queue.requeue(deadLetters: [back.sampleID])
        try await queue.close()
        #expect(try store.number("SELECT count(*) FROM sample") == 6)
        try overwrite(page: 0)
        queue = try await store.open(clock, bootID: "boot-3")
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == 6 && report.unknown == 0, "\(report)")
        #expect(
            Set(try await queue.deadLetters().map { "\($0.uuid) \($0.enrollmentID ?? 0)" })
                == Set(
                    letters.filter { $0.sampleID != back.sampleID }
                        .map { "\($0.uuid) \($0.enrollmentID ?? 0)" }))
        #expect(try await world.deliverAll(queue).map(\.uuid) == [back.uuid])
        let audit = try await queue.audit()
        #expect(audit.isClean, "\(audit)")
    }

    /// Keeps who wears what from being written down.
    private func block(_ isBlocked: Bool) throws {
        for number in 0..<2 {
            let part = "\(store.path).registry-\(number).part"
            if isBlocked {
                try FileManager.default.createDirectory(
                    atPath: "\(part)/in-the-way", withIntermediateDirectories: true)
            } else {
                try FileManager.default.removeItem(atPath: part)
            }
        }
    }

    /// The files were asked who wears what, and the run knew more.
    @Test func aPairingThatCouldNotBeWrittenDownKeepsItsSamplesInASalvage() async throws {
        let queue = try await store.open(clock)
        let first = try await Worn(queue, 1)
        try block(true)
        let second = try await Worn(queue, 2)
        for bpm in UInt8(60)..<80 {
            for strap in [first, second] { try await queue.beat(strap.assignment, bpm: bpm, clock) }
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        try await queue.emptyLog()
        for page in try pages(of: "assignment", leaves: true) { try overwrite(page: page) }
        await queue.note(QueueError(.corrupt, "read", "as if a call had met damage"))
        await queue.commitIfDue()
        let report = try #require(await queue.health().salvage)
        #expect(report.carried == 40 && report.orphaned == 0, "\(report)")
        #expect(try await queue.unboundSamples().isEmpty)
        #expect(try await queue.deliverAll(second.enrollment.id).count == 20)
        #expect(try await queue.audit().isClean)
    }

    /// Nothing was said to be lost, by the count of the run before.
    @Test(arguments: [false, true])
    func whatARunStoredThatCouldNotWriteItDownIsNotSaidToBeNothing(isReadable: Bool) async throws {
        let world = try await SalvageWorld(store, clock)
        let before = try notes()
        var queue = try await store.open(clock, bootID: "boot-2")
        for bpm in UInt8(60)..<200 {
            try await queue.beat(world.worn[0].assignment, bpm: bpm, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        try await queue.emptyLog()
        try await queue.abandon()
        // As if the disk had taken nothing of this run's beside the store.
        for (url, data) in before { try data.write(to: url) }
        let leaf = try #require(try pages(of: "sample", leaves: true).dropLast(2).last)
        try overwrite(page: leaf)
        if isReadable { try change(18) { _ in 3 } } else { try overwrite(page: 0) }
        queue = try await store.open(clock, bootID: "boot-3")
        let report = try #require(await queue.health().salvage)
        #expect(report.isDone && report.unknown == nil, "\(report)")
    }

    /// It was in the notes as well then, and no store that was made of them could begin a run.
    @Test func aNumberThatNoSampleHasIsNotWrittenDown() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        try store.execute(
            """
            PRAGMA ignore_check_constraints = ON;
            UPDATE segment SET last_sample = \(Int64.max - 1)
            """)
        try await queue.close()
        for _ in 0..<2 {
            queue = try await store.open(clock, bootID: "boot-2")
            try await queue.beat(worn.assignment, clock)
            try await queue.close()
        }
        #expect(try store.number("SELECT count(*) FROM sample") == 3)
        #expect(try #require(try Sidecar.newest(besides: store.path)).lastSample < 100)
    }

    /// Reading one of the two files fails as on a dying card.
    private func spoil(_ generation: Int) throws {
        let path = "\(store.path).registry-\(generation)"
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createSymbolicLink(
            atPath: path, withDestinationPath: "/proc/self/mem")
        #expect(Sidecar.find(besides: store.path).unread?.code == .inputOutput)
    }

    /// Nothing was recorded for ever.
    @Test(arguments: [0, 1])
    func notesThatCannotBeReadAreNotNeededWhereTheBrokenStoreKnows(generation: Int) async throws {
        let world = try await SalvageWorld(store, clock)
        try spoil(generation)
        try change(18) { _ in 3 }
        let queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == world.rows)
        #expect(try await queue.openAssignments().map(\.id) == world.worn.map(\.assignment.id))
        #expect(try await queue.audit().isClean)
        try await queue.close()
        #expect(Sidecar.find(besides: store.path).unread == nil)
    }

    /// Nobody was known meanwhile, and nothing was recorded for ever.
    @Test(arguments: [0, 1])
    func notesThatCannotBeReadForFiveMinutesAreDoneWithout(generation: Int) async throws {
        let world = try await SalvageWorld(store, clock)
        try spoil(generation)
        try overwrite(page: 0)
        var settings = QueueSettings()
        settings.staysAvailable = true
        let queue = try await store.open(clock, bootID: "boot-2", settings: settings)
        #expect(await queue.health().isAbsent)
        #expect(try await queue.openAssignments().count == 3)
        func beat(_ count: Int) async throws {
            for _ in 0..<count {
                try await queue.beat(world.worn[0].assignment, clock)
                clock.advance(seconds: 1)
                await queue.commitIfDue()
            }
        }
        try await beat(280)
        #expect(try brokenFiles().isEmpty, "it may recover")
        try await beat(60)
        try await queue.flush()
        while await queue.health().salvage?.isDone != true {
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(try await queue.balance().stored == world.rows + 340)
        #expect(try brokenFiles().count == 1)
        #expect(try await queue.audit().isClean)
        try await queue.close()
    }

    /// The older notes were believed, and the first patient got the second one's samples.
    @Test func aHandOverIsBelievedAfterAKillBeforeTheFreshStore() async throws {
        var queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        let before = try notes()
        let second = try await queue.enroll(.example("second", patient: "p-9"))
        let (_, assignment) = try await queue.pair(
            address: worn.sensor.address, details: worn.sensor.details, enrollment: second.id,
            insteadOf: worn.assignment.id)
        try await queue.emptyLog()
        try await queue.abandon()
        for (url, data) in before { try data.write(to: url) }
        _ = try Evidence(of: store.path).setAside(at: clock.read().wall)
        queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage?.carried == 1)
        #expect(try await queue.openAssignments() == [assignment])
        #expect(try await queue.audit().isClean)
    }

    @Test func countersThatContradictTheRowsDoNotStopRecording() async throws {
        let world = try await SalvageWorld(store, clock)
        // A flipped bit in a counter: the next commit would break the schema's check.
        try store.execute(
            """
            PRAGMA ignore_check_constraints = ON;
            UPDATE segment SET received = received + 64 WHERE id = (SELECT max(id) FROM segment);
            UPDATE segment SET last_sample = last_sample - 1 WHERE id = (SELECT max(id) FROM segment)
            """)
        let queue = try await store.open(clock, bootID: "boot-2")
        #expect(await queue.health().salvage != nil)
        try await queue.beat(world.worn[2].assignment, clock)
        try await queue.flush()
        #expect(try await queue.audit().isClean)
        #expect(
            identities(try await world.deliverAll(queue)).isSuperset(of: identities(world.pending)))
    }
}

/// A closed store with a history: three sensors, two runs, every state a sample can be in.
struct SalvageWorld: Sendable {
    var worn: [Worn] = []
    var pending: [PendingSample] = []
    /// Rows of `sample`.
    var rows = 0

    private struct Made: Sendable {
        var world: SalvageWorld
        var files: [String: Data]
        var reading: ClockReading
    }
    /// Many tests begin with one: the first makes it, the others copy its files.
    private static let made = Mutex<Made?>(nil)

    init(_ store: TestStore, _ clock: ManualClock) async throws {
        let isPlain =
            !FileManager.default.fileExists(atPath: store.path)
            && clock.read() == ManualClock().read()
        if isPlain, let made = Self.made.withLock({ $0 }) {
            self = made.world
            for (name, data) in made.files {
                try data.write(to: store.directory.appendingPathComponent(name))
            }
            clock.set { [reading = made.reading] in $0 = reading }
            return
        }
        for run in 0..<2 {
            let queue = try await store.open(clock, bootID: "boot-1")
            if run == 0 {
                for number in 1...3 { worn.append(try await Worn(queue, number)) }
            }
            for number in 0..<200 {
                for sensor in worn {
                    try await queue.beat(sensor.assignment, bpm: UInt8(number), clock)
                    clock.advance(seconds: 0.1)
                }
            }
            try await queue.append(
                Arrival(
                    sensorID: worn[0].assignment.sensorID, at: clock.read(), frame: [1],
                    fault: "heartRateTruncated"))
            try await queue.flush()
            if run == 1 { try await settle(queue) }
            try await queue.close()
        }
        rows = try store.number("SELECT count(*) FROM sample")
        guard isPlain else { return }
        var files: [String: Data] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: store.directory.path)
        where !name.hasSuffix(".lock") {
            files[name] = try Data(contentsOf: store.directory.appendingPathComponent(name))
        }
        let made = Made(world: self, files: files, reading: clock.read())
        Self.made.withLock { $0 = made }
    }

    private mutating func settle(_ queue: SampleQueue) async throws {
        let delivery = worn[0].enrollment.id
        let batch = try await queue.nextBatch(enrollment: delivery, limit: 100)
        try await queue.settle(
            enrollment: delivery,
            batch.enumerated().map { index, sample in
                SettledSample(
                    sample,
                    index < 5
                        ? .dead(reason: "r", diagnostics: "d")
                        : index < 10 ? .dropped(reason: "zero-rate") : .delivered)
            })
        for sensor in worn {
            pending += try await queue.nextBatch(enrollment: sensor.enrollment.id, limit: 1_000)
        }
    }

    /// Delivers every delivery to its end.
    @discardableResult
    func deliverAll(_ queue: SampleQueue) async throws -> [PendingSample] {
        var all: [PendingSample] = []
        for sensor in worn { all += try await queue.deliverAll(sensor.enrollment.id) }
        return all
    }
}
