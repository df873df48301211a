import Testbed
import Testing

@Suite struct CommandTests {
    /// More than a pipe holds.
    private static let longInput = String(repeating: "0123456789abcdef", count: 1 << 16)

    @Test func aProgramThatEndsWithoutReadingItsInputEndsNothingElse() async throws {
        for _ in 0..<20 {
            let outcome = try await Command.run("/bin/true", [], input: Self.longInput)
            #expect(outcome.status == 0)
        }
    }

    @Test func aProgramReadsItsWholeInput() async throws {
        let outcome = try await Command.run("/usr/bin/wc", ["-c"], input: Self.longInput)
        #expect(outcome.output.contains(String(Self.longInput.utf8.count)))
        let nothing = try await Command.run("/usr/bin/wc", ["-c"])
        #expect(nothing.output.hasPrefix("0"))
    }
}
