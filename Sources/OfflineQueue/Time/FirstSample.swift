import Basics
import GRDB

/// How long it took until the first frame of this boot was stored: from power-on, and from the start of the
/// program that stored it.
public struct FirstSample: Sendable, Hashable {
    /// From the machine's start to the frame's arrival.
    public let sincePowerOn: Duration
    /// From the program's start to the frame's arrival.
    public let sinceStart: Duration
}

extension SampleQueue {
    /// The first sample that the store at `path` has of a boot; nil if there is none. Only reads: a daemon may
    /// be at work on the store meanwhile.
    ///
    /// - Parameters:
    ///   - path: of the store's file.
    ///   - bootID: the boot's, as `BootID` has it.
    public static func firstSample(
        path: String, bootID: String
    ) throws(QueueError) -> FirstSample? {
        do {
            return try StoreFile.readOnce(path, "read store") { db in
                let row = try Row.fetchOne(
                    db,
                    sql: """
                        SELECT segment.first_uptime_us, run.started_uptime_us
                        FROM segment JOIN run ON run.id = segment.run JOIN boot ON boot.id = run.boot
                        WHERE boot.boot_id = ? AND segment.received > 0
                        ORDER BY segment.first_uptime_us LIMIT 1
                        """, arguments: [bootID])
                guard let row else { return nil }
                let arrival: Uptime = row[0]
                let started: Uptime = row[1]
                return FirstSample(
                    sincePowerOn: max(.zero, arrival - .zero),
                    sinceStart: max(.zero, arrival - started))
            }
        } catch {
            throw QueueError("read store", error)
        }
    }
}
