import Foundation
import Testing

@testable import Uplink

@Suite struct SigningKeyTests {
    @Test func aKeyIsTheSameWhenItIsReadAgainAndShowsNothingPrivate() throws {
        let key = try #require(SigningKey.make())
        #expect(SigningKey(key.text.revealed) == key)
        let secret = key.text.revealed.prefix(60)
        var shown = ""
        dump(key, to: &shown)
        #expect(!"\(key)\(shown)\(key.keySet)".contains(secret))
        #expect(key.keySet.contains(#""kty":"RSA""#) && key.keySet.contains(key.name))
        #expect(!key.keySet.contains(#""d":"#))
        // Too long for a setting would be of no use (``SettingValues/bytesMax``).
        #expect(key.text.revealed.utf8.count <= SettingValues.bytesMax)
    }

    @Test(arguments: ["", "MIIB", "hush", "not base64!", "AAAA"])
    func whatIsNoKeyIsNone(text: String) {
        #expect(SigningKey(text) == nil)
    }

    @Test func aTokenHasThreePartsAndNamesItsKey() throws {
        let key = try #require(SigningKey.make())
        let token = try #require(key.token(Array(#"{"iss":"gw"}"#.utf8))).revealed
        let parts = token.split(separator: ".")
        #expect(parts.count == 3 && !token.contains("=") && !token.contains("+"))
        #expect(parts[1] == "eyJpc3MiOiJndyJ9")
        #expect(parts[2].utf8.count == 512)
        let header = try #require(
            Data(
                base64Encoded: parts[0].replacing("-", with: "+").replacing("_", with: "/")
                    + String(repeating: "=", count: (4 - parts[0].count % 4) % 4)))
        #expect(String(decoding: header, as: UTF8.self).contains(key.name))
    }
}
