import Basics
import OfflineQueue

/// The documents in a Cloud Firestore: a document a data point and an entry of the gap ledger, each under a
/// name of its own, so that a repetition is the same write.
///
///     users/UID/heartRate/s3-1763798400123-<identifier>
///     users/UID/gaps/s3-<identifier>
///     users/UID/coverage/s3-<identifier>
///
/// Names begin with the strap: Firestore is slow where those of many writers grow with the time.
struct FirestoreDocuments {
    /// `projects/PROJECT/databases/DATABASE/documents/users/UID`.
    private let user: String
    private var json = JSONBytes()
    private var hasWrites = false
    private var hasFields = false

    /// Documents of a user in the database with this resource name.
    init(database: String, user: String) {
        self.user = "\(database)/documents/users/\(user)"
        json.raw(#"{"writes":["#)
    }

    /// The body of a commit, when all is written.
    var commit: [UInt8] {
        var commit = json
        commit.raw("]}")
        return commit.bytes
    }

    /// The document that a trial writes, or its removal.
    static func trial(database: String, user: String, ends: Bool) -> [UInt8] {
        var documents = FirestoreDocuments(database: database, user: user)
        if ends {
            documents.json.raw(#"{"delete":"#)
            documents.json.string("\(documents.user)/gateway/probe")
            documents.json.raw("}")
        } else {
            documents.document("gateway/probe") { $0.text("state", "trial") }
        }
        return documents.commit
    }

    mutating func write(_ point: OutgoingPoint) {
        let span = point.point.span
        let milliseconds = max(0, span.lowerBound.microseconds / 1000)
        document("heartRate/s\(point.sensorID)-\(milliseconds)-\(point.point.uuid)") { json in
            switch point.point.content {
            case .heartRate(let bpm, _): json.number("bpm") { $0.integer(bpm) }
            case .averageHeartRate(let tenths, let count, _):
                json.number("bpm") { $0.decimal(tenths, places: 1) }
                json.integer("count", count)
            // They are not offered.
            case .interval: break
            }
            json.time("start", span.lowerBound)
            json.time("end", span.upperBound)
            json.integer("sensor", Int(point.sensorID))
            if let model = point.strap.model {
                json.text("source", String(model.prefix(DataPointWriter.datasheetLengthMax)))
            }
        }
    }

    mutating func write(_ entry: LedgerEntry) {
        switch entry.content {
        case .gap(let cause, let from, let until, let length):
            document("gaps/s\(entry.sensorID)-\(entry.id)") { json in
                json.text("cause", cause.rawValue)
                if let from { json.time("start", from) }
                if let until { json.time("end", until) }
                if let length { json.number("seconds") { $0.seconds(length.inSeconds) } }
                json.integer("sensor", Int(entry.sensorID))
            }
        case .coverage(let day, let coverage):
            document("coverage/s\(entry.sensorID)-\(entry.id)") { json in
                json.text("day", dateText(ofDay: day))
                json.number("expectedSeconds") { $0.seconds(coverage.expectedSeconds) }
                json.number("coveredSeconds") { $0.seconds(coverage.coveredSeconds) }
                json.field("secondsByCause", "mapValue")
                json.json.raw(#"{"fields":{"#)
                json.hasFields = false
                for (cause, length) in coverage.sortedCauses {
                    json.number(cause.rawValue) { $0.seconds(length) }
                }
                json.json.raw("}}}")
                json.hasFields = true
                json.integer("sensor", Int(entry.sensorID))
            }
        }
    }

    // MARK: - Parts

    private mutating func document(
        _ path: String, _ write: (inout FirestoreDocuments) -> Void
    ) {
        json.raw(hasWrites ? #",{"update":{"name":"# : #"{"update":{"name":"#)
        hasWrites = true
        hasFields = false
        json.string("\(user)/\(path)")
        json.raw(#","fields":{"#)
        write(&self)
        json.raw("}}}")
    }

    /// Begins a field of a type; its value and a brace follow.
    private mutating func field(_ name: String, _ type: StaticString) {
        if hasFields { json.raw(",") }
        hasFields = true
        json.string(name)
        json.raw(#":{""#)
        json.raw(type)
        json.raw(#"":"#)
    }

    private mutating func number(_ name: String, _ write: (inout JSONBytes) -> Void) {
        field(name, "doubleValue")
        write(&json)
        json.raw("}")
    }

    private mutating func text(_ name: String, _ text: String) {
        field(name, "stringValue")
        json.string(text)
        json.raw("}")
    }

    /// Firestore has 64 bits, which JSON's numbers have not.
    private mutating func integer(_ name: String, _ value: Int) {
        field(name, "integerValue")
        json.string(String(value))
        json.raw("}")
    }

    private mutating func time(_ name: String, _ time: UTC) {
        field(name, "timestampValue")
        json.raw(#"""#)
        Timestamp(time).writeMicroseconds(to: &json)
        json.raw(#""}"#)
    }
}
