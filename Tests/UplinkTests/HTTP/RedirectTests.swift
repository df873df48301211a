import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct RedirectTests {
    private static func redirect(_ location: String?, status: Int = 301) throws -> Redirect? {
        let fields = location.map { ["location": $0] } ?? [:]
        return Redirect(
            HTTPAnswer(status: status, fields: fields),
            of: try #require(Origin("https://a.example")))
    }

    @Test(
        "of a Location only the server is shown",
        arguments: [
            ("https://b.example:8443/x?token=hush#frag", "https://b.example:8443"),
            ("http://a.example/x", "http://a.example"), ("//b.example/x", "https://b.example"),
            ("/login?next=hush", "another path of its own"), ("login", "another path of its own"),
            ("", "another path of its own"), ("?x=https://b.example", "another path of its own"),
            ("https://a.example:443/x", "another path of its own"),
            ("https://me:hush@b.example/", "an address that it does not give"),
            ("javascript:hush", "an address that it does not give"),
            (nil, "an address that it does not give"),
        ] as [(String?, String)])
    func location(location: String?, place: String) throws {
        for status in [301, 302, 303, 307, 308] {
            let redirect = try #require(try Self.redirect(location, status: status))
            #expect("\(redirect)" == "answers HTTP \(status), a redirect to \(place)")
            #expect(!redirect.advice { "\($0)" }.contains("hush"))
        }
        #expect(try Self.redirect(location, status: 200) == nil)
        #expect(try Self.redirect(location, status: 404) == nil)
    }

    /// It was reported as "refuses every request of this form", without the address.
    @Test(arguments: ["influx", "webhook", "postgrest", "cloudcare"])
    func aDestinationThatRedirectsSaysWhereToAndWhatToSet(kind: String) async throws {
        let transport = ScriptedTransport { request in
            if request.target.contains("/token") {
                return .json(200, #"{"access_token":"A","refresh_token":"R","expires_in":3600}"#)
            }
            return .success(
                HTTPAnswer(
                    status: 308, contentType: "text/html",
                    fields: ["location": "https://new.example:8443/v2?key=hush"],
                    body: Array("<h1>Moved</h1>".utf8)))
        }
        let parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let made = try KindFixture.make(kind)
        let destination = made.make(parts)
        let point = KindFixture.point(.heartRate(bpm: 72, at: .epoch))
        #expect(await destination.deliver([point], alone: false) == .held(.moved, retryAt: nil))
        let fault = await destination.fault
        #expect(fault == "the server answers HTTP 308, a redirect to https://new.example:8443")
        #expect(await destination.faultAdvice?.contains("url=https://new.example:8443") == true)
        let problem = await #expect(throws: DestinationProblem.self) {
            _ = try await made.probe(parts)
        }
        #expect(problem?.message == fault)
        #expect(problem?.advice.contains("url=https://new.example:8443") == true)
    }

    @Test(
        "a token of the future is a matter of clocks",
        arguments: [
            (#"{"code":"PGRST303","message":"JWT issued at future"}"#, nil, -300),
            (#"{"message":"JWT not yet valid"}"#, nil, 7),
            (#"{"error":{"message":"Token used too early, check the clock"}}"#, nil, 0),
            (
                "{}",
                #"Bearer error="invalid_token", error_description="The token is not valid yet (nbf)""#,
                61
            ),
        ] as [(String, String?, Int64)])
    func clocks(body: String, header: String?, ahead: Int64) throws {
        // The time that StillClock has: 2026-11-18T12:26:40Z.
        let now = UTC(microseconds: 1_795_000_000_000_000)
        let date = now + .seconds(ahead)
        let clock = StillClock(wall: now)
        let fields = header.map { ["www-authenticate": $0] } ?? [:]
        let answer = HTTPAnswer(
            status: 401, contentType: "application/json", date: Self.httpDate(date), fields: fields,
            body: Array(body.utf8))
        let found = try #require(ClockDisagreement(answer, now: clock.read()))
        #expect(found.ahead == .seconds(ahead))
        let words = "\(found)"
        switch ahead {
        case 3...: #expect(words.contains("its clock is \(ahead) s ahead of this machine's"))
        case ..<(-2): #expect(words.contains("its clock is \(-ahead) s behind this machine's"))
        default: #expect(words.contains("what issues the tokens is ahead"))
        }
        let untrusted = StillClock(wall: now, isTrusted: false)
        #expect(ClockDisagreement(answer, now: untrusted.read())?.ahead == nil)
        let other = HTTPAnswer(
            status: 401, body: Array(#"{"message":"JWT expired"}"#.utf8))
        #expect(ClockDisagreement(other, now: clock.read()) == nil)
    }

    private static func httpDate(_ time: UTC) -> String {
        // All of 2026-11-18, a Wednesday.
        let seconds = time.microseconds / 1_000_000 % 86_400
        func two(_ number: Int64) -> String { (number < 10 ? "0" : "") + "\(number)" }
        return
            "Wed, 18 Nov 2026 \(two(seconds / 3600)):\(two(seconds / 60 % 60)):\(two(seconds % 60)) GMT"
    }

    /// It said "enroll again", which made a second enrollment and left the samples of the first where they were.
    @Test func whatWaitsGoesAlongWithAnExchangeThatHasMoved() throws {
        let redirect = try #require(try Self.redirect("https://b.example/x"))
        let advice = redirect.enrollAdvice
        #expect(advice.contains("enroll LINK --moved NAME"))
        #expect(advice.contains("--exchange https://b.example --moved NAME"))
    }

    /// It was "gives no access token; check the address, the network and the certificate".
    @Test(arguments: [
        (400, #"{"error":"invalid_scope","error_description":"no such scope"}"#, "no such scope"),
        (401, #"{"message":"Invalid API key"}"#, "Invalid API key"),
        (503, "<html>", "HTTP 503 with a web page"),
        // A server may quote what it was sent.
        (400, #"{"error":"x","msg":"no hush at sb_publishable_hush"}"#, "no ... at ..."),
    ])
    func whyThereIsNoTokenIsTold(status: Int, body: String, words: String) async throws {
        let transport = ScriptedTransport { _ in
            .success(HTTPAnswer(status: status, body: Array(body.utf8)))
        }
        let parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let kind = try KindFixture.make("postgrest")
        let problem = await #expect(throws: DestinationProblem.self) {
            _ = try await kind.probe(parts)
        }
        #expect(problem?.message.contains(words) == true, "\(problem?.message ?? "")")
    }

    /// `status` said: gives no access token, check network.
    @Test func aTokenIssuedInTheFutureIsToldAsThatAlsoWhileThereIsNoNewOne() async throws {
        let transport = ScriptedTransport { request in
            request.target.contains("/token")
                ? .json(200, #"{"access_token":"A","refresh_token":"R","expires_in":3600}"#)
                : .json(401, #"{"code":"PGRST303","message":"JWT issued at future"}"#)
        }
        let parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let destination = try KindFixture.make("postgrest").make(parts)
        let point = KindFixture.point(.heartRate(bpm: 72, at: .epoch))
        for _ in 0..<3 {
            _ = await destination.deliver([point], alone: false)
            #expect(
                await destination.fault?.contains("by its clock the token is of the future") == true
            )
            #expect(await destination.faultAdvice?.contains("timedatectl") == true)
        }
    }
}
