import Foundation
import Testbed
import Testing

/// A strap that is paired and is paired again, as `status` advises for a lost bond.
@Suite(.serialized) struct PairAgainTests {
    private struct Assignment: Decodable, Equatable {
        var enrollment: String?
        var patient: String?
        var isOpen: Bool
    }

    /// Who has worn strap `index`, read by another program than the gateway.
    private func assignments(_ fixture: TestWorld, _ index: Int) async throws -> [Assignment] {
        let store = fixture.gateway.directory.appending(path: "state/queue.sqlite").path
        let script = """
            import json, sqlite3, sys
            rows = sqlite3.connect(sys.argv[1]).execute('''
                SELECT e.name, a.patient, a.ended_boot IS NULL FROM assignment a
                JOIN sensor s ON s.id = a.sensor LEFT JOIN enrollment e ON e.id = a.enrollment
                WHERE s.address = ? ORDER BY a.id''', [sys.argv[2]])
            print(json.dumps([dict(enrollment=e, patient=p, isOpen=bool(o)) for e, p, o in rows]))
            """
        let read = try await Command.run(
            "/usr/bin/python3", ["-c", script, store, TestWorld.addresses[index]])
        try #require(read.status == 0, "\(read.complaint)")
        return try JSONDecoder().decode([Assignment].self, from: Data(read.output.utf8))
    }

    @Test func aStrapGoesOnForItsPatientUnderItsNameThoughAnEnrollmentIsTheOnlyOne() async throws {
        let host = try await SystemHost.start("again", needs: MosquittoBroker.needs) { $0 }
        defer { Task.detached { await host.stop() } }
        let broker = try await MosquittoBroker.start(on: host)
        try await TestWorld.run(straps: 2) { fixture in
            try await fixture.put(on: 0)
            try await fixture.command(
                "destination", "add", "mqtt", "url=mqtt://127.0.0.1:\(broker.port)",
                "gateway=ward", "--name", "ward")
            let strap = TestWorld.addresses[1]
            try await fixture.command(
                "pair", strap, "--enrollment", "ward", "--patient", "7", "--name", "bed 4")
            let output = try await fixture.command("pair", strap)
            #expect(output.contains("delivers through ward"), "\(output)")
            #expect(output.contains("bed 4"), "\(output)")
            let own = Assignment(enrollment: "ward", patient: "7", isOpen: true)
            #expect(try await assignments(fixture, 1) == [own])
            // Who forgets the patient does not take it from the strap.
            try await fixture.command("pair", strap, "--enrollment", "ward", "--name", "bed 5")
            #expect(try await assignments(fixture, 1) == [own])
            let status = try await fixture.gateway.status()
            #expect(status.sensors.contains { $0.address == strap && $0.name == "bed 5" })
            // Who names another one does.
            try await fixture.command("pair", strap, "--patient", "8")
            #expect(
                try await assignments(fixture, 1).map(\.patient) == ["7", "8"])
            try await fixture.command("pair", strap, "--enrollment", "e0")
            #expect(
                try await assignments(fixture, 1).last
                    == Assignment(enrollment: "e0", patient: nil, isOpen: true))
        }
    }

    @Test func aStrapKeepsThePatientThatItHadBeforeThereWasAnEnrollment() async throws {
        try await TestWorld.run { fixture in
            let strap = TestWorld.addresses[0]
            try await fixture.command("pair", strap, "--patient", "\(TestWorld.patients[0])")
            let link = await fixture.exchange.invite(patient: TestWorld.patients[0])
            try await fixture.command("enroll", "-", "--name", "e0", input: link)
            try await fixture.command("pair", strap)
            let patient = "\(TestWorld.patients[0])"
            #expect(
                try await assignments(fixture, 0)
                    == [Assignment(enrollment: "e0", patient: patient, isOpen: true)])
            try await fixture.eventually("all go to the patient") {
                $0.balance.delivered > 0 && !$0.health.contains { $0.name == "not-enrolled" }
            }
        }
    }
}
