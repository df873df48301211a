// What the queue costs, one figure a line: "name value". The peers in Swift are here too; those in
// Python are in peer.py.
import Basics
import Foundation
import GRDB
import OfflineQueue

/// A clock that moves when told to.
final class FixtureClock: GatewayClock {
    // The benchmark is one task that awaits every call: nothing reads while it is moved.
    nonisolated(unsafe) static var uptime: Int64 = 1_000_000_000
    func read() -> ClockReading {
        ClockReading(
            uptime: Uptime(microseconds: Self.uptime),
            wall: UTC(microseconds: Self.uptime + 1_796_083_200_000_000),
            isTrusted: true)
    }
}

/// What eight straps at 1 Hz send while frames gather for the store, 4.5 s: so many reach it in one call.
let handedOver = 36

/// 72 beats a minute and one interval.
enum Beat { static let frame: [UInt8] = [0x10, 72, 0x40, 0x03] }

func seconds(_ body: () async throws -> Void) async rethrows -> Double {
    let start = ContinuousClock.now
    try await body()
    return Double((ContinuousClock.now - start).components.attoseconds) / 1e18
        + Double((ContinuousClock.now - start).components.seconds)
}

/// A number from a file of /proc such as `/proc/self/io`.
func proc(_ file: String, _ name: String) -> Int {
    let text = (try? String(contentsOfFile: "/proc/self/" + file, encoding: .utf8)) ?? ""
    let line = text.split(separator: "\n").first { $0.hasPrefix(name + ":") } ?? ""
    return Int(
        line.split(separator: " ").dropFirst().first ?? line.split(separator: "\t").last ?? "") ?? 0
}

func openQueue(_ path: String, _ settings: QueueSettings = QueueSettings()) throws -> SampleQueue {
    try SampleQueue(path: path, settings: settings, clock: FixtureClock(), bootID: "bench")
}

/// Eight straps of one enrollment.
func wear(_ queue: SampleQueue) async throws -> (delivery: Int64, assignments: [Assignment]) {
    let delivery = try await queue.enroll(
        EnrollmentTerms(
            name: "bench", origin: "https://exchange.example",
            fhirBase: "https://exchange.example/FHIR/R5", patient: "1",
            identifierSystem: "urn:bench")
    ).id
    var assignments: [Assignment] = []
    for number in 1...8 {
        let sensor = try await queue.addSensor(address: "A0:9E:1A:00:00:0\(number)").id
        assignments.append(try await queue.assign(sensor: sensor, enrollment: delivery))
    }
    return (delivery, assignments)
}

/// `count` samples of eight straps at 1 Hz, so many to a call.
func record(
    _ queue: SampleQueue, _ assignments: [Assignment], _ count: Int, atOnce: Int = 1
) async throws {
    let clock = FixtureClock()
    var arrivals: [Arrival] = []
    for number in 0..<count {
        FixtureClock.uptime += 125_000
        arrivals.append(
            Arrival(
                sensorID: assignments[number % assignments.count].sensorID, at: clock.read(),
                frame: Beat.frame))
        if arrivals.count == atOnce || number == count - 1 {
            try await queue.append(contentsOf: arrivals)
            arrivals.removeAll(keepingCapacity: true)
        }
    }
    try await queue.flush()
}

func deliver(_ queue: SampleQueue, _ delivery: Int64) async throws {
    while true {
        let batch = try await queue.nextPending(enrollment: delivery, limit: 100).samples
        if batch.isEmpty { return }
        try await queue.settle(
            enrollment: delivery, batch.map { SettledSample($0, .delivered) },
            upload: UploadRecord(batch, outcome: "delivered"))
    }
}

func throughput(_ directory: String, _ count: Int) async throws {
    let queue = try openQueue(directory + "/queue.sqlite")
    let (delivery, assignments) = try await wear(queue)
    let appending = try await seconds { try await record(queue, assignments, count) }
    let together = try await seconds {
        try await record(queue, assignments, count, atOnce: handedOver)
    }
    let settling = try await seconds { try await deliver(queue, delivery) } / 2
    try await queue.close()
    print("append_together_us", together / Double(count) * 1e6)
    print("append_us", appending / Double(count) * 1e6)
    print("settle_us", settling / Double(count) * 1e6)
}

/// What one writes first with GRDB: a row a transaction, and a state a row.
func naive(_ directory: String, _ count: Int) async throws {
    var configuration = Configuration()
    configuration.prepareDatabase { db in
        try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    }
    let database = try DatabaseQueue(
        path: directory + "/naive.sqlite", configuration: configuration)
    try await database.write { db in
        try db.execute(
            sql: """
                CREATE TABLE sample (id INTEGER PRIMARY KEY, sensor INTEGER, time INTEGER,
                    frame BLOB, is_sent INTEGER NOT NULL DEFAULT 0)
                """)
    }
    let data = Data(Beat.frame)
    let before = proc("io", "write_bytes")
    let appending = try await seconds {
        for number in 0..<count {
            try await database.write { db in
                try db.execute(
                    sql: "INSERT INTO sample (sensor, time, frame) VALUES (?, ?, ?)",
                    arguments: [number % 8, number, data])
            }
        }
    }
    print("naive_bytes", Double(proc("io", "write_bytes") - before) / Double(count))
    let settling = try await seconds {
        for _ in 0..<count {
            try await database.write { db in
                let row = try Row.fetchOne(
                    db, sql: "SELECT * FROM sample WHERE is_sent = 0 ORDER BY id LIMIT 1")
                try db.execute(
                    sql: "UPDATE sample SET is_sent = 1 WHERE id = ?",
                    arguments: [row?["id"] as Int64?])
            }
        }
    }
    print("naive_append_us", appending / Double(count) * 1e6)
    print("naive_settle_us", settling / Double(count) * 1e6)
}

/// Bytes the kernel was given to write, per sample, at the default settings.
func bytesWritten(_ directory: String, _ count: Int) async throws {
    let queue = try openQueue(directory + "/wear.sqlite")
    let (_, assignments) = try await wear(queue)
    let before = proc("io", "write_bytes")
    try await record(queue, assignments, count)
    try await queue.close()
    print("bytes_per_sample", Double(proc("io", "write_bytes") - before) / Double(count))
}

/// Bytes written per sample that is recorded and delivered, with no further destination and with four: every
/// hundred samples each destination is sent them, as by a daemon that keeps up.
func destinations(_ directory: String, _ count: Int) async throws {
    for further in [0, 4] {
        let queue = try openQueue(directory + "/destinations-\(further).sqlite")
        let (delivery, assignments) = try await wear(queue)
        var deliveries = [delivery]
        for number in 0..<further {
            let terms = EnrollmentTerms(
                name: "further \(number)", kind: .destination,
                origin: "https://elsewhere.example", fhirBase: "",
                identifierSystem: "urn:bench")
            deliveries.append(try await queue.enroll(terms).id)
            for assignment in assignments {
                try await queue.add(
                    destination: deliveries[number + 1], to: assignment.id, from: .now)
            }
        }
        let before = proc("io", "write_bytes")
        for _ in 0..<count / 100 {
            try await record(queue, assignments, 100)
            for delivery in deliveries {
                let batch = try await queue.nextPending(enrollment: delivery, limit: 100).samples
                let outcomes = batch.map { SettledSample($0, .delivered) }
                let upload = UploadRecord(batch, outcome: "delivered")
                // As the runner does: most further destinations know a repetition whenever it comes.
                if delivery == deliveries[0] {
                    try await queue.beginRequest(enrollment: delivery)
                    try await queue.settle(enrollment: delivery, outcomes, upload: upload)
                } else {
                    try await queue.settleSoon(enrollment: delivery, outcomes, upload: upload)
                }
            }
        }
        try await queue.close()
        print(
            "delivered_bytes_\(further)", Double(proc("io", "write_bytes") - before) / Double(count)
        )
    }
}

/// A backlog of `count` rows, made in large commits.
func backlog(_ directory: String, _ count: Int) async throws {
    var settings = QueueSettings()
    settings.commitSamplesMax = 5_000
    settings.commitAgeMax = .microseconds(Int64.max)
    settings.maxBytes = nil
    let queue = try openQueue(directory + "/backlog.sqlite", settings)
    let (_, assignments) = try await wear(queue)
    try await record(queue, assignments, count)
    try await queue.close()
}

func opening(_ directory: String) async throws {
    var queue: SampleQueue?
    let open = try await seconds { queue = try openQueue(directory + "/backlog.sqlite") }
    guard let queue else { return }
    let delivery = try await queue.enrollments().first?.id ?? 0
    var rows = 0
    let batch = try await seconds {
        rows = try await queue.nextPending(enrollment: delivery, limit: 100).samples.count
    }
    let balance = try await seconds { rows += try await queue.balance().pending }
    print("backlog_rows", rows - 100)
    print("open_ms", open * 1e3)
    print("next_batch_ms", batch * 1e3)
    print("balance_ms", balance * 1e3)
    for _ in 0..<100 {
        let batch = try await queue.nextPending(enrollment: delivery, limit: 100).samples
        try await queue.settle(enrollment: delivery, batch.map { SettledSample($0, .delivered) })
    }
    print("resident_kib", proc("status", "VmHWM"))
    try await queue.close()
}

let arguments = CommandLine.arguments
let count = arguments.count > 3 ? Int(arguments[3]) ?? 0 : 0
switch arguments.dropFirst().first {
case "throughput": try await throughput(arguments[2], count)
case "naive": try await naive(arguments[2], count)
case "bytes": try await bytesWritten(arguments[2], count)
case "destinations": try await destinations(arguments[2], count)
case "backlog": try await backlog(arguments[2], count)
case "open": try await opening(arguments[2])
default: exit(2)
}
