import Basics
import Foundation
import Testbed
import Testing

@testable import Uplink

@Suite struct ForeignJSONTests {
    private struct Document: Decodable {
        struct Element: Decodable, Sendable {
            @IfAny var name: String?
        }
        @IfAny var text: String?
        @IfAny var number: Int64?
        @IfAny var truth: Bool?
        @IfAny var list: [IfAny<Element>]?
    }

    @Test(arguments: [
        #"{"text":7,"number":8}"#, #"{"text":null,"number":8,"list":{}}"#,
        #"{"number":8,"truth":"yes"}"#,
        #"{"text":[{"text":"x"}],"number":8.0,"more":[[[]]]}"#, #"{"text":"\uD83D","number":8}"#,
    ]) func aMemberOfTheWrongTypeLeavesTheOthersReadable(text: String) throws {
        let document = try Document(json: Array(text.utf8))
        #expect(document.number == 8)
        #expect(document.text == nil && document.truth == nil && document.list == nil)
    }

    @Test func anElementThatIsNoObjectKeepsItsPlace() throws {
        let document = try Document(
            json: Array(#"{"list":[{"name":"a"},7,null,{"name":8},{}]}"#.utf8))
        #expect(document.list?.map { $0.wrappedValue?.name } == ["a", nil, nil, nil, nil])
    }

    @Test(arguments: ["", "{", "[1 2]", "{a:1}", "tru", "\"", "[] []", "'a'", "\u{0}"])
    func textThatIsNotJSONIsRefused(text: String) {
        #expect(throws: (any Error).self) { try Document(json: Array(text.utf8)) }
    }

    @Test func nestingBeyondMeasureIsRefusedAndDoesNotTrap() {
        for depth in [600, 100_000] {
            let bytes =
                [UInt8](repeating: 0x5B, count: depth) + [UInt8](repeating: 0x5D, count: depth)
            #expect(throws: (any Error).self) { try Document(json: bytes) }
            #expect(throws: (any Error).self) { try String(json: bytes) }
        }
    }

    @Test func damagedAnswersAreReadWithoutATrap() {
        var random = SeededRandom(seed: 7)
        let whole = Array(
            #"{"v":1,"resourceType":"Bundle","type":"batch-response","entry":[{"response":{"status":"201"}}],"error":{"message":"é"}}"#
                .utf8)
        var read = 0
        for _ in 0..<5000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let at = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[at] = UInt8.random(in: 0...0xFF, using: &random)
                case 1: bytes.remove(at: at)
                default: bytes.insert(whole[at % whole.count], at: at)
                }
            }
            if (try? BundleAnswer(bytes, count: 1)) != nil { read += 1 }
            _ = RelayAnswer(reading: bytes)
            _ = try? RelayRequest(reading: bytes)
            _ = OperationOutcome.diagnostics(bytes)
        }
        #expect(read > 500)
    }
}
