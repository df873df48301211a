import Foundation
import Testing

@testable import Health

/// docs/operations.md has one row for each name, made of the name's own words.
@Suite struct HealthDocumentTests {
    private static let document = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "docs/operations.md")
    private static let head = "| name | severity | means | do |\n|---|---|---|---|\n"

    /// `WRITE_DOCS=1 swift test --filter HealthDocumentTests` writes the table anew.
    @Test func theTableOfHealthItemsIsThatOfTheProgram() throws {
        let table = HealthName.allCases.map { name in
            let cells = ["`\(name.rawValue)`", name.severity.rawValue, name.meaning, name.remedy]
            return "| \(cells.map { $0.replacing("|", with: "\\|") }.joined(separator: " | ")) |\n"
        }.joined()
        var text = try String(contentsOf: Self.document, encoding: .utf8)
        let begin = try #require(text.range(of: Self.head)).upperBound
        let end = try #require(text[begin...].range(of: "\n\n")?.lowerBound)
        if ProcessInfo.processInfo.environment["WRITE_DOCS"] == "1" {
            text.replaceSubrange(begin..<end, with: table.dropLast())
            try text.write(to: Self.document, atomically: true, encoding: .utf8)
        } else {
            #expect(text[begin..<end] == table.dropLast())
        }
    }
}
