import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct TokenDocumentTests {
    private static func pair(_ body: String, status: Int = 200) -> TokenPair? {
        TokenDocument.pair(
            in: HTTPAnswer(status: status, body: Array(body.utf8)), granted: .epoch,
            lifetimeDefault: .seconds(7))
    }

    /// A lifetime as text lost the pair: the server had used up the old refresh token by then.
    @Test(
        "a lifetime is read however a server writes it, and costs no pair if it cannot be",
        arguments: [
            ("3600", 3600), (#""3600""#, 3600), (#"" 3600 ""#, 3600), ("3600.9", 3600),
            (#""3600.0""#, 3600), ("3.6e3", 3600), ("1209600", 1_209_600), ("5", 60), ("0", 7),
            ("-1", 7), ("null", 7), ("true", 7), ("[]", 7), ("{}", 7), (#""""#, 7),
            (#""soon""#, 7), (#""nan""#, 7), (#""inf""#, 7), (#""1e400""#, 7), ("1e400", 7),
            ("1e300", 315_360_000), ("99999999999999999999", 315_360_000),
        ])
    func lifetimes(json: String, seconds: Int) {
        let pair = Self.pair(
            #"{"access_token":"A","refresh_token":"R","token_type":"bEARER","expires_in":\#(json)}"#
        )
        #expect(pair?.lifetime == .seconds(seconds))
        #expect(pair?.access == Secret("A"))
        #expect(pair?.refresh == Secret("R"))
    }

    @Test(
        "whatever else is in it, an answer with an access token grants a pair",
        arguments: [
            (#"{"access_token":"A"}"#, nil),
            (#"{"access_token":"A","refresh_token":null,"scope":null}"#, nil),
            (#"{"access_token":"A","refresh_token":""}"#, nil),
            (#"{"access_token":"A","refresh_token":7}"#, nil),
            (#"{"access_token":"A","refresh_token":{"value":"R"}}"#, nil),
            (#"{"access_token":"A","refresh_token":"R 1ü"}"#, "R 1ü"),
            (
                #"{"token_type":null,"scope":["a"],"user":{"id":1},"refresh_token":"R","access_token":"A"}"#,
                "R"
            ),
            ("\u{FEFF}{\"access_token\":\"A\",\"refresh_token\":\"R\"}", "R"),
            ("\r\n {\"access_token\":\"A\",\"refresh_token\":\"R\"}\n", "R"),
        ] as [(String, String?)])
    func members(json: String, refresh: String?) {
        for status in [200, 201] {
            let pair = Self.pair(json, status: status)
            #expect(pair?.access == Secret("A"))
            #expect(pair?.refresh == refresh.map { Secret($0) })
        }
    }

    @Test func aLongSignedTokenIsTakenAndNothingThatNoHeaderCanHold() {
        let long = String(repeating: "a", count: 9_000)
        #expect(Self.pair(#"{"access_token":"\#(long)"}"#)?.access == Secret(long))
        for text in ["", "a b", #"a\r\nX: y"#, String(repeating: "a", count: 20_000)] {
            #expect(Self.pair(#"{"access_token":"\#(text)"}"#) == nil)
        }
        #expect(Self.pair(#"{"access_token":"A"}"#, status: 400) == nil)
        #expect(Self.pair(#"{"access_token":null}"#) == nil)
        #expect(Self.pair("[]") == nil)
    }

    /// RFC 6749 §6: a server that issues no new refresh token leaves the old one in force.
    @Test func aRefreshWithoutANewRefreshTokenKeepsTheOldOne() async throws {
        let scratch = try Scratch()
        let clock = StillClock()
        let transport = ScriptedTransport { _ in
            .json(200, #"{"access_token":"NEW","refresh_token":null,"expires_in":"3600"}"#)
        }
        let file = TokenFile(path: scratch.path + "/tokens.json")
        let record = TokenRecord(
            origin: .example, clientID: "gw", credential: .none,
            pair: TokenPair(
                access: Secret("OLD"), refresh: Secret("OLDREFRESH"),
                granted: clock.read().wall, lifetime: .seconds(1_209_600)))
        let source = RenewingTokens(
            record: record, file: file, transport: transport, clock: clock, logger: .quiet)
        await source.refused(try await source.token())
        #expect(try await source.token().secret == Secret("NEW"))
        let stored = try file.load().pair
        #expect(stored.access == Secret("NEW"))
        #expect(stored.refresh == Secret("OLDREFRESH"))
        #expect(stored.lifetime == .seconds(3600))
    }

    @Test func theOtherIssuersTakeTheSame() async throws {
        let accounts = ScriptedTransport { request in
            .json(
                200,
                #"{"access_token":"A","idToken":"h.eyJzdWIiOiJ1c2VyMSJ9.s","expires_in":"60.5","#
                    + #""expiresIn":3600}"#)
        }
        let clock = StillClock()
        let url = try #require(BaseURL("https://p.example"))
        let goTrue = GoTrueClient(transport: accounts, clock: clock, url: url, key: nil)
        let firebase = FirebaseAccounts(
            transport: accounts, clock: clock, emulator: nil, key: Secret("k"))
        for issuer in [goTrue, firebase] as [any TokenIssuer] {
            for outcome in [
                await issuer.refresh(Secret("r"), clientID: "c"),
                await issuer.mint(clientID: "c", secret: Secret("s")),
            ] {
                guard case .granted(let pair) = outcome else {
                    Issue.record("not granted")
                    continue
                }
                #expect(pair.refresh == nil)
            }
        }
    }
}
