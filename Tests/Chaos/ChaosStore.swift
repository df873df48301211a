import Basics
import Foundation
import GATTHeartRate
import GRDB
import OfflineQueue
import Testbed

/// What the gateway's store holds, read beside it, as an operator may.
struct ChaosStore {
    /// One stored sample with all that matters of what it belongs to.
    struct Sample {
        var strap: Int
        var number: Int?
        var boot: String
        var uptime: Int64
        /// How far off the uptime may be, s.
        var uncertainty: Double
        /// Whose data the store says it is.
        var patient: Int?
    }

    let path: String
    /// Every sample that was ever seen, by the identifier it is delivered under.
    private(set) var samples: [String: Sample] = [:]
    private var seenThrough: Int64 = 0

    init(path: String) { self.path = path }

    /// Takes over what a dead daemon left, from a copy: the next start finds the store untouched.
    /// Returns how many samples it stored and delivered in its life.
    mutating func readLeft() throws -> (stored: Int, delivered: Int) {
        let copy = path + ".copy"
        for end in ["", "-wal"] {
            try? FileManager.default.removeItem(atPath: copy + end)
            // After an orderly stop there is no log.
            guard end.isEmpty || FileManager.default.fileExists(atPath: path + end) else {
                continue
            }
            try FileManager.default.copyItem(atPath: path + end, toPath: copy + end)
        }
        defer {
            for end in ["", "-wal", "-shm"] {
                try? FileManager.default.removeItem(atPath: copy + end)
            }
        }
        let database = try DatabaseQueue(path: copy)
        defer { try? database.close() }
        try read(from: database)
        return try database.read { db in
            let row = try Row.fetchOne(
                db, sql: "SELECT coalesce(sum(stored), 0), coalesce(sum(delivered), 0) FROM segment"
            )
            return (row?[0] ?? 0, row?[1] ?? 0)
        }
    }

    /// Takes over the samples that came since the last time, before they may be pruned.
    mutating func read() throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        let database = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? database.close() }
        try read(from: database)
    }

    private mutating func read(from database: DatabaseQueue) throws {
        let rows = try database.read { [seenThrough] db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT p.id, p.frame, p.uptime_us, r.nonce, b.boot_id, n.address, e.patient, p.flags
                    FROM sample p JOIN segment s ON s.id = p.segment
                    JOIN run r ON r.id = s.run JOIN boot b ON b.id = r.boot
                    JOIN assignment a ON a.id = s.assignment JOIN sensor n ON n.id = a.sensor
                    LEFT JOIN enrollment e ON e.id = a.enrollment
                    WHERE p.id > ? ORDER BY p.id
                    """, arguments: [seenThrough])
        }
        for row in rows {
            let id: Int64 = row[0]
            let nonce: Int64 = row[3]
            let identity = SampleIdentity(runNonce: UInt64(bitPattern: nonce), sample: id)
            let frame: Data = row[1]
            samples["\(identity)"] = Sample(
                strap: TestWorld.addresses.firstIndex(of: row[5]) ?? -1,
                number: ChaosStraps.number(of: [UInt8](frame)), boot: row[4], uptime: row[2],
                uncertainty: max(1, Double((row[7] as Int64) >> 24)) / 4,
                patient: (row[6] as String?).flatMap { Int($0) })
            seenThrough = id
        }
    }

    /// One number.
    func number(_ sql: String) throws -> Int {
        var configuration = Configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration)
            .read { try Int.fetchOne($0, sql: sql) ?? 0 }
    }

    /// Samples of boots whose clock was never trusted, which wait for a person.
    func clockless() throws -> Int {
        try number(
            """
            SELECT coalesce(sum(s.stored - s.delivered - s.dead - s.dropped), 0)
            FROM segment s WHERE s.wall_offset_us IS NULL
            """)
    }

    /// Moments of an assignment that neither a sample nor a gap covers, as far as samples are still there.
    ///
    /// Checked on the world's own clock: from the begin of an assignment, what was known reaches
    /// up to each sample or gap in turn, over at most the silence that is no gap.
    func holes(_ clock: FastClock) throws -> [String] {
        struct Piece {
            var from: UTC
            var until: UTC
            var isGap: Bool
        }
        var pieces: [Int64: [Piece]] = [:]
        func truth(_ boot: String, _ uptime: Int64) -> UTC? {
            clock.truth(boot: boot, uptime: Uptime(microseconds: uptime))
        }
        func add(_ rows: [Row], isGap: Bool) {
            for row in rows {
                guard let from = truth(row[1], row[2]),
                    let until = (row[3] as String?).map({ truth($0, row[4]) })
                        ?? clock.now
                else { continue }
                pieces[row[0], default: []].append(
                    Piece(from: from, until: until, isGap: isGap))
            }
        }
        var configuration = Configuration()
        configuration.readonly = true
        let database = try DatabaseQueue(path: path, configuration: configuration)
        let begins = try database.read { db -> [Int64: UTC] in
            add(
                try Row.fetchAll(
                    db,
                    sql: """
                        SELECT g.assignment, f.boot_id, g.from_uptime_us, u.boot_id,
                            g.until_uptime_us
                        FROM gap g JOIN boot f ON f.id = g.from_boot
                        LEFT JOIN boot u ON u.id = g.until_boot
                        """), isGap: true)
            add(
                try Row.fetchAll(
                    db,
                    sql: """
                        SELECT s.assignment, b.boot_id, p.uptime_us, b.boot_id, p.uptime_us
                        FROM sample p JOIN segment s ON s.id = p.segment
                        JOIN run r ON r.id = s.run JOIN boot b ON b.id = r.boot
                        WHERE p.flags & \(Self.lackingRate) = 0
                        """), isGap: false)
            var begins: [Int64: UTC] = [:]
            for row in try Row.fetchAll(
                db,
                sql: """
                    SELECT a.id, b.boot_id, a.began_uptime_us
                    FROM assignment a JOIN boot b ON b.id = a.began_boot
                    """)
            {
                begins[row[0]] = truth(row[1], row[2])
            }
            return begins
        }
        var holes: [String] = []
        for (assignment, begin) in begins.sorted(by: { $0.key < $1.key }) {
            var known = begin
            for piece in (pieces[assignment] ?? []).sorted(by: { $0.from < $1.from }) {
                let silence = piece.from - known
                if silence > Self.silenceMax || (piece.isGap && silence < .zero - Self.rounding) {
                    let at = (piece.from - FastClock.epoch).inSeconds
                    holes.append(
                        "assignment \(assignment): \(silence) before "
                            + "\(piece.isGap ? "a gap" : "a sample") at \(at) s")
                }
                known = max(known, piece.until)
            }
        }
        return holes
    }

    /// Samples without a heart rate cover no time.
    private static let lackingRate = Plausibility.withoutRate.union(.contactLost).rawValue

    /// A silence that is no gap: three times the cadence of the straps (docs/operate/operations.md), 2.5 s and what a
    /// busy host adds to the arrivals by which the gateway measures it; and what is lost in computing the truth.
    private static let silenceMax = Duration.milliseconds(3 * 2_550) + rounding
    private static let rounding = Duration.milliseconds(1)
}
