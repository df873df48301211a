import Foundation
import OfflineQueue
import Testbed
import Testing

@testable import EdgeGateway

/// A gateway that is not set up says what is missing, and the same to everybody.
@Suite struct NextStepTests {
    private static func status(
        _ change: (inout StatusReport) -> Void = { _ in }
    ) -> StatusReport {
        var status = StatusReport(
            gateway: GatewayIdentity(name: "attic"), version: "0", well: true, health: [],
            uptimeSeconds: 1, clockTrusted: true, sensors: [], enrollments: [], destinations: [],
            balance: BalanceReport(
                received: 0, stored: 0, undecodable: 0, refused: [:], delivered: 0, pending: 0,
                held: [:], dead: 0, dropped: [:], buffered: 0, balanced: true))
        change(&status)
        return status
    }

    private static let strap = SensorReport(
        id: 1, address: "C0:00:00:00:00:01", name: "bed 4", link: "absent", enrollment: "e1",
        stored: 0, pending: 0)
    private static let enrollment = EnrollmentReport(
        name: "e1", kind: "invitation", exchange: "https://exchange.example", code: "c",
        resolution: "raw", state: "active", pending: 0, delivered: 0, dead: 0)

    @Test func theStepsFollowOneAnotherAndThenThereIsNone() {
        var status = Self.status()
        func step() -> NextStep.Step? { NextStep(status)?.step }
        #expect(step() == .enroll)
        status.enrollments = [Self.enrollment]
        #expect(step() == .pair)
        var unbound = Self.strap
        unbound.enrollment = nil
        status.sensors = [unbound]
        #expect(step() == .pair, "it was paired before there was an enrollment")
        status.sensors = [Self.strap]
        #expect(step() == .wear)
        status.sensors[0].bpm = 70
        #expect(step() == .deliver)
        status.health = [
            HealthItem(
                name: "exchange-unreachable", severity: "error", since: Date(), message: "m",
                advice: "a")
        ]
        #expect(step() == nil, "the item says what to do")
        status.health = []
        status.enrollments[0].delivered = 1
        #expect(step() == nil)
    }

    /// It said "well", and nothing was recorded or sent.
    @Test func aFreshGatewayIsNotWellWithoutAWord() async throws {
        var fresh = Self.status()
        fresh.nextStep = NextStep(fresh)
        #expect(StatusCommand.verdict(fresh) == "well so far, and not set up yet")
        #expect(LiveGatewayReport(fresh).nextStep?.step == .enroll)
        let lines = WatchView().lines(
            LiveReport(at: MillisecondTime(Date()), scope: "full", straps: []), fresh.nextStep)
        #expect(lines.contains { $0.contains("edge-gateway setup") }, "\(lines)")
        try await ServerFixture.run { fixture in
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                let status = try await fixture.command(["status"])
                #expect(status.output.contains("next: edge-gateway setup"), "\(status.output)")
                let setup = try await fixture.command(["setup"])
                #expect(setup.status == 2 && setup.complaint.contains("edge-gateway enroll -"))
            }
        }
    }

    /// `enrollments` said "active" of what `status` said does not deliver.
    @Test func anEnrollmentHasTheStateThatStatusHas() {
        let item = HealthItem(
            name: "exchange-unreachable", severity: "error", since: Date(),
            deliveries: ["e1", "e2"],
            message: "m", advice: "a")
        let reports = [item].noted(in: [Self.enrollment])
        #expect(reports[0].health == ["exchange-unreachable"])
        #expect(EnrollmentsCommand.table(reports, columns: nil).contains("exchange-unreachable"))
        var held = reports[0]
        held.held = "no-consent"
        #expect(held.stateInAWord == "no-consent")
        #expect(Self.enrollment.stateInAWord == "active")
    }
}
