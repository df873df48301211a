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
        fields(entry.content, from: "began_at", until: "ended_at")
        raw("}")
    }
}
