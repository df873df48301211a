import Foundation
import Testbed
import Testing

/// What commands print in the documents is what they print.
///
/// `WRITE_DOCS=1 Tests/run --filter DocumentOutputTests` writes it there.
@Suite(.serialized) struct DocumentOutputTests {
    private static let technician = "docs/use/technician.md"

    @Test func theTechniciansPageShowsWhatTheCommandsPrint() async throws {
        try await TestWorld.run { fixture in
            let link = await fixture.exchange.invite(patient: 40001)
            let strap = TestWorld.addresses[0]
            let enrolled = try await fixture.command("enroll", "-", input: link)
            try show("$ edge-gateway enroll -", enrolled)
            try show("$ edge-gateway scan", try await fixture.command("scan", "--for", "2s"))
            let paired = try await fixture.command("pair", strap, "--name", "bed 4")
            try show("$ edge-gateway pair \(strap) --name \"bed 4\"", paired)
            try await fixture.eventually("samples") { $0.balance.stored > 10 && $0.well }
            _ = try await fixture.settle()
            try show("$ edge-gateway status", try await fixture.command("status"))
        }
    }

    /// Compares the lines below `command` in the page with the output, or replaces them.
    private func show(_ command: String, _ output: String) throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: Self.technician)
        var lines = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n")
        let begin = try #require(
            lines.firstIndex { $0.drop { $0 == " " }.hasPrefix(command) }, "\(command)")
        let indent = String(lines[begin].prefix { $0 == " " })
        let end = try #require(
            lines[(begin + 1)...].firstIndex {
                let line = $0.drop { $0 == " " }
                return line.hasPrefix("$ ") || line.hasPrefix("```")
            })
        let printed = output.replacingOccurrences(
            of: #"https?://127\.0\.0\.1:\d+"#, with: "https://exchange.example",
            options: .regularExpression
        ).split(separator: "\n", omittingEmptySubsequences: false).map {
            $0.isEmpty ? "" : indent + $0
        }.reversed().drop { $0.isEmpty }.reversed()
        if ProcessInfo.processInfo.environment["WRITE_DOCS"] == "1" {
            lines.replaceSubrange((begin + 1)..<end, with: printed)
            try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
        } else {
            #expect(
                lines[(begin + 1)..<end].map(words) == printed.map(words),
                "\(Self.technician): WRITE_DOCS=1 Tests/run --filter DocumentOutputTests writes it")
        }
    }

    /// A line with its numbers, and the width of its columns, left out: each run has others.
    private func words(_ line: String) -> String {
        line.replacingOccurrences(of: #"\d+ (min|h)\b"#, with: "0 s", options: .regularExpression)
            .replacingOccurrences(of: #"\d+(\.\d+)?"#, with: "N", options: .regularExpression)
            .replacingOccurrences(of: " +", with: " ", options: .regularExpression)
    }
}
