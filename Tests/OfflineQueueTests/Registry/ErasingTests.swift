import Foundation
import GRDB
import Testing

@testable import OfflineQueue

/// One patient goes out of the store; the others stay (docs/operate/security.md, "Erasing one patient").
@Suite("Erasing a patient")
struct ErasingTests {
    private static let marks: [UInt8: [UInt8]] = [
        1: Array("the-erased".utf8), 2: Array("the-kept".utf8),
    ]

    /// Two patients with samples in every state, told apart by their frames, and straps that are put away.
    private static func filled(_ store: TestStore, _ clock: ManualClock) async throws -> [Worn] {
        let queue = try await store.open(clock)
        let both = [try await Worn(queue, 1), try await Worn(queue, 2)]
        try await queue.updateSensor(
            both[0].sensor.id, details: SensorDetails(name: "Anna's", serial: "S1"))
        for number in 0..<60 {
            for (index, worn) in both.enumerated() {
                let mark = marks[UInt8(index + 1)] ?? []
                try await queue.append(
                    Arrival(
                        sensorID: worn.assignment.sensorID, at: clock.read(),
                        frame: [0, 70] + mark,
                        fault: number == 50 ? "fault" : nil))
            }
            clock.advance(seconds: number == 30 ? 60 : 1)
        }
        try await queue.flush()
        for worn in both {
            let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 20)
            try await queue.settle(
                enrollment: worn.enrollment.id,
                batch.enumerated().map { index, sample in
                    switch index % 5 {
                    case 3: SettledSample(sample, .dropped(reason: "zero-rate"))
                    case 4: SettledSample(sample, .dead(reason: "r", diagnostics: "d"))
                    default: SettledSample(sample, .delivered)
                    }
                }, upload: UploadRecord(batch, outcome: "delivered"))
            try await queue.beginRequest(enrollment: worn.enrollment.id)
            let letter = try #require(
                try await queue.deadLetters().first { $0.sensorID == worn.sensor.id })
            try await queue.requeue(deadLetters: [letter.sampleID])
            try await queue.forgetSensor(worn.sensor.id)
        }
        try await queue.close()
        return both
    }

    /// The trigger that erasing lifts.
    private static let guards = """
        SELECT count(*) FROM sqlite_master WHERE name = 'assignment_is_never_deleted'
        """

    private static func rows(_ store: TestStore, of worn: Worn) throws -> [String: Int] {
        let assignment = "(SELECT id FROM assignment WHERE enrollment = \(worn.enrollment.id))"
        let segment = "(SELECT id FROM segment WHERE assignment IN \(assignment))"
        var rows: [String: Int] = [:]
        for table in ["sample", "undecodable", "dead_letter", "loss"] {
            rows[table] = try store.number(
                "SELECT count(*) FROM \(table) WHERE segment IN \(segment)")
        }
        for table in ["segment", "gap"] {
            rows[table] = try store.number(
                "SELECT count(*) FROM \(table) WHERE assignment IN \(assignment)")
        }
        for table in ["assignment", "upload", "request"] {
            rows[table] = try store.number(
                "SELECT count(*) FROM \(table) WHERE enrollment = \(worn.enrollment.id)")
        }
        return rows
    }

    private static func contents(_ store: TestStore) throws -> Data {
        var all = Data()
        for name in try FileManager.default.contentsOfDirectory(atPath: store.directory.path) {
            all += try Data(contentsOf: store.directory.appendingPathComponent(name))
        }
        return all
    }

    @Test func nothingOfAnErasedPatientIsLeftInTheFileAndAllOfTheOthers() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let both = try await Self.filled(store, clock)
        let before = try both.map { try Self.rows(store, of: $0) }
        #expect(before[0].filter { $0.value == 0 }.keys.sorted() == [], "all kinds of rows")
        let queue = try await store.open(clock)
        let kept = try await queue.balance(of: .enrollment(both[1].enrollment.id))
        while try await !queue.erase(Erasure(enrollment: both[0].enrollment.id)) {}
        try await queue.emptyLog()

        #expect(try await queue.balance() == kept)
        #expect(try await queue.enrollments().map(\.id) == [both[1].enrollment.id])
        #expect(try await queue.audit().isClean)
        let sensor = try #require(try await queue.sensors(includingForgotten: true).first)
        #expect(sensor.details.name == nil && sensor.details.serial == nil)
        let contents = try Self.contents(store)
        for mark in [
            Data("the-erased".utf8), Data("p-1".utf8), Data("ward-1".utf8), Data("Anna".utf8),
        ] {
            #expect(contents.range(of: mark) == nil, "\(String(decoding: mark, as: UTF8.self))")
        }
        #expect(contents.range(of: Data("the-kept".utf8)) != nil)
        #expect(try Self.rows(store, of: both[1]) == before[1])
        // What was lifted stands again.
        let looksAtReferences = try await queue.read("read pragma") { db in
            try Int.fetchOne(db, sql: "PRAGMA foreign_keys")
        }
        #expect(looksAtReferences == 1)
        #expect(try store.number(Self.guards) == 1)
        try await queue.close()
        let again = try await store.open(clock)
        #expect(try await again.balance() == kept)
        #expect(await again.health().salvage == nil)
        #expect(try await again.deliverAll(both[1].enrollment.id).count == kept.unsent)
    }

    @Test func whileAStrapRecordsForItNothingIsErased() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        await #expect { try await queue.erase(Erasure(enrollment: worn.enrollment.id)) } throws: {
            ($0 as? QueueError)?.code == .strapRecords
        }
        #expect(try await queue.balance().stored == 1)
    }

    /// `destination remove` looked, `queue assign` gave samples to that destination, and the removal erased them.
    @Test func aDestinationThatWasGivenSamplesSinceSomebodyLookedIsNotRemoved() async throws {
        let clock = ManualClock()
        let store = try TestStore()
        let queue = try await store.open(clock)
        let elsewhere = try await queue.enroll(.elsewhere())
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:07")
        let assignment = try await queue.assign(sensor: sensor.id, enrollment: nil)
        for _ in 0..<10 { try await queue.beat(assignment, clock) }
        let removal = Erasure(further: elsewhere.id, givesUp: true)
        try await queue.check(removal)
        let bound = try await queue.bind(assignment: assignment.id, enrollment: elsewhere.id)
        #expect(bound == 10)
        await #expect { try await queue.erase(removal) } throws: {
            ($0 as? QueueError)?.code == .ownDestination
        }
        #expect(try await queue.balance(of: .enrollment(elsewhere.id)).pending == 10)
        #expect(try await queue.audit().isClean)
    }

    @Test func whatCameSinceSomebodyLookedIsNotGivenUpUnasked() async throws {
        let clock = ManualClock()
        let store = try TestStore()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        let elsewhere = try await queue.enroll(.elsewhere())
        try await queue.add(destination: elsewhere.id, to: worn.assignment.id, from: .now)
        let removal = Erasure(further: elsewhere.id, givesUp: false)
        try await queue.check(removal)
        try await queue.beat(worn.assignment, clock)
        await #expect { try await queue.erase(removal) } throws: {
            ($0 as? QueueError)?.code == .samplesWait && "\($0)".contains("1 not delivered")
        }
        #expect(try await queue.balance(of: .enrollment(elsewhere.id)).pending == 1)
        try await queue.deliverAll(elsewhere.id)
        while try await !queue.erase(removal) {}
        #expect(try await !queue.enrollments().map(\.id).contains(elsewhere.id))
    }

    @Test(arguments: [Erasure(enrollment: 9), Erasure(enrollment: 1, patient: "nobody")])
    func whoIsNotThereIsNotErased(erasure: Erasure) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        await #expect { try await queue.erase(erasure) } throws: {
            ($0 as? QueueError)?.code == .unknownReference
        }
        try await queue.flush()
        #expect(try await queue.balance().stored == 1)
    }

    @Test func onePatientOfAPractitionerGoesAndTheEnrollmentStays() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        var terms = EnrollmentTerms.example("clinic", patient: nil)
        terms.patientFingerprints = ["40001": "the-erased", "40002": "the-kept"]
        let clinic = try await queue.enroll(terms)
        #expect(try await queue.enrollments().map(\.terms) == [terms])
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:01")
        // One strap, worn in turn.
        for patient in ["40001", "40002", "40001"] {
            let assignment = try await queue.assign(
                sensor: sensor.id, enrollment: clinic.id, patient: patient)
            for _ in 0..<10 {
                try await queue.beat(assignment, clock)
                clock.advance(seconds: 1)
            }
        }
        try await queue.endAssignment(sensor: sensor.id)
        while try await !queue.erase(Erasure(enrollment: clinic.id, patient: "40001")) {}
        let left = try await queue.enrollments()
        #expect(left.map(\.id) == [clinic.id])
        #expect(left.map(\.terms.patientFingerprints) == [["40002": "the-kept"]])
        #expect(
            try await queue.deliverAll(clinic.id).map(\.patient)
                == .init(repeating: "40002", count: 10))
        #expect(try await queue.audit().isClean)
        // The patient comes back.
        let later = try await queue.assign(
            sensor: sensor.id, enrollment: clinic.id, patient: "40001")
        try await queue.beat(later, clock)
        try await queue.flush()
        #expect(try await queue.deliverAll(clinic.id).count == 1)
    }

    /// Numbers of other straps lie between those of the erased: their samples were new again, or here before.
    @Test(arguments: [false, true])
    func anErasureLeavesWhatAnImportKnowsOfOthers(isReaddressed: Bool) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let (kept, erased) = (try await Worn(queue, 1), try await Worn(queue, 2))
        func beat(_ worn: [Worn]) async throws {
            for one in worn { try await queue.beat(one.assignment, clock) }
            clock.advance(seconds: 1)
        }
        try await beat([kept])
        for _ in 0..<20 { try await beat([erased, kept]) }
        try await queue.endAssignment(sensor: kept.assignment.sensorID)
        for _ in 0..<20 { try await beat([erased]) }
        try await queue.endAssignment(sensor: erased.assignment.sensorID)
        try await queue.flush()
        var bytes: [UInt8] = []
        try SampleQueue.export(path: store.path) { bytes += $0 }
        let file = store.directory.appendingPathComponent("samples.ndjson").path
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        for worn in [kept, erased] { try await queue.deliverAll(worn.enrollment.id) }
        while try await queue.purgeSettled() > 0 {}
        // The file has the address by which the strap was known before it was bonded.
        if isReaddressed {
            try await queue.readdress(
                sensor: erased.assignment.sensorID, to: "A0:9E:1A:00:00:99")
        }
        while try await !queue.erase(Erasure(enrollment: erased.enrollment.id)) {}
        let again = try await queue.enroll(erased.enrollment.terms)
        for (worn, enrollment, count) in [
            (kept, kept.enrollment.id, 21), (erased, again.id, 40),
        ] {
            let summary = try await queue.importSamples(
                from: file,
                into: ImportTarget(enrollmentID: enrollment, assignments: [worn.assignment.id]))
            #expect(summary.known == count && summary.added == 0, "\(summary)")
        }
    }

    @Test func manySamplesAreErasedInSmallStepsAndNoneIsLeftInAnyPage() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let both = [try await Worn(queue, 1), try await Worn(queue, 2)]
        // One after the other: whole pages are one patient's.
        for (index, worn) in both.enumerated() {
            let frame = [0, 70] + (Self.marks[UInt8(index + 1)] ?? [])
            for _ in 0..<12_000 {
                try await queue.append(
                    Arrival(sensorID: worn.assignment.sensorID, at: clock.read(), frame: frame))
                clock.advance(seconds: 0.1)
            }
        }
        try await queue.flush()
        try await queue.forgetSensor(both[0].sensor.id)
        var steps = 1
        while try await !queue.erase(Erasure(enrollment: both[0].enrollment.id)) {
            steps += 1
            #expect(try await queue.balance().isBalanced)
            #expect(try await queue.audit().isClean)
        }
        #expect(steps == 4)
        try await queue.emptyLog()
        let contents = try Self.contents(store)
        #expect(contents.range(of: Data("the-erased".utf8)) == nil)
        #expect(contents.range(of: Data("the-kept".utf8)) != nil)
        #expect(try await queue.balance().stored == 12_000)
    }

    @Test(arguments: ["prune-rows:1", "prune-cursor:1", "erase-registry:1", "erased:1"])
    func anErasureThatIsKilledIsTakenUpByTheNext(target: String) async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let both = try await Self.filled(store, clock)
        let (erased, kept) = (both[0].enrollment.id, both[1].enrollment.id)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            [path = store.path as String, target = target as String, erased = erased as Int64] in
            setenv("EDGE_GATEWAY_KILL_AT", target, 1)
            let queue = try SampleQueue(path: path, clock: ManualClock(), bootID: "boot-1")
            while try await !queue.erase(Erasure(enrollment: erased)) {}
        }
        let queue = try await store.open(clock)
        #expect(try await queue.audit().isClean)
        #expect(try await queue.balance().isBalanced)
        if try await queue.enrollments().contains(where: { $0.id == erased }) {
            while try await !queue.erase(Erasure(enrollment: erased)) {}
        }
        #expect(try await queue.enrollments().map(\.id) == [kept])
        #expect(try await queue.balance() == queue.balance(of: .enrollment(kept)))
        #expect(try store.number(Self.guards) == 1)
        #expect(try await queue.audit().isClean)
    }

    @Test func theLogIsEmptiedOnceNoReaderIsLeft() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        try await queue.beat(worn.assignment, clock)
        try await queue.flush()
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: store.path, configuration: configuration)
        try reader.inDatabase { db in
            try db.execute(sql: "BEGIN")
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM sample")
        }
        await #expect { try await queue.emptyLog() } throws: {
            ($0 as? QueueError)?.code == .inUse
        }
        try reader.close()
        try await queue.emptyLog()
        let log = try FileManager.default.attributesOfItem(atPath: store.path + "-wal")
        #expect(log[.size] as? Int == 0)
    }

    /// The log of a store that another program reads keeps what was erased, and a salvage finds it there. With the
    /// number of the erased enrollment or assignment, it was delivered as the next patient's.
    @Test func whatASalvageFindsOfTheErasedIsNotTheNextPatients() async throws {
        let (store, broken, clock) = (try TestStore(), try TestStore(), ManualClock())
        let queue = try await store.open(clock)
        let other = try await Worn(queue, 1)
        let log = WriteAheadLog(of: store.path, readsIndex: false)
        try #require(log.committed > 0)
        let erased = try await Worn(queue, 2)
        for _ in 0..<5 { try await queue.beat(erased.assignment, bpm: 61, clock) }
        try await queue.flush()
        // The erased segment is not the last.
        clock.advance(seconds: 86_400)
        try await queue.beat(other.assignment, clock)
        try await queue.flush()
        try await queue.forgetSensor(erased.sensor.id)
        while try await !queue.erase(Erasure(enrollment: erased.enrollment.id)) {}
        let next = try await Worn(queue, 3)
        for _ in 0..<5 { try await queue.beat(next.assignment, bpm: 92, clock) }
        try await queue.flush()

        for file in ["", "-wal"] {
            try Data(contentsOf: URL(filePath: store.path + file))
                .write(to: URL(filePath: broken.path + file))
        }
        let handle = try FileHandle(forUpdating: URL(filePath: broken.path + "-wal"))
        let frame = WriteAheadLog.headerBytes + (log.committed - 1) * log.frameBytes
        try handle.seek(toOffset: UInt64(frame + WriteAheadLog.frameHeaderBytes + 100))
        try handle.write(contentsOf: Data("damage".utf8))
        try handle.close()
        let salvaged = try await broken.open(clock, bootID: "boot-2")
        #expect(await salvaged.health().salvage != nil)
        let balance = try await salvaged.balance(of: .enrollment(next.enrollment.id))
        #expect(balance.stored == 5 && balance.dropped.isEmpty, "\(balance)")
        #expect(try await salvaged.balance().stored == 6)
        #expect(await salvaged.health().salvage?.orphaned == 0)
        let sent = try await salvaged.deliverAll(next.enrollment.id)
        #expect(sent.map(\.frame) == Array(repeating: [0, 92], count: 5))
        let names = try await salvaged.enrollments().map(\.terms.name)
        #expect(names == ["ward-1", "ward-3"], "the erased does not come back")
        #expect(try await salvaged.audit().isClean)
    }

    /// Pages that a pruning had freed keep the rows. Under numbers that were given anew after a restart, a salvage took
    /// them for the next patient's, and left that patient's own.
    @Test func whatASalvageFindsInFreePagesIsNotTheNextPatients() async throws {
        let (store, clock) = (try TestStore(), ManualClock())
        var queue = try await store.open(clock)
        let erased = try await Worn(queue, 1)
        for _ in 0..<3_000 {
            try await queue.beat(erased.assignment, bpm: 61, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        #expect(try await queue.deliverAll(erased.enrollment.id).count == 3_000)
        while try await queue.purgeSettled() > 0 {}
        try await queue.forgetSensor(erased.sensor.id)
        while try await !queue.erase(Erasure(enrollment: erased.enrollment.id)) {}
        try await queue.emptyLog()
        try await queue.close()

        queue = try await store.open(clock, bootID: "boot-2")
        let next = try await Worn(queue, 2)
        for _ in 0..<300 {
            try await queue.beat(next.assignment, bpm: 92, clock)
            clock.advance(seconds: 1)
        }
        try await queue.flush()
        try await queue.emptyLog()
        try await queue.close()
        let handle = try FileHandle(forUpdating: URL(filePath: store.path))
        try handle.write(contentsOf: Data(count: store.pageBytes()))
        try handle.close()
        let salvaged = try await store.open(clock, bootID: "boot-3")
        #expect(await salvaged.health().salvage?.carried == 300)
        let sent = try await salvaged.deliverAll(next.enrollment.id)
        #expect(sent.map(\.frame) == Array(repeating: [0, 92], count: 300))
        #expect(try await salvaged.audit().isClean)
    }

    @Test func noNumberOfAnErasedEnrollmentOrAssignmentComesBack() async throws {
        let (store, clock) = (try TestStore(), ManualClock())
        var queue = try await store.open(clock)
        var enrollments: Set<Int64> = []
        var assignments: Set<Int64> = []
        for number in 1...4 {
            let next = try await queue.nextEnrollmentID()
            let worn = try await Worn(queue, number)
            #expect(worn.enrollment.id == next)
            #expect(enrollments.insert(worn.enrollment.id).inserted)
            #expect(assignments.insert(worn.assignment.id).inserted)
            try await queue.forgetSensor(worn.sensor.id)
            while try await !queue.erase(Erasure(enrollment: worn.enrollment.id)) {}
            try await queue.close()
            queue = try await store.open(clock)
        }
    }
}
