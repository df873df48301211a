import Testing

@testable import EdgeGateway

@Suite struct YAMLTextTests {
    /// A few hundred levels ended the program by SIGSEGV, without a word.
    @Test(arguments: [
        String(repeating: "{a: ", count: 5_000), String(repeating: "[", count: 900),
        String(repeating: "{a:\n", count: 5_000), String(repeating: "- ", count: 900),
        String(repeating: "? ", count: 900),
        (0..<400).map { String(repeating: " ", count: $0) + "a:\n" }.joined(),
        "a: " + String(repeating: "[", count: 16) + String(repeating: "]", count: 16),
    ])
    func aTextOfTooManyLevelsIsRefused(text: String) {
        let fault = #expect(throws: YAMLText.Fault.self) { _ = try YAMLText.tree(of: text) }
        #expect(fault?.description.contains("more than 16 levels") == true)
    }

    @Test func whatHasSixteenLevelsIsRead() throws {
        let text = String(repeating: "[", count: 16) + String(repeating: "]", count: 16)
        #expect(try YAMLText.tree(of: text) != nil)
        let many = (0..<1_000).map { "- {a: [\($0)]}\n" }.joined()
        #expect(try YAMLText.tree(of: many) != nil)
    }

    /// Ten lines of aliases, each twice the one before, are a tree of a thousand ends, and thirty of a milliard.
    @Test func anAliasIsRefusedWithItsLine() {
        let bomb =
            "a0: &a0 x\n" + (1...30).map { "a\($0): &a\($0) [*a\($0 - 1), *a\($0 - 1)]\n" }.joined()
        let chain = "- &a0 x\n" + (1...9_000).map { "- &a\($0) [*a\($0 - 1)]\n" }.joined()
        for text in [bomb, chain] {
            let fault = #expect(throws: YAMLText.Fault.self) { _ = try YAMLText.tree(of: text) }
            #expect(fault?.line == 2 && fault?.description.contains("alias") == true)
        }
    }

    @Test func whatIsNoYAMLIsNotQuoted() {
        let fault = #expect(throws: YAMLText.Fault.self) {
            _ = try YAMLText.tree(of: "proxy: \"http://user:hush@proxy\nstate: {")
        }
        #expect(fault?.line != nil && fault?.description.contains("hush") == false)
    }
}
