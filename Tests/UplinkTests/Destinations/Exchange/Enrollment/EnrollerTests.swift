import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct EnrollerTests {
    static let link = "jhe.example_I2HnwcSqOsX2qkCDZouhiCAtL6K2QiYj"
    static let heartRate =
        #"{"codingSystem":"https://w3id.org/openmhealth","codingCode":"omh:heart-rate:2.0"}"#

    static func consents(devices: [Int], consented: Bool = true) -> String {
        let sources = devices.map {
            #"{"id":\#($0),"name":"D\#($0)","type":"personal_device","supportedScopes":[\#(heartRate)]}"#
        }.joined(separator: ",")
        let study =
            #"{"id":1,"dataSources":[\#(sources),{"id":9,"name":"M","type":"medical_device","#
            + #""supportedScopes":[\#(heartRate)]}],"SCOPES":[{"code":\#(heartRate),"consented":\#(consented ? "true" : "null")}]}"#
        return consented
            ? #"{"consolidatedConsentedScopes":[\#(heartRate)],"studies":["#
                + study.replacing("SCOPES", with: "scopeConsents")
                + #"],"studiesPendingConsent":[]}"#
            : #"{"consolidatedConsentedScopes":[],"studies":[],"studiesPendingConsent":["#
                + study.replacing("SCOPES", with: "pendingScopeConsents") + "]}"
    }

    static let grant = """
        {"grant":{"grant_type":"authorization_code","redirect_uri":"http://jhe.example/auth/callback",\
        "client_id":"gw","code":"CODE"},"token_endpoint":"http://jhe.example/o/token/"}
        """
    static let tokens = """
        {"access_token":"ACCESS","expires_in":1209600,"token_type":"Bearer","refresh_token":"REFRESH"}
        """

    /// An exchange that does everything right, with some answers replaced.
    static func exchange(
        _ replaced: @escaping @Sendable (String) -> Result<HTTPAnswer, TransportFault>? = { _ in nil
        }
    ) -> ScriptedTransport {
        ScriptedTransport { request in
            if let answer = replaced(request.target) { return answer }
            return switch request.target {
            case "/FHIR/R5/": .json(401, "{}")
            case "/api/v1/invitation/I2HnwcSqOsX2qkCDZouhiCAtL6K2QiYj": .json(200, grant)
            case "/o/token/": .json(200, tokens)
            case "/api/v1/users/profile": .json(200, #"{"id":1,"patient":{"id":40001}}"#)
            case "/api/v1/patients/40001/consents": .json(200, consents(devices: [70007]))
            default: .html(404)
            }
        }
    }

    static func enroll(
        _ transport: ScriptedTransport, _ text: String = link,
        settings: EnrollSettings = EnrollSettings()
    ) async throws -> Enrolled {
        try await Enroller(transport: transport, clock: StillClock(), settings: settings)
            .enroll(InvitationLink(text))
    }

    private static func fault(
        _ transport: ScriptedTransport, _ text: String = link,
        settings: EnrollSettings = EnrollSettings()
    ) async -> EnrollFault? {
        do {
            _ = try await enroll(transport, text, settings: settings)
            return nil
        } catch {
            return error as? EnrollFault
        }
    }

    @Test func aTokenLinkLeadsToPatientCodeAndDevice() async throws {
        let transport = Self.exchange()
        let enrolled = try await Self.enroll(transport)
        #expect(enrolled.fhirBase == "/FHIR/R5/")
        #expect(enrolled.access?.patient == "40001")
        #expect(enrolled.access?.code.code == "omh:heart-rate:2.0")
        #expect(enrolled.access?.isConsented == true)
        #expect(enrolled.access?.devices == [DeviceCandidate(id: "70007", name: "D70007")])
        #expect(enrolled.account?.patient == "40001")
        #expect(enrolled.tokens.pair.access == Secret("ACCESS"))
        #expect(enrolled.tokens.pair.refresh == Secret("REFRESH"))
        #expect(enrolled.tokens.pair.lifetime == .seconds(1_209_600))
        #expect(
            enrolled.tokens.credential == .invitation(Secret("I2HnwcSqOsX2qkCDZouhiCAtL6K2QiYj")))

        let exchange = try #require(transport.requests.first { $0.target == "/o/token/" })
        let form = String(decoding: exchange.body, as: UTF8.self)
        #expect(
            form == "grant_type=authorization_code&code=CODE&client_id=gw"
                + "&code_verifier=STJIbndjU3FPc1gycWtDRFpvdWhpQ0F0TDZLMlFpWWo"
                + "&redirect_uri=http%3A%2F%2Fjhe.example%2Fauth%2Fcallback")
        #expect(exchange.contentType == "application/x-www-form-urlencoded")
        let redeem = try #require(transport.requests.first { $0.target.contains("invitation") })
        #expect(redeem.method == .post && redeem.body.isEmpty && redeem.headers.isEmpty)
    }

    @Test func aTokenEndpointAnnouncedWithPlainHTTPIsNotObeyed() async throws {
        let transport = Self.exchange()
        _ = try await Self.enroll(transport)
        #expect(transport.requests.allSatisfy { $0.origin.description == "https://jhe.example" })
    }

    @Test func aTokenEndpointAtAnotherHostIsNotObeyed() async throws {
        let transport = Self.exchange { target in
            target.contains("invitation")
                ? .json(
                    200, Self.grant.replacing("http://jhe.example/o", with: "https://evil.org/o"))
                : nil
        }
        _ = try await Self.enroll(transport)
        #expect(transport.requests.allSatisfy { $0.origin.host == "jhe.example" })
    }

    /// "a web page, check DNS", without the address that the exchange had moved to.
    @Test func aRedirectedInvitationNamesTheNewAddressAndNothingElse() async {
        let transport = Self.exchange { target in
            target.contains("invitation")
                ? .success(
                    HTTPAnswer(
                        status: 308, contentType: "text/html",
                        fields: ["location": "https://me:pw@new.example:8443/x"],
                        body: Array("<a>".utf8)))
                : nil
        }
        #expect(
            String(describing: await Self.fault(transport)).contains(
                "an address that it does not give"))
        let moved = Self.exchange { target in
            target.lowercased().contains("fhir")
                ? .success(
                    HTTPAnswer(
                        status: 301,
                        fields: ["location": "https://New.example:8443/FHIR/R5/?token=hush"])) : nil
        }
        let words = String(describing: await Self.fault(moved))
        #expect(words.contains("HTTP 301, a redirect to https://new.example:8443,"))
        #expect(!words.contains("hush") && !words.contains("FHIR"))
    }

    @Test(
        "every refusal of an invitation has a message of its own",
        arguments: [
            (.json(404, #"{"detail":"Invitation not found or already used."}"#), .unknown),
            (.json(401, "{}"), .unknown), (.json(403, "{}"), .cancelled),
            (.json(409, "{}"), .superseded), (.json(410, "{}"), .expired),
            (.html(401), .serverTrouble(status: 401)), (.html(403), .serverTrouble(status: 403)),
            (.html(409), .serverTrouble(status: 409)), (.html(410), .serverTrouble(status: 410)),
            (.html(404), .notAnExchange), (.html(500), .serverTrouble(status: 500)),
            (.html(301), .redirected(Redirect(status: 301, target: nil))),
            (.html(200), .notAnExchange),
            (.json(200, "{}"), .unreadable), (.failure(.dns), .transport(.dns)),
        ] as [(Result<HTTPAnswer, TransportFault>, EnrollFault)])
    func refusals(answer: Result<HTTPAnswer, TransportFault>, fault: EnrollFault) async {
        let transport = Self.exchange { $0.contains("invitation") ? answer : nil }
        #expect(await Self.fault(transport) == fault)
        #expect(!transport.lines.contains("POST /o/token/"))
    }

    @Test func theFourMessagesOfASpentInvitationDiffer() {
        let faults: [EnrollFault] = [.unknown, .cancelled, .expired, .superseded]
        #expect(Set(faults.map { "\($0)" }).count == 4)
    }

    @Test func aCodeThatWasTooOldOrWhoseAnswerWasLostIsRedeemedAgain() async throws {
        for first in [.json(400, #"{"error":"invalid_grant"}"#), .failure(.cut), .html(500)]
            as [Result<HTTPAnswer, TransportFault>]
        {
            let attempts = Box(0)
            let transport = Self.exchange { target in
                guard target == "/o/token/" else { return nil }
                return attempts.change {
                    $0 += 1; return $0
                } == 1 ? first : nil
            }
            _ = try await Self.enroll(transport)
            #expect(transport.lines.count { $0.contains("invitation") } == 2)
        }
    }

    @Test func theExchangeOfACodeIsGivenUpAfterThreeRedemptions() async {
        let transport = Self.exchange { target in
            target == "/o/token/" ? .json(400, #"{"error":"invalid_grant"}"#) : nil
        }
        #expect(await Self.fault(transport) == .refused)
        #expect(transport.lines.count { $0.contains("invitation") } == 3)
    }

    @Test func anUnknownClientIsNotTriedAgain() async {
        let transport = Self.exchange { target in
            target == "/o/token/" ? .json(401, #"{"error":"invalid_client"}"#) : nil
        }
        #expect(await Self.fault(transport) == .refused)
        #expect(transport.lines.count { $0.contains("invitation") } == 1)
    }

    @Test func theOlderFHIRBaseIsFound() async throws {
        let transport = Self.exchange { target in
            switch target {
            case "/FHIR/R5/": .html(404)
            case "/fhir/r5/": .json(401, "{}")
            default: nil
            }
        }
        #expect(try await Self.enroll(transport).fhirBase == "/fhir/r5/")
    }

    @Test func aServerWithoutAFHIRBaseUsesUpNoInvitation() async {
        let transport = Self.exchange { $0.lowercased() == "/fhir/r5/" ? .html(404) : nil }
        #expect(await Self.fault(transport) == .notAnExchange)
        #expect(transport.lines.allSatisfy { $0.hasPrefix("GET") })
    }

    @Test func severalDevicesAreNarrowedToTheClientsOwnOrOffered() async throws {
        let consents = Self.consents(devices: [70001, 70004, 70007])
        let narrowed = Self.exchange { target in
            switch target {
            case "/api/v1/patients/40001/consents": .json(200, consents)
            case "/api/v1/clients": .json(200, #"{"results":[{"id":3,"clientId":"gw"}]}"#)
            case "/api/v1/clients/3/data_sources": .json(200, #"[{"id":70007},{"id":5}]"#)
            default: nil
            }
        }
        #expect(try await Self.enroll(narrowed).access?.devices.map(\.id) == ["70007"])

        let offered = Self.exchange { $0.hasSuffix("/consents") ? .json(200, consents) : nil }
        let access = try #require(try await Self.enroll(offered).access)
        #expect(access.devices.map(\.id) == ["70001", "70004", "70007"])
    }

    /// Enrolling again took the only device that fits now, in the place of one that a person had chosen.
    @Test func theDeviceStaysWhileItFitsAndNoneReplacesOneThatAPersonChose() throws {
        func device(
            _ offered: [String], asked: String? = nil, earlier: String? = nil,
            byPerson: Bool = false
        ) -> DeviceChoice? {
            PatientAccess(
                patient: "40001", code: .omhHeartRate, isConsented: true,
                devices: offered.map { DeviceCandidate(id: $0, name: "") }
            ).device(
                asked: asked,
                earlier: earlier.map { DeviceChoice(id: $0, isByPerson: byPerson) })
        }
        #expect(device(["1"]) == DeviceChoice(id: "1", isByPerson: false))
        #expect(device(["1", "2"]) == nil)
        #expect(device([]) == nil)
        #expect(device(["1", "2"], asked: "2") == DeviceChoice(id: "2", isByPerson: true))
        #expect(device(["1", "2"], asked: "3") == nil)
        for byPerson in [false, true] {
            let kept = device(["1", "2"], earlier: "2", byPerson: byPerson)
            #expect(kept == DeviceChoice(id: "2", isByPerson: byPerson))
        }
        #expect(device(["1"], earlier: "2") == DeviceChoice(id: "1", isByPerson: false))
        #expect(device(["1"], earlier: "2", byPerson: true) == nil)
        #expect(
            device(["1"], asked: "1", earlier: "2", byPerson: true)
                == DeviceChoice(id: "1", isByPerson: true))
    }

    @Test func anInvitationWithoutConsentEnrollsAndSaysSo() async throws {
        let transport = Self.exchange { target in
            target.hasSuffix("/consents")
                ? .json(200, Self.consents(devices: [70007], consented: false)) : nil
        }
        let enrolled = try await Self.enroll(transport)
        #expect(enrolled.access?.isConsented == false)
        #expect(enrolled.access?.code.code == "omh:heart-rate:2.0")
        #expect(enrolled.access?.devices.map(\.id) == ["70007"])
    }

    @Test func accountsThatCannotDeliverHeartRateAreRefused() async {
        let noPatient = Self.exchange { $0.hasSuffix("profile") ? .json(200, #"{"id":1}"#) : nil }
        #expect(await Self.fault(noPatient) == .notAPatient)
        let noHeart = Self.exchange { $0.hasSuffix("consents") ? .json(200, "{}") : nil }
        #expect(await Self.fault(noHeart) == .heartRateNotAsked)
        let hostile = Self.exchange {
            $0.hasSuffix("profile") ? .json(200, #"{"patient":{"id":"../../o/token"}}"#) : nil
        }
        #expect(await Self.fault(hostile) == .unreadable)
    }

    /// A study that was deleted was called a consent that is missing.
    @Test(
        arguments: [
            (consents(devices: [7], consented: false), .noConsent), ("{}", .studyGone),
            (
                #"{"studies":[],"studiesPendingConsent":[],"consolidatedConsentedScopes":[]}"#,
                .studyGone
            ),
            (#"{"studies":[{"id":1,"scopeConsents":[]}]}"#, .heartRateNotAsked),
            (
                #"{"studies":[{"scopeConsents":[{"codingSystem":"s","codingCode":"omh:x:1.0"}]}]}"#,
                .heartRateNotAsked
            ),
        ] as [(String, HoldReason)])
    func aStudyThatIsGoneIsNoMissingConsent(answer: String, reason: HoldReason) async throws {
        let transport = Self.exchange { $0.hasSuffix("consents") ? .json(200, answer) : nil }
        let reader = ExchangeReader(transport: transport, origin: .example)
        #expect(try await reader.missingConsent(of: "40001", token: Secret("t")) == reason)
    }

    @Test func theNewestHeartRateCodeIsTakenAndAVersionlessOneWillDo() throws {
        func access(_ codes: [String]) throws -> PatientAccess? {
            let scopes = codes.map { #"{"codingSystem":"s","codingCode":"\#($0)"}"# }
            let text = #"{"consolidatedConsentedScopes":[\#(scopes.joined(separator: ","))]}"#
            return PatientAccess(
                patient: "1",
                consents: try JSONDecoder().decode(ConsentsDocument.self, from: Data(text.utf8)))
        }
        #expect(
            try access(["omh:heart-rate:2.0", "omh:heart-rate:10.1", "omh:heart-rate:9.9"])?.code
                .code == "omh:heart-rate:10.1")
        #expect(try access(["omh:heart-rate"])?.code.code == "omh:heart-rate")
        #expect(try access(["omh:heart-rate-variability:1.0"]) == nil)
    }

    @Test func linksOfOlderExchangesGoStraightToTheTokenEndpoint() async throws {
        let transport = Self.exchange()
        let enrolled = try await Self.enroll(transport, "jhe.example~client~CODE~VERIFIER")
        #expect(enrolled.tokens.credential == .none)
        let exchange = try #require(transport.requests.first { $0.target == "/o/token/" })
        #expect(
            String(decoding: exchange.body, as: UTF8.self)
                == "grant_type=authorization_code&code=CODE&client_id=client"
                + "&code_verifier=VERIFIER&redirect_uri=https%3A%2F%2Fjhe.example%2Fauth%2Fcallback"
        )

        #expect(await Self.fault(transport, "jhe.example|CODE") == .needsClient)
        #expect(await Self.fault(transport, "|CODE") == .noServer)
        var settings = EnrollSettings()
        settings.server = Origin("https://jhe.example")
        settings.clientID = "c"
        settings.verifier = Secret("v")
        #expect(await Self.fault(transport, "|CODE", settings: settings) == nil)
    }

    @Test func aPractitionerKeyMintsATokenForManyPatients() async throws {
        let transport = Self.exchange { target in
            target == "/o/token/"
                ? .json(200, #"{"access_token":"P","expires_in":1209600}"#) : nil
        }
        let enroller = Enroller(transport: transport, clock: StillClock())
        let origin = try #require(Origin("https://jhe.example"))
        let key = Secret(Data("id:se:cret".utf8).base64EncodedString())
        let enrolled = try await enroller.enroll(practitionerKey: key, at: origin)
        #expect(enrolled.access == nil)
        #expect(
            enrolled.tokens.credential
                == .practitionerKey(clientID: "id", secret: Secret("se:cret")))
        for bad in ["", "%%%", "bm9jb2xvbg==", "OnNlY3JldA=="] {
            await #expect(throws: EnrollFault.keyRefused) {
                try await enroller.enroll(practitionerKey: Secret(bad), at: origin)
            }
        }
    }

    @Test func faultsNeverCarryTheLink() async {
        for status in [401, 403, 404, 409, 410, 500] {
            let transport = Self.exchange { $0.contains("invitation") ? .json(status, "{}") : nil }
            let fault = await Self.fault(transport)
            #expect(!"\(fault.debugDescription)\(fault.map { "\($0)" } ?? "")".contains("I2Hnwc"))
        }
    }
}
