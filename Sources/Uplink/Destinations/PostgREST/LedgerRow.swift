import Basics
import OfflineQueue

extension LedgerKind {
    /// The columns of ``JSONBytes/row(_:patient:)-(LedgerEntry,_)``. A row that lacks one has NULL there.
    var rowColumns: StaticString {
        switch self {
        case .gap: "id,patient,sensor,cause,began_at,ended_at,seconds"
        case .coverage:
            "id,patient,sensor,day,expected_seconds,covered_seconds,seconds_by_cause"
        }
    }
}

extension JSONBytes {
    /// Appends an entry of the gap ledger as a row of the table that deploy/supabase.sql makes for its kind.
    mutating func row(_ entry: LedgerEntry, patient: String?) {
        raw(#"{"id":"#)
        string(entry.id)
        raw(#","sensor":""#)
        integer(Int(entry.sensorID))
        raw(#"""#)
        if let patient {
            raw(#","patient":"#)
            string(patient)
        }
        switch entry.content {
        case .gap(let cause, let from, let until, let length):
            raw(#","cause":"#)
            string(cause.rawValue)
            for (name, time) in [("began_at", from), ("ended_at", until)] {
                guard let time else { continue }
                raw(",")
                string(name)
                raw(#":""#)
                Timestamp(time).writeMicroseconds(to: &self)
                raw(#"""#)
            }
            if let length {
                raw(#","seconds":"#)
                decimal(Int(length.microseconds), places: 6)
            }
        case .coverage(let day, let coverage):
            raw(#","day":"#)
            string(dateText(ofDay: day))
            raw(#","expected_seconds":"#)
            seconds(coverage.expectedSeconds)
            raw(#","covered_seconds":"#)
            seconds(coverage.coveredSeconds)
            raw(#","seconds_by_cause":"#)
            causes(coverage)
        }
        raw("}")
    }
}
