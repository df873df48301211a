import Basics
import Testing

@testable import Uplink

@Suite struct BundleAnswerTests {
    private static func answer(_ entries: [String]) -> [UInt8] {
        let list = entries.joined(separator: ",")
        return Array(
            #"{"resourceType":"Bundle","type":"batch-response","entry":[\#(list)]}"#.utf8)
    }

    private static let stored =
        #"{"resource":{"resourceType":"Resource","id":"60011"},"response":{"status":"201 Created"}}"#

    private static func refused(_ status: String, _ diagnostics: String) -> String {
        """
        {"response":{"status":"\(status)","outcome":{"resourceType":"OperationOutcome",\
        "issue":[{"severity":"error","code":"processing","diagnostics":"\(diagnostics)"}]}}}
        """
    }

    @Test func entriesAreReadInOrder() throws {
        let body = Self.answer([
            Self.stored, Self.refused("409 Conflict", "Identifier already exists: x"),
            Self.refused("422 Unprocessable Entity", "connection already closed"),
        ])
        let entries = try BundleAnswer(body, count: 3).entries
        #expect(entries.map(\.verdict) == [.stored, .storedBefore, .unclear])
        #expect(entries.map(\.status) == [201, 409, 422])
    }

    @Test(
        "an entry that is not as it should be is unclear and spoils no other",
        arguments: [
            "{}", "null", "[]", "17", #"{"response":{}}"#, #"{"response":{"status":201}}"#,
            #"{"response":{"status":""}}"#, #"{"response":{"status":"2010 Created"}}"#,
            #"{"response":{"status":" 20 Created"}}"#, #"{"response":{"status":"-01"}}"#,
            #"{"response":null}"#,
        ])
    func oddEntry(entry: String) throws {
        let entries = try BundleAnswer(Self.answer([entry, Self.stored]), count: 2).entries
        #expect(entries.map(\.verdict) == [.unclear, .stored])
    }

    @Test func anOddOutcomeDoesNotHideTheStatus() throws {
        let body = Self.answer([#"{"response":{"status":"201 Created","outcome":{"issue":7}}}"#])
        #expect(try BundleAnswer(body, count: 1).entries.map(\.verdict) == [.stored])
    }

    @Test("a miscounted answer says nothing of any entry", arguments: [0, 1, 3, 100])
    func miscounted(count: Int) {
        #expect(throws: BundleAnswer.Fault.miscounted) {
            try BundleAnswer(Self.answer([Self.stored, Self.stored]), count: count)
        }
    }

    @Test(
        "what is no batch-response is not taken for one",
        arguments: [
            "{}", "[]", "null", "201", #"{"resourceType":"Bundle","type":"batch","entry":[]}"#,
            #"{"resourceType":"OperationOutcome","type":"batch-response","entry":[]}"#,
            #"{"resourceType":"Bundle","type":"batch-response"}"#,
            #"{"resourceType":"Bundle","type":"batch-response","entry":{}}"#,
        ])
    func otherJSON(text: String) {
        #expect(throws: BundleAnswer.Fault.notABatchResponse) {
            try BundleAnswer(Array(text.utf8), count: 0)
        }
    }

    @Test func anyPrefixOfAnAnswerIsNotJSON() {
        let whole = Self.answer([Self.stored, Self.refused("409 Conflict", "x")])
        for length in 0..<whole.count {
            #expect(throws: BundleAnswer.Fault.self) {
                try BundleAnswer(Array(whole[..<length]), count: 2)
            }
        }
    }

    @Test func pagesNestingAndBytesAreNotJSON() {
        let nested = Array(repeating: UInt8(ascii: "["), count: 200_000)
        for body in [Array("<html>".utf8), nested, [0xFF, 0xFE, 0x00], []] {
            #expect(throws: BundleAnswer.Fault.notJSON) { try BundleAnswer(body, count: 1) }
        }
    }

    @Test func longDiagnosticsAreJudgedWholeAndKeptShort() throws {
        let dump = String(repeating: "x", count: 5000) + " Failed validating 'type' in schema"
        let entries = try BundleAnswer(Self.answer([Self.refused("422 x", dump)]), count: 1).entries
        #expect(entries[0].verdict == .refused)
        #expect(entries[0].diagnostics.count == 200)
    }

    @Test func randomChangesNeverMakeMoreOfAnAnswerThanItSays() {
        var random = SeededRandom(seed: 99)
        let whole = Self.answer([Self.stored, Self.refused("422 x", "connection already closed")])
        for _ in 0..<3000 {
            var body = whole
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                body[Int.random(in: body.indices, using: &random)] =
                    UInt8.random(in: 0...255, using: &random)
            }
            if let answer = try? BundleAnswer(body, count: 2) {
                #expect(answer.entries.count == 2)
                #expect(answer.entries[1].verdict != .stored)
            }
        }
    }
}
