import Basics
import Foundation
import Logging
import OfflineQueue
import Testbed
import Testing

@testable import Uplink

/// What a FHIR server of other people's says to what the contract does not have.
@Suite(.serialized) struct FHIRServerTests {
    private struct Clock: GatewayClock {
        func read() -> ClockReading {
            ClockReading(uptime: .zero + .seconds(1_000), wall: .now(), isTrusted: true)
        }
    }

    private static var parts: DestinationParts {
        DestinationParts(
            transport: CurlTransport(), clock: Clock(),
            logger: Logger(label: "fhir") { _ in SwiftLogNoOpLogHandler() })
    }

    private static func point(
        _ content: DataPoint.Content, sample: Int64, patient: String = "40001"
    ) -> OutgoingPoint {
        OutgoingPoint(
            DataPoint(uuid: SampleIdentity(runNonce: 7, sample: sample).description, content),
            patient: patient, sensorID: 1, strap: StrapDatasheet(model: "Mödel \"ℍ\" \\"))
    }

    /// Runs `body` with a server, which is stopped whatever happens.
    private func with(
        _ signIn: FHIRSystem.SignIn, _ body: (FHIRSystem) async throws -> Void
    ) async throws {
        let system = try await FHIRSystem.start(signIn)
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(system))
        } catch {
            outcome = .failure(error)
        }
        await system.stop()
        try outcome.get()
    }

    @Test func aKeyOfTheGatewaysSignsInAtAServerThatHasItsPublicHalf() async throws {
        let key = try #require(SigningKey.make())
        let other = try #require(SigningKey.make())
        try await with(.keySet(key.keySet)) { system in
            var settings = system.settings
            settings["client-id"] = FHIRSystem.client
            settings["scope"] = FHIRSystem.scope
            settings["key"] = key.text.revealed
            let kind = try DestinationRegistry.destination("fhir", settings)
            #expect(try await kind.probe(Self.parts).checked.count == 2)
            let answer = await kind.make(Self.parts).deliver(
                [Self.point(.heartRate(bpm: 72, at: .now()), sample: 1)], alone: false)
            #expect(answer == .entries([EntryAnswer(.stored)]))
            #expect(try await system.counts() == (1, 0))
            settings["key"] = other.text.revealed
            let foreign = try DestinationRegistry.destination("fhir", settings)
            let problem = await #expect(throws: DestinationProblem.self) {
                _ = try await foreign.probe(Self.parts)
            }
            #expect(problem?.message == HoldReason.credentialsRefused.meaning)
        }
    }

    @Test func averagesGapsAndDaysAreObservationsThatOtherModelsRead() async throws {
        try await with(.none) { system in
            var settings = system.settings
            settings["patient-system"] = "urn:oid:1.2.3.4.5.1"
            settings["device"] = "Device/polar-7"
            let start = UTC(microseconds: UTC.now().microseconds / 60_000_000 * 60_000_000)
            let points = [
                Self.point(
                    .averageHeartRate(
                        tenths: 723, count: 58, window: start..<(start + .seconds(60))),
                    sample: 1),
                Self.point(.heartRate(bpm: 240, at: start), sample: 2, patient: "ü \"1\""),
            ]
            let gap = { (from: UTC?, until: UTC?) in
                LedgerEntry.Content.gap(
                    .outOfRange, from: from, until: until, length: .seconds(75))
            }
            let gaps = [
                gap(start, start + .seconds(75)), gap(start, nil), gap(nil, start), gap(nil, nil),
            ].enumerated().map {
                LedgerEntry(id: "gap-\($0)", sensorID: 1, patient: "40001", $1)
            }
            for settings in [settings, system.settings] {
                let destination = try DestinationRegistry.destination("fhir", settings)
                    .make(Self.parts)
                let answer = await destination.deliver(points, alone: false)
                guard case .entries(let entries) = answer else {
                    Issue.record("\(answer)")
                    return
                }
                let areAllTaken = entries.allSatisfy(\.isTaken)
                #expect(areAllTaken)
                #expect(await destination.deliver(ledger: gaps) == .stored)
            }
            #expect(try await system.counts() == (59, 0))
            #expect(try #require(try await system.ledgerCounts()) == (4, 0))
        }
    }

    /// Another client created it without a condition: the server answers 412 to each repetition.
    @Test func aSampleThatTheServerHasTwiceIsDelivered() async throws {
        try await with(.none) { system in
            let kind = try #require(
                try DestinationRegistry.destination("fhir", system.settings) as? any HTTPKind)
            let points = (1...3).map {
                Self.point(.heartRate(bpm: 72, at: .now()), sample: $0)
            }
            let context = RequestContext(seconds: 0)
            var request = kind.request([points[1]], context)
            request.body = Array(
                String(decoding: request.body, as: UTF8.self)
                    .replacing(/,"ifNoneExist":"[^"]*"/, with: "").utf8)
            for _ in 0..<2 { _ = try await CurlTransport().send(request) }
            let answer = await kind.make(Self.parts).deliver(points, alone: false)
            guard case .entries(let entries) = answer else {
                Issue.record("\(answer)")
                return
            }
            #expect(entries.map(\.verdict) == [.stored, .storedBefore, .stored])
            #expect(try await system.counts() == (3, 1))
        }
    }

    /// All that it says of one Observation is about that one.
    @Test func anObservationThatIsRefusedTakesNoOtherWithIt() async throws {
        try await with(.none) { system in
            let kind = try #require(
                try DestinationRegistry.destination("fhir", system.settings) as? any HTTPKind)
            let points = (1...3).map {
                Self.point(.heartRate(bpm: 71 + Int($0), at: .now()), sample: $0)
            }
            var request = kind.request(points, RequestContext(seconds: 0))
            // The second one alone has no status.
            let text = String(decoding: request.body, as: UTF8.self)
            let parts = text.ranges(of: #","status":"final""#)
            request.body = Array(text.replacingCharacters(in: parts[1], with: "").utf8)
            let answer = try await CurlTransport().send(request)
            guard case .each(let entries) = kind.meaning(of: answer, to: 3) else {
                Issue.record("\(String(decoding: answer.body.prefix(300), as: UTF8.self))")
                return
            }
            #expect(entries.map(\.verdict) == [.stored, .unclear, .stored])
            #expect(entries[1].diagnostics.contains("status"))
            #expect(try await system.counts() == (2, 0))
        }
    }
}
