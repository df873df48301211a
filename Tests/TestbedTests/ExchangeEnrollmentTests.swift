import Foundation
import Testbed
import Testing

@Suite("The exchange enrolls a client by invitation")
struct ExchangeEnrollmentTests {
    @Test("the whole way: invite, redeem, exchange, profile, consents, device, bundle")
    func wholeWay() async throws {
        let session = try await EnrolledExchange()
        let profile = await session.get("/api/v1/users/profile")
        #expect(profile?.json?["patient"]?["id"]?.number == 40001)
        #expect(profile?.json?["userType"]?.string == "patient")

        let consents = await session.get("/api/v1/patients/40001/consents")
        let codes = consents?.json?["consolidatedConsentedScopes"]?.array ?? []
        #expect(codes.contains { $0["codingCode"]?.string == Sample.heartRate })
        let candidates = (consents?.json?["studies"]?.array ?? [])
            .flatMap { $0["dataSources"]?.array ?? [] }
            .filter { $0["type"]?.string == "personal_device" }.compactMap { $0["id"]?.number }
        let clients = await session.get("/api/v1/clients")
        let own = clients?.json?["results"]?.array?.first {
            $0["clientId"]?.string == EnrolledExchange.clientID
        }
        let key = Int(try #require(own?["id"]?.number))
        let sources = await session.get("/api/v1/clients/\(key)/data_sources")
        let ownDevices = (sources?.json?.array ?? []).compactMap { $0["id"]?.number }
        #expect(Set(candidates).intersection(ownDevices) == [70007])

        let answer = await session.post(Sample.bundle(of: [Sample.observation()]))
        #expect(answer?.status == 200)
        #expect(answer?.verdicts == ["201 Created"])
        #expect(answer?.headers["connection"] == "close")
        let rows = await session.exchange.stored
        #expect(rows.map(\.beatsPerMinute) == [72])
        #expect(rows.map(\.patient) == [40001])
        #expect(rows.first?.identifiers.first?.system == Sample.system)
        await session.exchange.stop()
    }

    @Test("the link carries the host, percent-encoded, and a token of 32")
    func link() async throws {
        let exchange = try await StandInExchange.start()
        let link = await exchange.invite(patient: 40001)
        #expect(link.hasPrefix("https://gateway.example/enroll/127.0.0.1%3A\(exchange.port)_"))
        let other = await exchange.invite(patient: 40001, client: 1)
        #expect(other.hasPrefix("https://carex.example?invitation=127.0.0.1%3A"))
        await exchange.stop()
    }

    @Test("a link of v0.0.10 carries client, code and verifier; redirect_uri must match")
    func oldLink() async throws {
        let exchange = try await StandInExchange.start(version: .v0010)
        let wire = Wire(port: exchange.port)
        let parts = await exchange.invite(patient: 40001).split(separator: "~").map(String.init)
        #expect(parts.count == 4)
        var form = [
            "grant_type": "authorization_code", "client_id": parts[1], "code": parts[2],
            "code_verifier": parts[3],
        ]
        let refused = await wire.post("/o/token/", form: form)
        #expect(refused?.status == 400)
        #expect(refused?.json?["error_description"]?.string == "Mismatching redirect URI.")
        form["redirect_uri"] = exchange.baseURL + "/auth/callback"
        #expect(await wire.post("/o/token/", form: form)?.status == 200)
        let redeem = await wire.send(
            "POST", "/api/v1/invitation/\(String(repeating: "a", count: 32))", body: [])
        #expect(redeem?.status == 401)
        await exchange.stop()
    }

    // MARK: Refusals of the redemption

    /// What to do to a fresh invitation, and what redeeming it must answer.
    struct Refusal: Sendable {
        var name: String
        var status: Int
        var detail: String
        var prepare: @Sendable (StandInExchange, Wire, String) async throws -> String
    }

    static let refusals: [Refusal] = [
        Refusal(
            name: "unknown", status: 404, detail: "Invitation not found or already used.",
            prepare: { _, _, _ in String(repeating: "x", count: 32) }),
        Refusal(
            name: "not 32 alphanumerics", status: 401,
            detail: "Authentication credentials were not provided.",
            prepare: { _, _, token in String(token.dropLast()) + "-" }),
        Refusal(
            name: "too short", status: 401,
            detail: "Authentication credentials were not provided.",
            prepare: { _, _, token in String(token.dropLast()) }),
        Refusal(
            name: "superseded", status: 409, detail: "Invitation has already been used.",
            prepare: { exchange, _, token in
                _ = await exchange.invite(patient: 40001)
                return token
            }),
        Refusal(
            name: "redeemed over 12 h ago", status: 409,
            detail: "Invitation has already been used.",
            prepare: { exchange, wire, token in
                _ = try await EnrolledExchange.redeem(token, wire)
                await exchange.advanceClock(by: .seconds(12 * 3600 + 1))
                return token
            }),
        Refusal(
            name: "never redeemed in 7 days", status: 410, detail: "Invitation has expired.",
            prepare: { exchange, _, token in
                await exchange.advanceClock(by: .seconds(7 * 86_400))
                return token
            }),
        Refusal(
            name: "cancelled", status: 403, detail: "Invitation has been cancelled.",
            prepare: { exchange, _, token in
                await exchange.cancelInvitations(patient: 40001)
                return token
            }),
    ]

    @Test("an invitation is refused when", arguments: refusals.indices)
    func redemptionRefused(index: Int) async throws {
        let row = Self.refusals[index]
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let token = EnrolledExchange.token(in: await exchange.invite(patient: 40001))
        let used = try await row.prepare(exchange, wire, token)
        let answer = await wire.send("POST", "/api/v1/invitation/\(used)", body: [])
        #expect(answer?.status == row.status, "\(row.name)")
        #expect(answer?.json?["detail"]?.string == row.detail, "\(row.name)")
        await exchange.stop()
    }

    @Test("a trailing slash is 404 HTML, GET is 401, a stale token is ignored")
    func redemptionForms() async throws {
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let token = EnrolledExchange.token(in: await exchange.invite(patient: 40001))
        let slash = await wire.send("POST", "/api/v1/invitation/\(token)/", body: [])
        #expect(slash?.status == 404)
        #expect(slash?.isHTML == true)
        #expect(await wire.send("GET", "/api/v1/invitation/\(token)")?.status == 401)
        let stale = await wire.send(
            "POST", "/api/v1/invitation/\(token)", ["Authorization": "Bearer old"], body: [])
        #expect(stale?.status == 200)
        await exchange.stop()
    }

    @Test("the window of 12 h slides, and each redemption kills the unused code before")
    func window() async throws {
        let exchange = try await StandInExchange.start()
        let wire = Wire(port: exchange.port)
        let token = EnrolledExchange.token(in: await exchange.invite(patient: 40001))
        let first = try await EnrolledExchange.redeem(token, wire)
        await exchange.advanceClock(by: .seconds(11 * 3600))
        _ = try await EnrolledExchange.redeem(token, wire)
        await exchange.advanceClock(by: .seconds(11 * 3600))
        let older = try await EnrolledExchange.redeem(token, wire)
        let newer = try await EnrolledExchange.redeem(token, wire)
        for dead in [first, older] {
            let form = EnrolledExchange.exchangeForm(code: dead, token: token)
            #expect(await wire.post("/o/token/", form: form)?.text == #"{"error":"invalid_grant"}"#)
        }
        let form = EnrolledExchange.exchangeForm(code: newer, token: token)
        #expect(await wire.post("/o/token/", form: form)?.status == 200)
        await exchange.stop()
    }

    @Test("the advertised token endpoint can be any address")
    func advertised() async throws {
        let exchange = try await StandInExchange.start()
        await exchange.advertiseTokenEndpoint("http://elsewhere.example/o/token/")
        let token = EnrolledExchange.token(in: await exchange.invite(patient: 40001))
        let answer = await Wire(port: exchange.port).send(
            "POST", "/api/v1/invitation/\(token)", body: [])
        #expect(answer?.json?["token_endpoint"]?.string == "http://elsewhere.example/o/token/")
        await exchange.stop()
    }
}
