import Basics
import Foundation
import Synchronization
import Testing

@testable import OfflineQueue
@testable import Uplink

/// The gap ledger at an exchange, which keeps it beside its own observations, or does not know such things.
@Suite struct ExchangeLedgerTests {
    private static let capabilities = #"""
        {"resourceType":"CapabilityStatement","rest":[{"mode":"server","resource":[{"type":"Observation",
        "documentation":"Creates must name a FhirSource via the X-JHE-FHIR-Source-ID header."}]}]}
        """#
    private static let unknownSource =
        #"{"resourceType":"OperationOutcome","issue":[{"diagnostics":"FhirSource '90003' does not exist."}]}"#
    private static let refused =
        #"{"resourceType":"OperationOutcome","issue":[{"diagnostics":"40001: status is wrong"}]}"#

    private static let gap = LedgerEntry(
        id: "boot-81-1", sensorID: 3, patient: nil,
        .gap(
            .outOfRange, from: UTC(microseconds: 1_763_798_400_000_000),
            until: UTC(microseconds: 1_763_798_472_500_000), length: .microseconds(72_500_000)))
    private static let unplaced = LedgerEntry(
        id: "boot-82-1", sensorID: 3, patient: nil,
        .gap(.clockUnknown, from: nil, until: nil, length: nil))
    private static let day = LedgerEntry(
        id: "day-1", sensorID: 3, patient: nil,
        .coverage(day: 20_414, Coverage(dayStart: UTC(day: 20_414))))

    private struct Scene {
        let transport: ScriptedTransport
        let clock = StillClock()
        let destination: ExchangeDestination
        let scratch: Scratch

        /// An exchange that answers so; what is left out is as at a new one.
        init(
            kind: Enrollment.Kind = .invitation,
            _ answer:
                @escaping @Sendable (HTTPRequest) -> Result<HTTPAnswer, TransportFault>? = { _ in
                    nil
                }
        ) async throws {
            let usual = EnrollerTests.exchange()
            let enrolled = try await EnrollerTests.enroll(usual)
            transport = ScriptedTransport { request in
                if let answer = answer(request) { return answer }
                switch (request.method, request.target) {
                case (.get, "/FHIR/R5/metadata"):
                    return .json(200, ExchangeLedgerTests.capabilities)
                case (.post, "/api/v1/fhir_sources"): return .json(201, #"{"id":90003}"#)
                case (.post, "/FHIR/R5/Observation"):
                    return .json(201, #"{"resourceType":"Observation"}"#)
                default: return .json(404, "{}")
                }
            }
            scratch = try Scratch()
            let tokens = RenewingTokens(
                record: enrolled.tokens, file: TokenFile(path: scratch.path + "/tokens.json"),
                transport: transport, clock: clock, logger: .quiet)
            let terms = EnrollmentTerms(
                name: "e1", kind: kind, origin: enrolled.tokens.origin.description,
                fhirBase: "/FHIR/R5/", clientID: "gw", patient: "40001", device: "70007",
                codeSystem: "https://w3id.org/openmhealth", code: "omh:heart-rate:2.0",
                identifierSystem: "urn:x")
            destination = try #require(
                ExchangeDestination(
                    terms: terms, tokens: tokens, transport: transport, clock: clock,
                    logger: .quiet))
        }

        func observations() -> [HTTPRequest] {
            transport.requests.filter { $0.target == "/FHIR/R5/Observation" }
        }
    }

    @Test func eachEntryIsAnObservationUnderTheSourceOfTheGateway() async throws {
        let scene = try await Scene()
        #expect(scene.destination.takesLedger)
        for _ in 0..<2 {
            let answer = await scene.destination.deliver(ledger: [
                Self.gap, Self.unplaced, Self.day,
            ])
            #expect(answer == .stored)
        }
        #expect(
            scene.transport.lines.prefix(2) == [
                "GET /FHIR/R5/metadata", "POST /api/v1/fhir_sources",
            ])
        #expect(scene.transport.requests[0].headers.isEmpty, "nobody is told a token for that")
        let sent = scene.observations()
        #expect(sent.count == 6 && scene.transport.requests.count == 8, "it is asked once")
        #expect(
            sent.allSatisfy { request in
                request.headers.contains {
                    $0.name == "X-JHE-FHIR-Source-ID" && $0.value == "90003"
                }
            })
        // A repetition is the same to the last byte, its id included.
        #expect(sent[0].body == sent[3].body && sent[2].body == sent[5].body)
        let bodies = try sent.prefix(3).map {
            try #require(
                try JSONSerialization.jsonObject(with: Data($0.body)) as? [String: Any])
        }
        #expect(Set(bodies.compactMap { $0["id"] as? String }).count == 3)
        for body in bodies {
            #expect(body["resourceType"] as? String == "Observation")
            #expect((body["id"] as? String)?.count == 36)
            #expect((body["subject"] as? [String: String])?["reference"] == "Patient/40001")
            #expect((body["device"] as? [String: String])?["reference"] == "Device/70007")
            #expect(!body.keys.contains { $0.hasPrefix("_") }, "the exchange renames them")
        }
        let period = bodies[0]["effectivePeriod"] as? [String: String]
        #expect(period?["start"] == "2025-11-22T08:00:00.000Z")
        #expect(bodies[1]["effectivePeriod"] == nil && bodies[0]["dataAbsentReason"] != nil)
        #expect((bodies[2]["valueQuantity"] as? [String: Any])?["value"] as? Double == 0)
    }

    /// Versions up to v0.0.13 have no CapabilityStatement.
    @Test(arguments: [
        (404, "<h1>Not Found</h1>"), (401, #"{"detail":"x"}"#), (200, "{}"), (200, "<html>"),
        (200, #"{"rest":[{"resource":[{"type":"Observation","documentation":"x"}]}]}"#),
    ])
    func anExchangeThatDoesNotSayThatItTakesThemGetsNone(status: Int, body: String) async throws {
        let scene = try await Scene { request in
            request.target.hasSuffix("/metadata") ? .json(status, body) : nil
        }
        for _ in 0..<3 {
            #expect(await scene.destination.deliver(ledger: [Self.gap]) == .later)
        }
        #expect(scene.transport.lines == ["GET /FHIR/R5/metadata"])
        // A day later it may be a newer one.
        scene.clock.advance(by: LedgerPlace.noneTime)
        #expect(await scene.destination.deliver(ledger: [Self.gap]) == .later)
        #expect(scene.transport.lines.count == 2)
    }

    @Test func aPractitionersKeyMayNotAndDoesNotTry() async throws {
        let scene = try await Scene(kind: .practitionerKey)
        #expect(!scene.destination.takesLedger)
        let refused = try await Scene { request in
            request.target.hasSuffix("fhir_sources")
                ? .json(403, #"{"detail":"Only patient users can register a FhirSource."}"#) : nil
        }
        #expect(await refused.destination.deliver(ledger: [Self.gap]) == .later)
        #expect(await refused.destination.deliver(ledger: [Self.gap]) == .later)
        #expect(refused.transport.requests.count == 2)
    }

    @Test func aSourceThatABackupLacksIsMadeAnew() async throws {
        let isGone = Mutex(true)
        let scene = try await Scene { request in
            let isFirst = isGone.withLock { gone in
                defer { if request.target.hasSuffix("/Observation") { gone = false } }
                return gone
            }
            return request.target.hasSuffix("/Observation") && isFirst
                ? .json(400, Self.unknownSource) : nil
        }
        let answer = await scene.destination.deliver(ledger: [Self.gap])
        guard case .partly([], _) = answer else {
            Issue.record("\(answer)")
            return
        }
        #expect(await scene.destination.deliver(ledger: [Self.gap]) == .stored)
        #expect(scene.transport.lines.count { $0.hasSuffix("fhir_sources") } == 2)
    }

    /// Gaps and days of an assignment waited for ever behind one that the exchange refused.
    @Test func anEntryThatIsRefusedIsOverOnceTheExchangeTakesAnother() async throws {
        // Of the first entry alone nobody knows whether it is its own fault.
        let refused = try await Scene { request in
            request.target.hasSuffix("/Observation") ? .json(422, Self.refused) : nil
        }
        let scene = try await Scene { request in
            request.target.hasSuffix("/Observation") && request.isUnplacedGap
                ? .json(422, Self.refused) : nil
        }
        let entries = [Self.unplaced, Self.gap, Self.day]
        for (answer, wanted) in [
            (await refused.destination.deliver(ledger: entries), [.waits, .waits, .waits]),
            (await scene.destination.deliver(ledger: [Self.unplaced]), [.waits]),
            (await scene.destination.deliver(ledger: entries), [.refused, .stored, .stored]),
            (await scene.destination.deliver(ledger: [Self.unplaced]), [.refused]),
        ] as [(LedgerAnswer, [LedgerVerdict])] {
            guard case .partly(wanted, let words) = answer else {
                Issue.record("\(answer) instead of \(wanted)")
                continue
            }
            #expect(words.contains("status is wrong") && !words.contains("40001"))
        }
        #expect(scene.observations().count == 5, "those behind it go as well")
    }

    @Test(
        arguments: [
            (.failure(.timeout), .later), (.failure(.connect), .later),
            (.html(502), .failed("")), (.json(500, "{}"), .failed("")),
        ] as [(Result<HTTPAnswer, TransportFault>, LedgerAnswer)])
    func aFailureIsToldOnceTheSamplesDoNotTellIt(
        given: Result<HTTPAnswer, TransportFault>, wanted: LedgerAnswer
    ) async throws {
        for place in ["/metadata", "fhir_sources", "/Observation"] {
            let scene = try await Scene { $0.target.hasSuffix(place) ? given : nil }
            let answer = await scene.destination.deliver(ledger: [Self.gap])
            switch (answer, wanted) {
            case (.later, .later), (.failed, .failed): break
            default: Issue.record("\(place): \(answer)")
            }
        }
    }

    /// Its own patient's number may mean another person now.
    @Test func nothingIsToldWhileItIsNotKnownWhosePatientTheNumberMeans() async throws {
        let scene = try await Scene { $0.target.hasSuffix("profile") ? .json(500, "{}") : nil }
        var terms = await scene.destination.terms
        terms.patientFingerprints = ["40001": "x"]
        await scene.destination.update(terms)
        #expect(await scene.destination.deliver(ledger: [Self.gap]) == .later)
        #expect(scene.observations().isEmpty)
    }
}

extension HTTPRequest {
    /// Whether it has the gap of a time that is not known.
    fileprivate var isUnplacedGap: Bool {
        let body = String(decoding: body, as: UTF8.self)
        return body.contains("dataAbsentReason") && !body.contains("effectivePeriod")
    }
}
