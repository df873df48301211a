import Basics
import Foundation
import GRDB
import Synchronization

@testable import OfflineQueue

/// A clock that says what the test tells it to.
final class ManualClock: GatewayClock {
    private let reading: Mutex<ClockReading>
    private let slept = Mutex(Duration.zero)

    /// 2026-12-01T00:00:00Z.
    static let midnight = UTC(microseconds: 1_796_083_200_000_000)

    /// ``midnight`` at an uptime of 100 s.
    init(isTrusted: Bool = true) {
        reading = Mutex(
            ClockReading(
                uptime: .zero + .seconds(100), wall: Self.midnight, isTrusted: isTrusted))
    }

    func read() -> ClockReading { reading.withLock { $0 } }

    var suspended: Duration { slept.withLock { $0 } }

    /// The machine sleeps.
    func suspend(seconds: Int) {
        advance(seconds: Double(seconds))
        slept.withLock { $0 += .seconds(seconds) }
    }

    func advance(seconds: Double) {
        reading.withLock {
            let length = Duration.microseconds(Int64((seconds * 1_000_000).rounded()))
            $0.uptime += length
            $0.wall += length
        }
    }

    func set(_ change: @Sendable (inout ClockReading) -> Void) {
        reading.withLock { change(&$0) }
    }
}

/// A directory of its own with one store in it, gone when the test is over.
final class TestStore: Sendable {
    let directory: URL
    var path: String { directory.appendingPathComponent("queue.sqlite").path }

    /// In memory if there is a place for it: these tests kill processes, not the power, and need not
    /// wait for a disk.
    private static let parent: URL =
        FileManager.default.isWritableFile(atPath: "/dev/shm")
        ? URL(fileURLWithPath: "/dev/shm") : FileManager.default.temporaryDirectory

    init() throws {
        directory = Self.parent
            .appendingPathComponent("offline-queue-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    /// Makes an empty store with pages of that size.
    func make(pageBytes: Int) throws {
        let database = try DatabaseQueue(path: path)
        try database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA page_size = \(pageBytes); PRAGMA journal_mode = WAL")
        }
        try database.close()
    }

    /// Bytes of its pages.
    func pageBytes() throws -> Int { try number("PRAGMA page_size") }

    /// Opens the store. A queue that was dropped without being closed, as by a kill, holds its lock
    /// until its last job is over: it is waited for.
    func open(
        _ clock: ManualClock, bootID: String = "boot-1", settings: QueueSettings = QueueSettings(),
        patience: Duration = .seconds(10)
    ) async throws -> SampleQueue {
        let deadline = ContinuousClock.now + patience
        while true {
            do throws(QueueError) {
                let queue = try SampleQueue(
                    path: path, settings: settings, clock: clock, bootID: bootID)
                // A daemon does it while it records.
                if !settings.staysAvailable { await queue.saveIfDue(uptime: clock.read().uptime) }
                return queue
            } catch {
                guard error.code == .inUse, ContinuousClock.now < deadline else { throw error }
            }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// One number out of the file, read by a connection of its own.
    func number(_ sql: String) throws -> Int {
        try DatabaseQueue(path: path).read { try Int.fetchOne($0, sql: sql) ?? 0 }
    }

    func execute(_ sql: String) throws {
        try unnoticed { try DatabaseQueue(path: path).write { try $0.execute(sql: sql) } }
    }

    /// Changes files as a dying card does: nobody can see that it was done.
    func unnoticed(_ change: () throws -> Void) rethrows {
        let times = ["", "-wal"].map { companion in
            var status = stat()
            _ = stat(path + companion, &status)
            return (path + companion, [status.st_atim, status.st_mtim])
        }
        try change()
        for (path, times) in times { utimensat(AT_FDCWD, path, times, 0) }
    }
}

extension SampleQueue {
    /// The next samples of a delivery.
    func nextBatch(
        enrollment: Int64, limit: Int, of patients: PatientFilter = .all
    ) throws(QueueError) -> [PendingSample] {
        try nextPending(enrollment: enrollment, limit: limit, of: patients).samples
    }

    /// How much of a UTC day there is data for, over all assignments of a scope.
    func coverage(
        of scope: BalanceScope, dayStartingAt day: UTC
    ) throws(QueueError) -> Coverage {
        let now = clock.read().uptime
        let (condition, arguments) = Self.assignments(of: scope)
        return try read("read coverage") { db in
            let boots = try Boots(db)
            let unstored = Dictionary(grouping: try unstoredGaps(db, at: now), by: \.assignment)
            var coverage = Coverage(dayStart: day)
            let rows = try Row.fetchAll(
                db, sql: "SELECT a.* FROM assignment a WHERE \(condition) ORDER BY a.id",
                arguments: arguments)
            for row in rows {
                coverage.add(try timeLine(db, of: row, now: now, unstored: unstored).spans(boots))
            }
            return coverage
        }
    }

    /// Takes over one frame.
    func append(_ arrival: Arrival) throws(QueueError) {
        try append(contentsOf: CollectionOfOne(arrival))
    }

    /// Replaces what is known of a sensor.
    func updateSensor(_ id: Int64, details: SensorDetails) throws(QueueError) {
        try write("update sensor") { try $0.setDetails(of: id, details) }
    }

    /// Ends the sensor's open assignment, if it has one, and leaves the sensor on the list.
    func endAssignment(sensor: Int64) throws(QueueError) {
        let now = clock.read()
        try changeAssignment("end assignment") { [run] db, ledgers in
            _ = try Self.endAssignment(db, of: sensor, now, run, &ledgers)
        }
    }
}

extension PendingSample {
    /// The identifier of its heart-rate data point.
    var uuid: String { identity().description }
}

extension EnrollmentTerms {
    static func example(_ name: String = "ward-3", patient: String? = "p-1") -> EnrollmentTerms {
        EnrollmentTerms(
            name: name, kind: patient == nil ? .practitionerKey : .invitation,
            origin: "https://exchange.example", fhirBase: "https://exchange.example/FHIR/R5",
            patient: patient, identifierSystem: "urn:example:gateway")
    }
}

extension EnrollmentTerms {
    /// A destination that is not an exchange.
    static func elsewhere(_ name: String = "elsewhere") -> EnrollmentTerms {
        var terms = EnrollmentTerms(
            name: name, kind: .destination, origin: "https://elsewhere.example", fhirBase: "",
            identifierSystem: "urn:example:gateway")
        terms.system = "influx"
        terms.settings = #"{"database":"ward"}"#
        return terms
    }
}

/// A sensor with an enrollment, ready to take samples.
struct Worn {
    let sensor: Sensor
    let enrollment: Enrollment
    let assignment: Assignment

    init(_ queue: SampleQueue, _ number: Int = 1) async throws {
        sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)")
        enrollment = try await queue.enroll(.example("ward-\(number)", patient: "p-\(number)"))
        assignment = try await queue.assign(sensor: sensor.id, enrollment: enrollment.id)
    }
}

extension SampleQueue {
    /// One decodable frame now.
    func beat(_ assignment: Assignment, bpm: UInt8 = 70, _ clock: ManualClock) throws {
        try append(Arrival(sensorID: assignment.sensorID, at: clock.read(), frame: [0, bpm]))
    }

    /// Everything pending in a delivery is delivered.
    @discardableResult
    func deliverAll(_ enrollment: Int64, limit: Int = 100) throws -> [PendingSample] {
        var all: [PendingSample] = []
        while true {
            let batch = try nextBatch(enrollment: enrollment, limit: limit)
            if batch.isEmpty { return all }
            try settle(
                enrollment: enrollment, batch.map { SettledSample($0, .delivered) },
                upload: UploadRecord(batch, outcome: "delivered"))
            all += batch
        }
    }
}

extension Data {
    /// Bytes of a page, if these are those of a store.
    var pageBytes: Int { Int(self[16]) << 8 | Int(self[17]) }
}
