/// The columns of exported tables, by the names in their first lines. docs/use/data.md says what each means.
public enum ExportColumn {
    /// Of `queue export --format csv`.
    public static let samples = [
        "uuid", "time", "time_uncertainty_ms", "boot", "uptime_us", "sensor", "assignment",
        "enrollment", "patient", "bpm", "rr_1024", "flags", "frame", "state", "further",
    ]

    /// Of `queue export --beats`.
    public static let beats = [
        "time", "rr_ms", "uncertainty_ms", "strap", "segment", "lost_beats", "flags",
    ]

    /// Of `queue export --gaps`.
    public static let gaps = [
        "sensor", "assignment", "patient", "cause", "from", "until", "seconds", "open",
    ]

    /// Of `queue export --coverage`.
    public static let coverage = ["sensor", "patient", "day"] + coverageFigures

    /// How much of a day there is data for, for every table of coverage.
    public static let coverageFigures =
        ["percent", "expected_seconds", "covered_seconds", "longest_gap_seconds"]
        + GapCause.allCases.map { "\($0.rawValue)_seconds" }

    /// The figures of a day in the order of ``coverageFigures``, to the millisecond.
    public static func figures(
        percent: Double?, expectedSeconds: Double, coveredSeconds: Double,
        longestGapSeconds: Double, secondsByCause: [String: Double]
    ) -> [String] {
        [
            percent.map(share) ?? "", decimal(expectedSeconds), decimal(coveredSeconds),
            decimal(longestGapSeconds),
        ] + GapCause.allCases.map { decimal(secondsByCause[$0.rawValue] ?? 0) }
    }

    /// A share with three decimals, never rounded up: a day with a gap has no 100 %.
    static func share(_ percent: Double) -> String {
        decimal((percent * 1_000 + 1e-6).rounded(.down) / 1_000)
    }

    /// A number that is not negative, with three decimals.
    static func decimal(_ value: Double) -> String {
        let thousandths = Int64(exactly: (value * 1_000).rounded()) ?? .max
        return "\(thousandths / 1_000).\(String(1_000 + thousandths % 1_000).dropFirst())"
    }

    /// The fields as a line of CSV (RFC 4180), without its end; a field that a spreadsheet would take for a formula
    /// is made a text.
    public static func line(_ fields: [String]) -> String {
        fields.map(CSVField.text).joined(separator: ",")
    }

    /// The first line of a table.
    public static func header(_ columns: [String]) -> String {
        columns.joined(separator: ",")
    }
}
