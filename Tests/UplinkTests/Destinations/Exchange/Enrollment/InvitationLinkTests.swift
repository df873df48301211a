import Testing
import Uplink

@Suite struct InvitationLinkTests {
    static let token = "I2HnwcSqOsX2qkCDZouhiCAtL6K2QiYj"

    @Test(
        "a token link is found in path, query and fragment, encoded or not",
        arguments: [
            ("https://gateway.example/enroll/127.0.0.1%3A8000_\(token)", "127.0.0.1:8000"),
            ("https://commonhealth.tcp.org?invitation=127.0.0.1%3A8000_\(token)", "127.0.0.1:8000"),
            ("https://app.tcp.org/invitation/jhe.tcp.org_\(token)", "jhe.tcp.org"),
            ("https://app.tcp.org/#jhe.tcp.org_\(token)", "jhe.tcp.org"),
            (
                "https://app.tcp.org/#/invite?code=jhe.tcp.org_\(token)&utm_source=mail",
                "jhe.tcp.org"
            ),
            ("jhe.tcp.org_\(token)", "jhe.tcp.org"),
            ("  jhe.tcp.org_\(token)\n", "jhe.tcp.org"),
            ("https%3A%2F%2Fapp.tcp.org%2Fjhe.tcp.org%3A8443_\(token)", "jhe.tcp.org:8443"),
            ("https://x.org/my_host.tcp.org_\(token)", "my_host.tcp.org"),
            ("carex://enroll/[::1]:8000_\(token)", "[::1]:8000"),
        ])
    func tokenLink(text: String, authority: String) throws {
        #expect(
            try InvitationLink(text) == .token(authority: authority, token: Secret(Self.token)))
    }

    @Test("older links with client, code and verifier are read, the verifier being the rest")
    func prefilled() throws {
        let link = try InvitationLink("https://x.org/jhe.org%3A8000~client1~CODE~ver~if_ier.9-")
        #expect(
            link
                == .prefilled(
                    authority: "jhe.org:8000", clientID: "client1", code: Secret("CODE"),
                    verifier: Secret("ver~if_ier.9-")))
    }

    @Test(
        "the oldest links are a host, which may be missing, and a code",
        arguments: [
            ("https://play.example/store?referrer=cloud_sharing_code=jhe.org|CODE", "jhe.org"),
            ("https://play.example/store?referrer=cloud_sharing_code%3Djhe.org%7CCODE", "jhe.org"),
            ("jhe.org~CODE", "jhe.org"),
            ("https://x.org/?c=|CODE", nil),
            ("~CODE", nil),
        ] as [(String, String?)])
    func bare(text: String, authority: String?) throws {
        #expect(try InvitationLink(text) == .bare(authority: authority, code: Secret("CODE")))
    }

    @Test(
        "anything else is no link",
        arguments: [
            "https://app.tcp.org/invitation/", "jhe.org_short", "_\(token)", "jhe.org_\(token)x",
            "jhe.org_\(token.dropLast())-", "a b_\(token)", "jhe.org:99999_\(token)",
            "jhe.org~client~CODE~", "jhe.org|CODE|", "jhe.org~a~b", "%", "💓",
        ])
    func unrecognized(text: String) {
        #expect(throws: InvitationLink.Fault.unrecognized) { try InvitationLink(text) }
    }

    @Test func emptyAndEndlessTextsAreToldApart() {
        #expect(throws: InvitationLink.Fault.empty) { try InvitationLink(" \n") }
        #expect(throws: InvitationLink.Fault.tooLong) {
            try InvitationLink(String(repeating: "x", count: InvitationLink.lengthMax + 1))
        }
    }

    @Test func linksCarryNoSchemeSoHTTPSIsAssumedSaveForLoopback() throws {
        let far = try InvitationLink("jhe.org_\(Self.token)")
        let near = try InvitationLink("127.0.0.1%3A8000_\(Self.token)")
        #expect(far.origin(plainHTTP: .loopback)?.description == "https://jhe.org")
        #expect(far.origin(plainHTTP: .allowed)?.description == "http://jhe.org")
        #expect(near.origin(plainHTTP: .loopback)?.description == "http://127.0.0.1:8000")
        #expect(near.origin(plainHTTP: .never)?.description == "https://127.0.0.1:8000")
    }

    @Test func aLinkPrintsWithoutItsSecrets() throws {
        for text in [
            "jhe.org_\(Self.token)", "jhe.org~client~CODECODE~VERIFIER", "jhe.org|CODECODE",
        ] {
            var dumped = ""
            dump(try InvitationLink(text), to: &dumped)
            let printed = "\(try InvitationLink(text))" + dumped
            #expect(!printed.contains(Self.token))
            #expect(!printed.contains("CODECODE") && !printed.contains("VERIFIER"))
        }
    }
}
