import Basics
import Foundation
import Testbed
import Testing

@testable import Uplink

@Suite struct JSONReaderTests {
    private static func string(_ text: String) throws -> String {
        try JSONReader.read(Array(text.utf8)) { reader throws(JSONReader.Fault) in
            try reader.string()
        }
    }

    private static func isJSON(_ bytes: [UInt8]) -> Bool {
        do {
            try JSONReader.read(bytes) { reader throws(JSONReader.Fault) in try reader.skip() }
            return true
        } catch {
            return false
        }
    }

    @Test(
        arguments: [
            ("[1,2,3]", [1, 2, 3]), ("[1,2,3,4,{},[5]]", [1, 2, 3]), ("[]", []),
            ("{\"a\":[1]}", nil),
            ("null", nil), ("[1,\"2\",3]", [1, 0, 3]),
        ] as [(String, [Int64]?)])
    func aListIsReadUpToItsLimitAndAnythingElseIsPassedOver(
        text: String, elements: [Int64]?
    ) throws {
        let list = try JSONReader.read(Array(text.utf8)) { reader throws(JSONReader.Fault) in
            try reader.listIfAny(atMost: 3) { reader throws(JSONReader.Fault) in
                try reader.integerIfAny() ?? 0
            }
        }
        #expect(list == elements)
    }

    @Test func stringsAreReadWithTheirEscapes() throws {
        #expect(try Self.string(#""""#).isEmpty)
        #expect(try Self.string(#" "plain" "#) == "plain")
        #expect(try Self.string(#""a\"b\\c\/d\b\f\n\r\t""#) == "a\"b\\c/d\u{8}\u{C}\n\r\t")
        #expect(try Self.string(#""\u00e9 \uD83D\uDE00 \u0041""#) == "é 😀 A")
        #expect(try Self.string("\"é 😀\"") == "é 😀")
        #expect(try Self.string(#""\uD83D""#) == "\u{FFFD}", "a lone surrogate")
    }

    @Test(
        "what is no JSON is refused",
        arguments: [
            "", " ", "{", "[1,]", "[1 2]", "{\"a\" 1}", "{\"a\":1,}", "{a:1}", "{1:2}", "tru",
            "nulll",
            "01", "-", "1.", ".5", "1e", "+1", "0x1", "NaN", "\"", "\"\\\"", "\"\\x\"", "\"\\u12\"",
            "\"\\u12g4\"", "\"a\nb\"", "[] []", "[]]", "'a'",
        ])
    func noJSON(text: String) {
        #expect(!Self.isJSON(Array(text.utf8)), "\(text)")
    }

    @Test(arguments: [
        "{}", "[]", "0", "-0.5e+10", "1E5", "true", "false", "null",
        " [ 1 , {\"a\" : [ ] } ]\r\n\t",
        "{\"a\":{\"a\":\"\\u0000\"}}",
    ]) func whatIsJSONIsRead(text: String) {
        #expect(Self.isJSON(Array(text.utf8)))
    }

    @Test func nestingBeyondMeasureIsRefusedAndDoesNotTrap() {
        func nested(_ depth: Int) -> [UInt8] {
            Array(String(repeating: "[", count: depth) + String(repeating: "]", count: depth))
                .map { $0.asciiValue ?? 0 }
        }
        #expect(Self.isJSON(nested(JSONReader.depthMax)))
        #expect(!Self.isJSON(nested(JSONReader.depthMax + 1)))
        #expect(!Self.isJSON(nested(100_000)))
    }

    @Test func bytesThatAreNoTextAreRefused() {
        #expect(!Self.isJSON([0x22, 0xFF, 0x22]))
        #expect(!Self.isJSON([0x22, 0xED, 0xA0, 0x80, 0x22]), "a surrogate in UTF-8")
        #expect(!Self.isJSON([0xEF, 0xBB, 0xBF, 0x30]), "a byte order mark")
    }

    /// Foundation is the judge of thousands of damaged documents.
    @Test func itTakesForJSONWhatFoundationDoes() {
        var random = SeededRandom(seed: 7)
        let whole = Array(
            #"{"a":[1,-2.5e3,"x\u00e9\n",true,null,{"b":{}}],"c":"é","d":[[],[0]]}"#.utf8)
        var taken = 0
        for _ in 0..<5000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let at = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[at] = UInt8.random(in: 0x20...0x7E, using: &random)
                case 1: bytes.remove(at: at)
                default: bytes.insert(whole[at % whole.count], at: at)
                }
            }
            let judge = try? JSONSerialization.jsonObject(
                with: Data(bytes), options: .fragmentsAllowed)
            let text = String(decoding: bytes, as: UTF8.self)
            if Self.isJSON(bytes) { taken += 1 }
            // Foundation winks at a comma behind the last element; RFC 8259 does not.
            let hasSpareComma = text.contains(",]") || text.contains(",}")
            #expect(Self.isJSON(bytes) == (judge != nil) || hasSpareComma, "\(text)")
        }
        #expect(taken > 500)
    }
}
