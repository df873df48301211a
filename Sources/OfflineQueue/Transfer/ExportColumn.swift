import GATTHeartRate

/// One column of an exported table, with the words that docs/use/data.md has for it.
public struct ExportColumn: Sendable, Hashable {
    /// The column's name in the first line.
    public let name: String
    /// Its type, such as `UUID`.
    public let type: String
    /// Its unit or form, such as `ms`; empty without one.
    public let unit: String
    /// Its meaning, and that of an empty field.
    public let meaning: String

    /// A column of a table.
    public init(_ name: String, _ type: String, _ unit: String, _ meaning: String) {
        self.name = name
        self.type = type
        self.unit = unit
        self.meaning = meaning
    }
}

extension ExportColumn {
    /// Of `queue export --format csv`.
    public static let samples = [
        ExportColumn(
            "uuid", "UUID", "", "the sample's identity, the same in every export and at an exchange"
        ),
        ExportColumn(
            "time", "time", "UTC, µs",
            "when the strap sent it; empty while the clock of that boot is not trusted"),
        ExportColumn(
            "time_uncertainty_ms", "integer", "ms",
            "how far `time` may be wrong; empty without a `time`, and where nobody knows"),
        ExportColumn("boot", "text", "", "the boot of the machine, by the kernel's boot ID"),
        ExportColumn(
            "uptime_us", "integer", "µs",
            "the same instant as time since that boot, standby included"),
        ExportColumn("sensor", "text", "", "the strap's Bluetooth address"),
        ExportColumn(
            "assignment", "integer", "",
            "which wearing of the strap by one patient; unique in one store"),
        ExportColumn(
            "enrollment", "text", "", "the enrollment that delivers it; empty without one"),
        ExportColumn(
            "patient", "text", "", "the patient's number at the exchange; empty while there is none"
        ),
        ExportColumn(
            "bpm", "integer", "beats per minute",
            "the strap's own rate, 0 where it found none; empty for a frame that cannot be decoded"),
        ExportColumn(
            "rr_1024", "integers", "1/1024 s",
            "RR intervals of the frame, oldest first, with spaces between; empty where it has none"),
        ExportColumn(
            "flags", "names", "",
            "what is doubtful about it, with spaces between; empty if nothing is"),
        ExportColumn("frame", "hexadecimal", "", "the bytes that the strap sent"),
        ExportColumn(
            "state", "name", "",
            "`pending` (waits), `held`, `delivered`, `dropped` or `dead`, at its enrollment"),
        ExportColumn(
            "further", "pairs", "",
            "the same at further destinations, as `NAME=STATE` with spaces between"),
    ]

    /// Of `queue export --beats`.
    public static let beats = [
        ExportColumn(
            "time", "time", "UTC, ms",
            "when the beat was; empty while the clock of that boot is not trusted"),
        ExportColumn("rr_ms", "decimal", "ms", "the interval that ends with this beat"),
        ExportColumn("uncertainty_ms", "integer", "ms", "how far `time` may be wrong"),
        ExportColumn("strap", "text", "", "the strap's Bluetooth address"),
        ExportColumn(
            "segment", "integer", "",
            "one assignment in one run on one UTC day: beats are chained within it"),
        ExportColumn(
            "lost_beats", "integer", "beats",
            "beats lost since the segment began, as estimated by then; it may fall as later frames tell more"
        ),
        ExportColumn(
            "flags", "names", "",
            "`break` where the interval does not follow the one before, then the flags of the sample"
        ),
    ]

    /// Of `queue export --gaps`.
    public static let gaps = [
        ExportColumn("sensor", "text", "", "the strap's Bluetooth address"),
        ExportColumn("assignment", "integer", "", "as in the samples"),
        ExportColumn("patient", "text", "", "as in the samples"),
        ExportColumn(
            "cause", "name", "",
            "why there is no heart rate: a cause that [Coverage](#coverage) has a column for"),
        ExportColumn(
            "from", "time", "UTC, µs",
            "where it begins; empty while the clock of that boot is not trusted"),
        ExportColumn(
            "until", "time", "UTC, µs", "where it ends; empty while it goes on, and as for `from`"),
        ExportColumn(
            "seconds", "decimal", "s",
            "its length, so far if it goes on; empty for `clock-unknown`, whose length nobody knows"
        ),
        ExportColumn("open", "boolean", "", "`true` if it goes on, otherwise `false`"),
    ]

    /// Of `queue export --coverage`; after these comes a column for each cause of a gap.
    public static let coverage =
        [
            ExportColumn("sensor", "text", "", "the strap's Bluetooth address"),
            ExportColumn("patient", "text", "", "as in the samples"),
            ExportColumn("day", "date", "UTC", "the day, from midnight to midnight UTC"),
        ] + coverageFigures

    /// How much of a day there is data for, for every table of coverage.
    public static let coverageFigures =
        [
            ExportColumn("percent", "decimal", "%", "`covered_seconds` of `expected_seconds`"),
            ExportColumn(
                "expected_seconds", "decimal", "s",
                "time of the day in which the strap was assigned, up to now: a whole day has 86400"),
            ExportColumn("covered_seconds", "decimal", "s", "time of it that has a heart rate"),
            ExportColumn(
                "longest_gap_seconds", "decimal", "s",
                "the longest time without a heart rate, whatever its causes"),
        ]
        + GapCause.allCases.map {
            ExportColumn(
                "\($0.rawValue)_seconds", "decimal", "s", "time without a heart rate: \($0.meaning)"
            )
        }

    /// The meaning of each flag of a sample.
    public static let flags: [(name: String, meaning: String)] = [
        ("contactLost", "the strap says that it does not touch skin; its rate is of nothing"),
        ("zeroRate", "the rate is 0: the strap found no pulse"),
        (
            "outOfRange",
            "the rate is outside \(Plausibility.plausibleBPM.lowerBound) to "
                + "\(Plausibility.plausibleBPM.upperBound) beats per minute"
        ),
        (
            "frozenRR",
            "the RR intervals have been the same for more than \(PlausibilityJudge.sameFramesMax) "
                + "frames: the strap may repeat itself"
        ),
        (
            "impossibleJump",
            "the rate is further from the one before than a heart gets in that time"
        ),
        ("estimatedTime", "`time` is rebuilt, since frames came late and at once"),
        ("uncertainTime", "`time` may be wrong by more than 5 s"),
        ("possibleCopy", "it may be a copy of the frame before, or stand for two like it"),
    ]

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
    public static func header(_ columns: [ExportColumn]) -> String {
        columns.map(\.name).joined(separator: ",")
    }
}
