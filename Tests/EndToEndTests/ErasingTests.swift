import Foundation
import Testbed
import Testing

/// One patient goes from the gateway, through the real binary (docs/operate/security.md, "Erasing one patient").
@Suite(.serialized) struct ErasingTests {
    /// Whether any file of the state holds `text`.
    private static func isAnywhere(_ text: String, in fixture: TestWorld) throws -> Bool {
        let state = fixture.gateway.directory.appending(path: "state")
        return try FileManager.default.contentsOfDirectory(atPath: state.path).contains {
            let contents = try Data(contentsOf: state.appending(path: $0))
            return contents.range(of: Data(text.utf8)) != nil
        }
    }

    @Test func anErasedPatientLeavesNoTraceAndTheOtherOneGoesOn() async throws {
        try await TestWorld.run(straps: 2) { fixture in
            for index in 0..<2 { try await fixture.put(on: index) }
            let patient = "\(TestWorld.patients[0])"
            try await fixture.eventually("samples of both") { status in
                status.sensors.count == 2 && status.sensors.allSatisfy { $0.stored >= 3 }
                    && status.balance.delivered > 0
            }
            #expect(try Self.isAnywhere(patient, in: fixture))

            let worn = try await fixture.gateway.command(["erase", "e0", "--yes"])
            #expect(worn.status == 1 && worn.complaint.contains("edge-gateway forget"))
            await fixture.exchange.cutNetwork()
            try await fixture.eventually("waiting") { status in
                status.sensors.allSatisfy { $0.pending >= 2 }
            }
            try await fixture.command("forget", TestWorld.addresses[0])
            let waiting = try await fixture.gateway.command(["erase", "e0", "--yes"])
            #expect(waiting.status == 1 && waiting.complaint.contains("--undelivered"))
            let unasked = try await fixture.gateway.command(["erase", "e0", "--undelivered"])
            #expect(unasked.status == 2 && unasked.complaint.contains("--yes"))

            let output = try await fixture.command("erase", "e0", "--undelivered", "--yes")
            #expect(output.contains("tokens are gone") && !output.contains("! may"), "\(output)")
            #expect(try !Self.isAnywhere(patient, in: fixture))
            let state = fixture.gateway.directory.appending(path: "state")
            let files = try FileManager.default.contentsOfDirectory(atPath: state.path)
            #expect(files.filter { $0.hasPrefix("tokens-") } == ["tokens-2.json"])
            #expect(try await !fixture.command("enrollments").contains("e0"))
            let again = try await fixture.gateway.command(["erase", "e0", "--yes"])
            #expect(again.status == 2 && again.complaint.contains("no enrollment is called \"e0\""))
            // A trusted clock's sample of the other patient goes on through stop and start.
            try await fixture.exchange.restoreNetwork()
            #expect(await fixture.gateway.stop().status == 0)
            try await fixture.gateway.start()
            let status = try await fixture.settle()
            #expect(status.balance.balanced && status.sensors.count == 1)
            #expect(
                await fixture.exchange.storedCount(patient: TestWorld.patients[1])
                    == status.balance.delivered)
            #expect(await fixture.exchange.duplicates.isEmpty)
            await fixture.gateway.stop()
            let log = try String(contentsOf: fixture.gateway.logFile, encoding: .utf8)
            #expect(log.contains("a patient was erased") && !log.contains(patient))
        }
    }

    /// What the further one had not got was gone without a word.
    @Test func eraseRefusesWhileAnotherDestinationWaitsForThePatientsSamples() async throws {
        try await TestWorld.run { fixture in
            let path = fixture.gateway.directory.appending(path: "state/study.ndjson").path
            try await fixture.put(on: 0)
            try await fixture.command(
                "destination", "add", "file", "path=\(path)", "--every-strap")
            try await fixture.command("destination", "pause", "file")
            let before = try await fixture.gateway.status().balance.stored
            try await fixture.eventually("more samples") { $0.balance.stored >= before + 3 }
            try await fixture.command("forget", TestWorld.addresses[0])
            try await fixture.eventually("the exchange has all") {
                $0.balance.unsent == 0 && $0.balance.buffered == 0
            }
            let refused = try await fixture.gateway.command(["erase", "e0", "--yes"])
            #expect(
                refused.status == 1 && refused.complaint.contains("--undelivered")
                    && refused.complaint.contains("not delivered to further destinations yet"),
                "\(refused)")
            let output = try await fixture.command("erase", "e0", "--undelivered", "--yes")
            #expect(output.contains("not delivered to further destinations"), "\(output)")
        }
    }

    @Test func aPatientWhoComesBackIsEnrolledAnewAndDelivered() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("delivered") { $0.balance.delivered >= 3 }
            try await fixture.command("forget", TestWorld.addresses[0])
            try await fixture.command("queue", "drain")
            let before = await fixture.exchange.storedCount()
            try await fixture.command("erase", "e0", "--yes", "--json")
            #expect(try await fixture.gateway.status().balance.received == 0)
            try await fixture.put(on: 0)
            try await fixture.eventually("delivered again") { $0.balance.delivered >= 1 }
            let status = try await fixture.settle()
            #expect(status.balance.balanced && status.balance.delivered > 0)
            #expect(
                await fixture.exchange.storedCount() == before + status.balance.delivered)
            #expect(await fixture.exchange.duplicates.isEmpty)
        }
    }
}
