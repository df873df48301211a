import Foundation
import Testbed
import Testing

/// The ledger of gaps, through the real binary.
@Suite(.serialized) struct GapTests {
    private struct Ledger: Decodable {
        struct Gap: Decodable {
            var cause: String
            var seconds: Double?
            var open: Bool
        }
        struct Day: Decodable {
            var percent: Double?
            var coveredSeconds: Double
            var expectedSeconds: Double
            var secondsByCause: [String: Double]
        }
        var gaps: [Gap]
        var coverage: [Day]
    }

    private func ledger(_ fixture: TestWorld, _ words: String...) async throws -> Ledger {
        let output = try await fixture.gateway.command(["gaps", "--json"] + words)
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Ledger.self, from: Data(output.output.utf8))
    }

    private func until(
        _ fixture: TestWorld, _ what: String, _ holds: (Ledger) -> Bool
    ) async throws -> Ledger {
        for _ in 0..<600 {
            let found = try await ledger(fixture)
            if holds(found) { return found }
            try await Task.sleep(for: .milliseconds(200))
        }
        throw GatewayProcess.Fault(
            description: "\(what): not within two minutes: \(try await ledger(fixture))")
    }

    @Test func anAbsentBluetoothdIsTheCauseWhileItIsAwayAndTheDayAddsUp() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.stored + $0.balance.buffered >= 3 }
            try await fixture.bluez.setDaemon(running: false)
            let away = try await until(fixture, "daemon-gone") { ledger in
                ledger.gaps.contains { $0.cause == "daemon-gone" && $0.open }
            }
            #expect(away.coverage.count == 1)
            try await fixture.bluez.setDaemon(running: true)
            let back = try await until(fixture, "the end of the gap") { ledger in
                !ledger.gaps.isEmpty && ledger.gaps.allSatisfy { !$0.open }
            }
            let day = try #require(back.coverage.first)
            let explained = day.secondsByCause.values.reduce(0, +)
            #expect(abs(day.coveredSeconds + explained - day.expectedSeconds) < 0.01)
            #expect(day.secondsByCause["daemon-gone", default: 0] > 2)
        }
    }

    @Test func aRestartedGatewaySaysThatItWasOff() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.stored >= 3 }
            let killed = ContinuousClock.now
            await fixture.gateway.kill()
            try await Task.sleep(for: .seconds(5))
            try await fixture.gateway.start()
            let away = (ContinuousClock.now - killed) / .seconds(1)
            let ledger = try await until(fixture, "gateway-off") { ledger in
                ledger.gaps.contains { $0.cause == "gateway-off" }
            }
            let off = ledger.gaps.first { $0.cause == "gateway-off" }?.seconds ?? 0
            // What was not yet on disk when it was killed is part of it.
            #expect(off > 3 && off < away + 10, "\(off) s of \(away) s")
        }
    }

    @Test func gapsOfAnUnknownStrapAreRefusedWithAdvice() async throws {
        try await TestWorld.run { fixture in
            let outcome = try await fixture.gateway.command([
                "gaps", "--strap", "C0:00:00:00:00:99",
            ])
            #expect(outcome.status == 2)
            #expect(outcome.complaint.contains("there is no strap yet"))
            let empty = try await fixture.command("gaps")
            #expect(empty.contains("no strap was paired in that time"))
        }
    }
}
