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

    /// The gateway redeemed at the last host of the link, whatever stood before it.
    @Test(
        "a link with a second invitation in it is not redeemed anywhere",
        arguments: [
            "https://app.tcp.org/good.example_\(token)/evil.example_\(other)",
            "https://app.tcp.org/good.example_\(token)?next=evil.example_\(other)",
            "https://app.tcp.org/good.example_\(token)#evil.example_\(token)",
            "https://app.tcp.org/good.example_\(token)%2Fevil.example_\(other)",
            "https://app.tcp.org/?a=good.example_\(token)&b=evil.example~c~CODE~VERIFIER",
            "good.example_\(token)_evil.example_\(other)", "good.example_\(token):443_\(other)",
            "good.example_\(token).evil.example_\(other)",
            "https://x.org/?a=good.example|CODE&b=evil.example|CODE",
        ])
    func ambiguous(text: String) {
        #expect(throws: InvitationLink.Fault.ambiguous) { try InvitationLink(text) }
    }

    static let other = "0wYuXvhoyRfko9yFYl9inpBiNkHLVBMy"

    @Test(
        "what mails and documents put around a link does not belong to it",
        arguments: [
            "<https://app.tcp.org/jhe.tcp.org_\(token)>", "<jhe.tcp.org_\(token)>.",
            "<URL:https://app.tcp.org/jhe.tcp.org_\(token)>", "\"jhe.tcp.org_\(token)\"",
            "https://app.tcp.org/jhe.tcp.org_\(token).",
            "https://app.tcp.org/jhe.tcp.org_\(token),\n",
            "(see https://app.tcp.org/jhe.tcp.org_\(token)).",
            "[Join](https://app.tcp.org/jhe.tcp.org_\(token))",
            "\u{FEFF}jhe.tcp.org_\(token)\u{200B}\r\n",
            "https://app.tcp.org/jhe.tcp.org_\(token)?x=jhe.tcp.org_\(token)",
            "https://app.tcp.org/jhe.tcp.org_\(token)?utm_source=a~b",
        ])
    func wrappedInMarks(text: String) throws {
        #expect(
            try InvitationLink(text) == .token(authority: "jhe.tcp.org", token: Secret(Self.token)))
    }

    private static let microsoft = "https://eur01.safelinks.protection.outlook.com/?url="
    private static let tail =
        "&data=05%7C02%7Cuser%40clinic.example%7C0a1b2c3d4e5f60718293a4b5c6d7e8f9%7C0&sdata=x%3D&reserved=0"

    @Test(
        "a link of Microsoft's filter is unwrapped, with its port",
        arguments: [
            (
                microsoft + "https%3A%2F%2Fapp.tcp.org%2Finvitation%2Fjhe.tcp.org_\(token)" + tail,
                "jhe.tcp.org"
            ),
            (
                microsoft + "https%3A%2F%2Fapp.tcp.org%3Finvitation%3Djhe.tcp.org%253A8443_\(token)"
                    + tail, "jhe.tcp.org:8443"
            ),
            (
                "<" + microsoft + "https%3A%2F%2Fapp.tcp.org%2F127.0.0.1%253A8000_\(token)"
                    + tail.replacing("&", with: "&amp;") + ">.", "127.0.0.1:8000"
            ),
            (
                "https://statics.teams.cdn.office.net/evergreen-assets/safelinks/1/atp-safelinks.html"
                    + "?url=https%3A%2F%2Fapp.tcp.org%2Fjhe.tcp.org%253A8443_\(token)&locale=en",
                "jhe.tcp.org:8443"
            ),
            (
                microsoft
                    + "https%3A%2F%2Fgcc02.safelinks.protection.outlook.com%2F%3Furl%3Dhttps%253A%252F"
                    + "%252Fapp.tcp.org%252Fjhe.tcp.org%25253A8443_\(token)%26data%3Dx" + tail,
                "jhe.tcp.org:8443"
            ),
        ])
    func safeLinks(text: String, authority: String) throws {
        #expect(
            try InvitationLink(text) == .token(authority: authority, token: Secret(Self.token)))
    }

    @Test(
        "the links of other filters are refused by name",
        arguments: [
            (
                "https://urldefense.com/v3/__https://app.tcp.org/jhe.org_\(token)__;!!A!b$",
                "Proofpoint"
            ),
            (
                "https://urldefense.proofpoint.com/v2/url?u=https-3A__jhe.org-5F\(token)&d=D",
                "Proofpoint"
            ),
            (
                "https://linkprotect.cudasvc.com/url?a=https%3a%2f%2fx%2fjhe.org_\(token)&c=E",
                "Barracuda"
            ),
            ("https://protect-eu.mimecast.com/s/abc?domain=app.tcp.org", "Mimecast"),
            ("https://www.google.com/url?q=https://app.tcp.org/jhe.org_\(token)&sa=D", "Google"),
            (microsoft + "https%3A%2F%2Furldefense.com%2Fv3%2F__x__" + tail, "Proofpoint"),
            (microsoft.replacing("url=", with: "link=") + "x" + tail, "Microsoft"),
        ])
    func otherFilters(text: String, name: String) throws {
        let fault = #expect(throws: InvitationLink.Fault.self) { try InvitationLink(text) }
        guard case .wrapped? = fault else {
            Issue.record("\(fault.debugDescription)")
            return
        }
        #expect(fault?.description.contains(name) == true)
        #expect(fault?.advice.contains("browser") == true)
    }

    @Test(
        "a link that was cut by a line break is refused as that",
        arguments: [
            "https://app.tcp.org/jhe.org_\(token.prefix(9))\n\(token.dropFirst(9))",
            "https://app.tcp.org/jhe.org_\(token.prefix(9))=\r\n\(token.dropFirst(9))",
            "https://app.tcp.org/good.exa\n  mple_\(token)",
            "https://app.tcp.org/\njhe.org_\(token)",
            "jhe.org_\(token)\n\njhe.org_\(other)",
            microsoft + "https%3A%2F%2Fapp.tcp.org%2Fjhe.org\n_\(token)" + tail,
        ])
    func broken(text: String) {
        #expect(throws: InvitationLink.Fault.broken) { try InvitationLink(text) }
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
