import Basics
import Testing

@testable import Uplink

@Suite struct NKeyTests {
    /// From the documentation of nkeys; its public key is what `nk -inkey seed -pubout` says.
    private static let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
    private static let publicKey = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

    @Test func aSeedHasThePublicKeyThatOtherProgramsSay() throws {
        let key = try #require(NKey(Self.seed))
        #expect(key.publicKey == Self.publicKey)
        #expect(key.seedText.revealed == Self.seed)
        #expect(key.signature(of: Array("question".utf8))?.count == 64)
        #expect(key.signature(of: []) != key.signature(of: [1]))
    }

    @Test func aNewKeyIsReadAgain() throws {
        let key = try #require(NKey.make())
        let other = try #require(NKey.make())
        #expect(key != other && key.publicKey.hasPrefix("U") && key.publicKey.count == 56)
        let text = key.seedText.revealed
        #expect(text.hasPrefix("SU") && text.count == 58)
        #expect(NKey(text) == key)
    }

    @Test func aKeyPrintsNoSeed() throws {
        let key = try #require(NKey(Self.seed))
        var dumped = ""
        dump(key, to: &dumped)
        for text in ["\(key)", String(reflecting: key), dumped] { #expect(!text.contains("SUAC")) }
    }

    @Test(
        arguments: [
            "", "SU", seed.lowercased(), String(seed.dropLast()), seed + "A", publicKey,
            seed.replacing("SUAC", with: "SAAC"), seed.replacing("YYCU3VY", with: "YYCU3VZ"),
            seed.replacing("HUDX", with: "HUDY"), String(repeating: "S", count: 10_000),
            "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3é",
        ])
    func whatIsNoSeedOrWasMistypedIsNone(text: String) {
        #expect(NKey(text) == nil)
    }
}
