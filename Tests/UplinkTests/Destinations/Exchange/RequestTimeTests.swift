import Basics
import OfflineQueue
import Testing

@testable import Uplink

/// How long a request took, as a delivery's pace and interval count it.
@Suite struct RequestTimeTests {
    /// A token that took 20 s to renew made the next request half as large, as if the exchange were slow with samples.
    @Test func theQuestionsBeforeARequestAreNotCountedAsItsTime() async throws {
        let clock = StillClock()
        let transport = EnrollerTests.exchange { target in
            switch target {
            case "/o/token/":
                clock.advance(by: .seconds(20))
                return nil
            case "/FHIR/R5/":
                clock.advance(by: .seconds(1))
                return .json(
                    200,
                    #"{"resourceType":"Bundle","type":"batch-response","#
                        + #""entry":[{"response":{"status":"201"}}]}"#)
            default: return nil
            }
        }
        let scratch = try Scratch()
        let record = TokenRecord(
            origin: .example, clientID: "gw", credential: .none,
            pair: TokenPair(
                access: Secret("OLD"), refresh: Secret("OLDREFRESH"),
                granted: clock.read().wall - .seconds(8 * 86_400), lifetime: .seconds(1_209_600)))
        let tokens = RenewingTokens(
            record: record, file: TokenFile(path: scratch.path + "/tokens.json"),
            transport: transport, clock: clock, logger: .quiet)
        let terms = EnrollmentTerms(
            name: "e1", origin: "https://exchange.example", fhirBase: "/FHIR/R5/", clientID: "gw",
            patient: "40001", device: "70007", codeSystem: "https://w3id.org/openmhealth",
            code: "omh:heart-rate:2.0", identifierSystem: "urn:x")
        let destination = try #require(
            ExchangeDestination(
                terms: terms, tokens: tokens, transport: transport, clock: clock, logger: .quiet))
        let point = KindFixture.point(.heartRate(bpm: 72, at: clock.read().wall))
        let answer = await destination.deliver([point], alone: false)
        #expect(answer.word == "delivered", "\(answer)")
        #expect(transport.lines == ["POST /o/token/", "POST /FHIR/R5/"])
        #expect(await destination.requestTook == .seconds(1))
    }
}
