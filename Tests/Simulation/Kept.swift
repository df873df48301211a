import Foundation
import GATTHeartRate
import GRDB
import OfflineQueue
import Testbed

/// A sample as the store has it at the end.
struct KeptSample {
    enum Fate: Hashable {
        case waiting
        case delivered
        /// Given up, for a reason that the store lists.
        case listed(String)
    }

    var address: String
    var bytes: [UInt8]
    /// When the strap sent it, as the store has it, µs; and how far off that may be.
    var uptime: Int64
    var uncertainty: Int64
    /// Number of the patient in the world; nil for none.
    var patient: Int?
    var fate: Fate
    /// Its own destination is no exchange.
    var isOfWebhook: Bool
    /// The store says that it may be a copy of the frame before it.
    var mayBeCopy: Bool

    var isListed: Bool { if case .listed = fate { true } else { false } }

    /// All samples, by the identity under which destinations know them.
    static func all(in store: URL) throws -> [String: KeptSample] {
        var configuration = Configuration()
        configuration.readonly = true
        let path = store.appending(path: "queue.sqlite").path
        return try DatabaseQueue(path: path, configuration: configuration).read { db in
            var kept: [String: KeptSample] = [:]
            let rows = try Row.fetchCursor(db, sql: sql)
            while let row = try rows.next() {
                let identity = SampleIdentity(
                    runNonce: UInt64(bitPattern: row["nonce"]), sample: row["number"])
                kept[identity.description] = KeptSample(row)
            }
            return kept
        }
    }

    private static let sql = """
        SELECT r.nonce, s.id - g.identity_shift AS number, x.address, s.frame, s.uptime_us, s.flags,
            s.time_uncertainty_ms,
            coalesce(a.patient, e.patient) AS patient, e.system IS NOT NULL AS is_webhook, s.id <= g.settled_through AS is_settled,
            (SELECT reason FROM dead_letter d WHERE d.sample = s.id) AS dead,
            (SELECT reason FROM dropped_range d WHERE d.segment = g.id AND d.destination = 0
                AND s.id BETWEEN d.first_sample AND d.last_sample) AS dropped
        FROM sample s JOIN segment g ON g.id = s.segment JOIN run r ON r.id = g.run
        JOIN assignment a ON a.id = g.assignment JOIN sensor x ON x.id = a.sensor
        LEFT JOIN enrollment e ON e.id = a.enrollment
        """

    private init(_ row: Row) {
        address = row["address"]
        bytes = [UInt8](row["frame"] as Data)
        uptime = row["uptime_us"]
        // What any frame may be on its way is not in it.
        uncertainty = max(
            FrameIntake.wayMicrosecondsMax, 1_000 * (row["time_uncertainty_ms"] as Int64? ?? 0))
        let flags: Int64 = row["flags"]
        mayBeCopy = flags & Int64(Plausibility.possibleCopy.rawValue) != 0
        patient = (row["patient"] as String?).flatMap { Int($0) }.map {
            $0 - ExchangeSeed.patient(0)
        }
        isOfWebhook = row["is_webhook"]
        if let reason = row["dead"] as String? ?? row["dropped"] {
            fate = .listed(reason)
        } else {
            fate = row["is_settled"] ? .delivered : .waiting
        }
    }
}
