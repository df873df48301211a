import Foundation
import GATTHeartRate
import OfflineQueue
import Testing
import Uplink

@testable import EdgeGateway
@testable import Health

/// The tables and enumerations of the documents, and of the live page, are those of the program.
///
/// `WRITE_DOCS=1 swift test --filter DocumentTableTests` writes them.
@Suite(.serialized) struct DocumentTableTests {
    private static let operations = "docs/operate/operations.md"
    private static let api = "docs/api.yaml"
    private static let data = "docs/use/data.md"

    @Test func healthItemsAreInOperations() throws {
        try rows(
            HealthName.allCases.map {
                ["`\($0.rawValue)`", $0.severity.rawValue, $0.meaning, $0.remedy]
            },
            below: ["name", "severity", "means", "do"])
    }

    @Test func gapCausesAreInOperations() throws {
        try rows(
            GapCause.allCases.map { ["`\($0.rawValue)`", $0.meaning, $0.remedy] },
            below: ["cause", "means", "do"])
    }

    @Test func reasonsToHoldAreInOperations() throws {
        try rows(
            HoldReason.allCases.map { ["`\($0.rawValue)`", $0.meaning, $0.remedy] },
            below: ["reason", "means", "do"])
    }

    @Test func settingsAreInOperations() throws {
        try rows(
            SettingKey.table.map { key in
                [
                    "`\(key.name)`", key.kind.words,
                    key.fallback.isEmpty ? "" : "`\(key.fallback)`", key.help,
                ]
            },
            below: ["setting", "value", "default", "means"])
    }

    @Test(arguments: [
        ("## Samples\n", ExportColumn.samples), ("## Beats\n", ExportColumn.beats),
        ("## Gaps\n", ExportColumn.gaps), ("## Coverage\n", ExportColumn.coverage),
        ("## Coverage of a fleet\n", FleetCoverageTable.columns),
    ])
    func columnsOfExportsAreInData(heading: String, columns: [String]) throws {
        let rows = try Self.table("| column | type | unit | means |\n", after: heading)
        #expect(rows.map(\.first) == columns.map { "`\($0)`" })
        #expect(rows.allSatisfy { $0.count == 4 && !$0[1].isEmpty && !$0[3].isEmpty })
        for cause in GapCause.allCases {
            guard let row = rows.first(where: { $0[0] == "`\(cause.rawValue)_seconds`" }) else {
                continue
            }
            #expect(row[3] == "time without a heart rate: \(cause.meaning)")
        }
    }

    @Test func flagsAreInData() throws {
        let rows = try Self.table("| flag | number | means |\n", after: "### Flags\n")
        #expect(
            rows.map { $0.prefix(2) }
                == Plausibility.all.names.map { name in
                    ["`\(name)`", "\(Plausibility(name: name)?.rawValue ?? 0)"]
                })
        let text = rows.joined().joined(separator: "\n")
        let range = Plausibility.plausibleBPM
        #expect(text.contains("outside \(range.lowerBound) to \(range.upperBound) beats"))
        #expect(text.contains("more than \(PlausibilityJudge.sameFramesMax) frames"))
    }

    /// The cells of a table of the document about the data, by rows.
    private static func table(_ head: String, after heading: String) throws -> [[String]] {
        let text = try String(
            contentsOf: repositoryRoot.appending(path: data), encoding: .utf8)
        let begin = try #require(text.range(of: heading)?.upperBound)
        let table = try #require(text[begin...].range(of: head)?.upperBound)
        return text[table...].split(separator: "\n", omittingEmptySubsequences: false)
            .prefix { $0.hasPrefix("|") }.dropFirst()
            .map { line in
                line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false)
                    .map { $0.trimmingCharacters(in: .whitespaces) }
            }
    }

    /// What `history` prints is described by hand.
    @Test func fieldsOfHistoryAreInData() throws {
        let text = try String(
            contentsOf: repositoryRoot.appending(path: Self.data), encoding: .utf8)
        for name in ["history", "hours"] {
            let golden = try String(
                contentsOf: repositoryRoot.appending(
                    path: "Tests/EdgeGatewayTests/Golden/\(name).json"), encoding: .utf8)
            for match in golden.matches(of: #/"([^"]+)" :/#)
            where !["uploads", "more"].contains(match.output.1) {
                #expect(text.contains("`\(match.output.1)`"), "\(match.output.1) of \(name)")
            }
        }
    }

    @Test func gapCausesAreOnTheLivePage() throws {
        let causes = GapCause.allCases.map { "  '\($0.rawValue)': '\($0.meaning)',\n" }.joined()
        try text(
            causes, between: "const CAUSES = {\n", and: "};\n",
            of: "Sources/EdgeGateway/Live/Page/basics.js")
    }

    @Test func itemsThatSilenceEveryStrapAreOnTheLivePage() throws {
        let names = HealthName.allCases.filter { $0.explains == .everyStrap }
        try text(
            names.map { "  '\($0.rawValue)',\n" }.joined(),
            between: "const RADIO_ITEMS = new Set([\n", and: "]);\n",
            of: "Sources/EdgeGateway/Live/Page/need.js")
    }

    @Test func gapCausesAreInTheAPI() throws {
        try enumeration("GapCause", GapCause.allCases.map(\.rawValue))
    }

    @Test func reasonsToHoldAreInTheAPI() throws {
        try enumeration("HoldReason", HoldReason.allCases.map(\.rawValue))
    }

    @Test func healthNamesAreInTheAPI() throws {
        try enumeration("HealthName", HealthName.allCases.map(\.rawValue))
    }

    @Test func problemCodesAreInTheAPI() throws {
        try enumeration("ProblemCode", ProblemCode.allCases.map(\.rawValue))
    }

    /// The rows of a Markdown table, found by its head.
    private func rows(
        _ rows: [[String]], below head: [String], after place: String = "",
        of document: String = operations
    ) throws {
        let body = rows.map { cells in
            "| \(cells.map { $0.replacing("|", with: "\\|") }.joined(separator: " | ")) |\n"
        }
        let rule = String(repeating: "|---", count: head.count) + "|\n"
        try text(
            body.joined(), after: place,
            between: "| \(head.joined(separator: " | ")) |\n" + rule, and: "\n", of: document)
    }

    /// The values of a schema that is an enumeration.
    private func enumeration(_ schema: String, _ values: [String]) throws {
        var lines = ["       "]
        for value in values.map({ "\($0)," }) {
            if lines[lines.count - 1].count + 1 + value.count > 100 { lines.append("       ") }
            lines[lines.count - 1] += " \(value)"
        }
        try text(
            lines.joined(separator: "\n").dropLast() + "\n", after: "\n    \(schema):\n",
            between: "      enum: [\n", and: "      ]\n", of: Self.api)
    }

    /// Compares the text between two lines with `expected`, or replaces it.
    private func text(
        _ expected: String, after place: String = "", between head: String, and tail: String,
        of path: String
    ) throws {
        let file = repositoryRoot.appending(path: path)
        var text = try String(contentsOf: file, encoding: .utf8)
        let from =
            place.isEmpty
            ? text.startIndex : try #require(text.range(of: place), "\(path): \(place)").upperBound
        let begin = try #require(text[from...].range(of: head), "\(path): \(head)").upperBound
        let end = try #require(text[begin...].range(of: "\n" + tail)).upperBound
        let range = begin..<text.index(end, offsetBy: -tail.count)
        if ProcessInfo.processInfo.environment["WRITE_DOCS"] == "1" {
            text.replaceSubrange(range, with: expected)
            try text.write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(
                text[range] == expected,
                "\(path): WRITE_DOCS=1 swift test --filter DocumentTableTests writes it")
        }
    }
}

extension SettingKey.Kind {
    /// What may be given, for a table.
    fileprivate var words: String {
        switch self {
        case .text: "text"
        case .list: "a list, or text with commas between"
        case .integer(let range): "\(range.lowerBound) to \(range.upperBound)"
        case .flag: "true or false"
        case .choice(let names): names.joined(separator: ", ")
        case .choices(let names): "some of \(names.joined(separator: ",")), or none"
        }
    }
}
