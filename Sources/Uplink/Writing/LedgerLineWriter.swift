import Basics
import OfflineQueue

extension LedgerEntry {
    /// Invented ones, for a person to see what leaves the machine.
    static let examples = [
        LedgerEntry(
            id: "6f0c2a4e-0d51-4c0b-9a51-5d4a3f1f6f20-81234000000-1", sensorID: 1,
            patient: OutgoingPoint.example.patient,
            .gap(
                .outOfRange, from: UTC(microseconds: 1_795_330_000_000_000),
                until: UTC(microseconds: 1_795_330_072_500_000), length: .microseconds(72_500_000)))
    ]

    /// `gap` or `coverage`.
    var kind: LedgerKind {
        switch content {
        case .gap: .gap
        case .coverage: .coverage
        }
    }
}

/// The subject of an entry of the ledger.
enum LedgerKind: String, Sendable {
    case gap, coverage
}

/// The date of a day in days since 1970-01-01, 10 characters.
func dateText(ofDay day: Int64) -> String {
    let date = CivilDate(daysSince1970: max(0, day))
    func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))"
}

extension JSONBytes {
    /// Appends an entry of the gap ledger as one JSON object in ASCII:
    ///
    ///     {"patient":"40001","sensor":{"id":1},"gap":{"id":"…","cause":"out-of-range",
    ///      "from":"2026-11-22T08:00:00.000000Z","until":"2026-11-22T08:01:12.500000Z","seconds":72.5}}
    ///     {"patient":"40001","sensor":{"id":1},"coverage":{"id":"…","day":"2026-11-22",
    ///      "expected_seconds":86400,"covered_seconds":86327.5,"seconds_by_cause":{"out-of-range":72.5}}}
    mutating func line(_ entry: LedgerEntry, patient: String?) {
        raw(#"{"patient":"#)
        if let patient { string(patient) } else { raw("null") }
        raw(#","sensor":{"id":"#)
        integer(Int(entry.sensorID))
        raw(#"},""#)
        raw(entry.kind.rawValue.utf8)
        raw(#"":{"id":"#)
        string(entry.id)
        fields(entry.content, from: "from", until: "until")
        raw("}}")
    }

    /// Appends what an entry says as fields of an object that has begun.
    ///
    /// - Parameters:
    ///   - fromName: the name of the field for the beginning of a gap.
    ///   - untilName: that for its end.
    mutating func fields(
        _ content: LedgerEntry.Content, from fromName: StaticString, until untilName: StaticString
    ) {
        switch content {
        case .gap(let cause, let from, let until, let length):
            raw(#","cause":"#)
            string(cause.rawValue)
            time(fromName, from)
            time(untilName, until)
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
    }

    /// Appends the seconds without data as an object by cause.
    private mutating func causes(_ coverage: Coverage) {
        raw("{")
        for (index, (cause, seconds)) in coverage.sortedCauses.enumerated() {
            if index > 0 { raw(",") }
            string(cause.rawValue)
            raw(":")
            self.seconds(seconds)
        }
        raw("}")
    }

    /// Appends seconds with three places at most.
    mutating func seconds(_ seconds: Double) {
        decimal(Int((max(0, min(seconds, 1e12)) * 1000).rounded()), places: 3)
    }

    private mutating func time(_ name: StaticString, _ time: UTC?) {
        guard let time else { return }
        raw(#",""#)
        raw(name)
        raw(#"":""#)
        Timestamp(time).writeMicroseconds(to: &self)
        raw(#"""#)
    }
}

extension Coverage {
    /// The seconds without data, in the order of the causes' names: the same at every attempt.
    var sortedCauses: [(GapCause, Double)] {
        secondsByCause.sorted { $0.key.rawValue < $1.key.rawValue }.map { ($0.key, $0.value) }
    }
}
