import Foundation
import Testbed
import Testing

@Suite("The exchange's tokens")
struct ExchangeTokenTests {
    /// A wrong token exchange and what it answers.
    struct Refusal: Sendable {
        var name: String
        var change: @Sendable (inout [String: String]) -> Void
        var status: Int
        var body: String
        var codeSurvives: Bool
    }

    static let refusals: [Refusal] = [
        Refusal(
            name: "no verifier", change: { $0["code_verifier"] = nil }, status: 400,
            body: #"{"error":"invalid_request","error_description":"Code verifier required."}"#,
            codeSurvives: true),
        Refusal(
            name: "wrong verifier", change: { $0["code_verifier"]? += "x" }, status: 400,
            body: #"{"error":"invalid_grant"}"#, codeSurvives: true),
        Refusal(
            name: "wrong redirect_uri", change: { $0["redirect_uri"] = "http://x/" }, status: 400,
            body: #"{"error":"invalid_grant"}"#, codeSurvives: true),
        Refusal(
            name: "unknown code", change: { $0["code"] = "x" }, status: 400,
            body: #"{"error":"invalid_grant"}"#, codeSurvives: true),
        Refusal(
            name: "no client", change: { $0["client_id"] = nil }, status: 401,
            body: #"{"error":"invalid_client"}"#, codeSurvives: true),
        Refusal(
            name: "unknown client", change: { $0["client_id"] = "x" }, status: 401,
            body: #"{"error":"invalid_client"}"#, codeSurvives: true),
        Refusal(
            name: "another client",
            change: { $0["client_id"] = ExchangeSeed.standard.clients[1].clientID },
            status: 400, body: #"{"error":"invalid_grant"}"#, codeSurvives: true),
        Refusal(
            name: "no grant type", change: { $0["grant_type"] = nil }, status: 400,
            body: #"{"error":"unsupported_grant_type"}"#, codeSurvives: true),
        Refusal(
            name: "other grant type", change: { $0["grant_type"] = "password" }, status: 400,
            body: #"{"error":"unsupported_grant_type"}"#, codeSurvives: true),
    ]

    @Test("a token exchange is refused for", arguments: refusals.indices)
    func exchangeRefused(index: Int) async throws {
        let row = Self.refusals[index]
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let token = EnrolledExchange.token(in: await exchange.invite(patient: 40001))
        let code = try await EnrolledExchange.redeem(token, wire)
        let right = EnrolledExchange.exchangeForm(code: code, token: token)
        var form = right
        row.change(&form)
        let answer = await wire.post("/o/token/", form: form)
        #expect(answer?.status == row.status, "\(row.name)")
        #expect(answer?.text == row.body, "\(row.name)")
        if row.status == 401 {
            #expect(answer?.headers["www-authenticate"] == #"Bearer error="invalid_client""#)
        }
        #expect((await wire.post("/o/token/", form: right)?.status == 200) == row.codeSurvives)
        await exchange.stop()
    }

    @Test("a code is good once, and for 60 s")
    func codeLife() async throws {
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let token = EnrolledExchange.token(in: await exchange.invite(patient: 40001))
        let used = EnrolledExchange.exchangeForm(
            code: try await EnrolledExchange.redeem(token, wire), token: token)
        #expect(await wire.post("/o/token/", form: used)?.status == 200)
        #expect(await wire.post("/o/token/", form: used)?.text == #"{"error":"invalid_grant"}"#)
        let late = EnrolledExchange.exchangeForm(
            code: try await EnrolledExchange.redeem(token, wire), token: token)
        await exchange.advanceClock(by: .seconds(60))
        #expect(await wire.post("/o/token/", form: late)?.text == #"{"error":"invalid_grant"}"#)
        await exchange.stop()
    }

    @Test("the same redirect_uri as in the grant is welcome, and none is too")
    func redirect() async throws {
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let token = EnrolledExchange.token(in: await exchange.invite(patient: 40001))
        var form = EnrolledExchange.exchangeForm(
            code: try await EnrolledExchange.redeem(token, wire), token: token)
        form["redirect_uri"] = exchange.baseURL + "/auth/callback"
        let answer = await wire.post("/o/token/", form: form)
        #expect(answer?.json?["expires_in"]?.number == 1_209_600)
        #expect(answer?.json?["token_type"]?.string == "Bearer")
        #expect(answer?.json?["access_token"]?.string?.count == 30)
        await exchange.stop()
    }

    @Test("a JSON body, GET and a missing slash are refused")
    func forms() async throws {
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let json = await wire.send(
            "POST", "/o/token/", ["Content-Type": "application/json"],
            body: Array(#"{"grant_type":"authorization_code"}"#.utf8))
        #expect(json?.text == #"{"error":"unsupported_grant_type"}"#)
        let moved = await wire.send("POST", "/o/token", body: [])
        #expect(moved?.status == 301)
        #expect(moved?.headers["location"] == "/o/token/")
        #expect(await wire.send("GET", "/o/token/")?.status == 405)
        await exchange.stop()
    }

    @Test("a refresh kills the old access token and the old refresh token at once")
    func rotation() async throws {
        var session = try await EnrolledExchange()
        let answer = await session.refresh()
        #expect(answer?.status == 200)
        #expect(await session.get("/api/v1/users/profile")?.status == 401)
        #expect(await session.refresh()?.text == #"{"error":"invalid_grant"}"#)
        session.accessToken = try #require(answer?.json?["access_token"]?.string)
        session.refreshToken = try #require(answer?.json?["refresh_token"]?.string)
        #expect(await session.get("/api/v1/users/profile")?.status == 200)
        #expect(await session.refresh()?.status == 200)
        await session.exchange.stop()
    }

    @Test("a refresh whose answer is lost locks the client out; redeeming again works")
    func lostRefresh() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.inject(.lostAnswer, on: [.token])
        #expect(await session.refresh() == nil)
        #expect(await session.refresh()?.text == #"{"error":"invalid_grant"}"#)
        #expect(await session.get("/api/v1/users/profile")?.status == 401)
        let code = try await EnrolledExchange.redeem(session.invitation, session.wire)
        let form = EnrolledExchange.exchangeForm(code: code, token: session.invitation)
        #expect(await session.wire.post("/o/token/", form: form)?.status == 200)
        await session.exchange.stop()
    }

    @Test("a refresh needs its own client and cannot widen the scope")
    func refreshRefused() async throws {
        let session = try await EnrolledExchange()
        var form = ["grant_type": "refresh_token", "refresh_token": session.refreshToken]
        let wire = session.wire
        #expect(await wire.post("/o/token/", form: form)?.text == #"{"error":"invalid_client"}"#)
        form["client_id"] = ExchangeSeed.standard.clients[1].clientID
        #expect(await wire.post("/o/token/", form: form)?.text == #"{"error":"invalid_grant"}"#)
        form["client_id"] = EnrolledExchange.clientID
        form["scope"] = "openid email admin"
        #expect(await wire.post("/o/token/", form: form)?.text == #"{"error":"invalid_scope"}"#)
        form["scope"] = "openid"
        #expect(await wire.post("/o/token/", form: form)?.json?["scope"]?.string == "openid")
        await session.exchange.stop()
    }

    /// An Authorization header and the challenge that answers it.
    static let challenges: [(String, String)] = [
        ("", #"Bearer realm="api""#), ("Basic abc", #"Bearer realm="api""#),
        ("Bearer", #"Bearer realm="api""#),
        (
            "Bearer garbage",
            #"Bearer realm="api",error="invalid_token",error_description="The access token is invalid.""#
        ),
    ]

    @Test("a request without a good token is 401", arguments: challenges)
    func unauthorized(authorization: String, challenge: String) async throws {
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let headers = ["Authorization": authorization, "Content-Type": "application/json"]
        for (method, target) in [("POST", "/FHIR/R5/"), ("GET", "/api/v1/users/profile")] {
            let answer = await wire.send(method, target, headers, body: [])
            #expect(answer?.status == 401)
            #expect(
                answer?.text == #"{"detail":"Authentication credentials were not provided."}"#)
            #expect(answer?.headers["www-authenticate"] == challenge)
        }
        // The single-resource endpoint answers in its own way.
        let single = await wire.send("POST", "/FHIR/R5/Observation", headers, body: [])
        #expect(single?.status == 401)
        #expect(single?.json?["resourceType"]?.string == "OperationOutcome")
        #expect(single?.headers["www-authenticate"] == nil)
        await exchange.stop()
    }

    @Test("an expired token says so in the header only; the refresh token goes on")
    func expired() async throws {
        let session = try await EnrolledExchange()
        await session.exchange.advanceClock(by: .seconds(1_209_600))
        let answer = await session.get("/api/v1/users/profile")
        #expect(answer?.text == #"{"detail":"Authentication credentials were not provided."}"#)
        #expect(answer?.headers["www-authenticate"]?.contains("has expired") == true)
        #expect(await session.refresh()?.status == 200)
        await session.exchange.revokeTokens()
        #expect(await session.refresh()?.status == 400)
        await session.exchange.stop()
    }

    @Test("bearer in lower case is as good")
    func lowerCase() async throws {
        let session = try await EnrolledExchange()
        let answer = await session.wire.send(
            "GET", "/api/v1/users/profile", ["Authorization": "bearer \(session.accessToken)"])
        #expect(answer?.status == 200)
        await session.exchange.stop()
    }

    @Test("revoking an access token leaves the refresh token good")
    func revoke() async throws {
        let session = try await EnrolledExchange()
        let form = ["token": session.accessToken, "client_id": EnrolledExchange.clientID]
        let answer = await session.wire.post("/o/revoke_token/", form: form)
        #expect(answer?.status == 200)
        #expect(answer?.body.isEmpty == true)
        #expect(await session.get("/api/v1/users/profile")?.status == 401)
        #expect(await session.refresh()?.status == 200)
        await session.exchange.stop()
    }

    @Test("a practitioner key serves every patient of its organization, and gets no refresh token")
    func practitioner() async throws {
        var session = try await EnrolledExchange()
        let key = ExchangeSeed.standard.practitionerKeys[0]
        var form = ["grant_type": "client_credentials", "client_id": key.clientID]
        #expect(
            await session.wire.post("/o/token/", form: form)?.text == #"{"error":"invalid_client"}"#
        )
        form["client_secret"] = key.secret
        let answer = await session.wire.post("/o/token/", form: form)
        #expect(answer?.json?["refresh_token"] == nil)
        session.accessToken = try #require(answer?.json?["access_token"]?.string)

        let pair = Data("\(key.clientID):\(key.secret)".utf8).base64EncodedString()
        let basic = await session.wire.send(
            "POST", "/o/token/",
            [
                "Authorization": "Basic \(pair)",
                "Content-Type": "application/x-www-form-urlencoded",
            ], body: Array("grant_type=client_credentials".utf8))
        #expect(basic?.status == 200)

        let entries = ["40001", "40002", "40003"].map {
            Sample.observation(id: "p-\($0)", subject: "Patient/\($0)")
        }
        let verdicts = await session.post(Sample.bundle(of: entries))?.verdicts
        #expect(
            verdicts == [
                "201 Created", "201 Created",
                "403 Forbidden: Current user doesn't have access to the Patient.",
            ])
        await session.exchange.stop()
    }
}
