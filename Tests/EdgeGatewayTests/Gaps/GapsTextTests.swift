import Foundation
import Testing

@testable import EdgeGateway

/// What `gaps` prints for a person.
@Suite struct GapsTextTests {
    private static let gap = GapReport(
        sensor: 1, address: "C0:00:00:00:00:01", name: "Ada", cause: "clock-unknown", from: nil,
        until: nil, seconds: nil, open: false)
    private static let day = CoverageReport(
        sensor: 1, address: "C0:00:00:00:00:01", name: "Ada",
        day: Date(timeIntervalSince1970: 1_796_083_200), expectedSeconds: 100, coveredSeconds: 90,
        percent: 90, longestGapSeconds: 10, secondsByCause: ["link-lost": 10])

    /// While the clock of the running boot was untrusted it said that no strap was paired.
    @Test func gapsAreListedAlsoWhereNoDaysShareIsKnown() {
        let text = GapsCommand.text(GapsReport(gaps: [Self.gap], more: true, coverage: []), .utc)
        #expect(text.contains("clock-unknown  Ada"), "\(text)")
        #expect(text.contains("there are more"))
        #expect(text.contains("takes a trusted clock"))
        #expect(text.contains("MEANS"), "what the cause means")
        #expect(!text.contains("no strap was paired"))
    }

    @Test func sharesFollowTheGapsAndTheCausesThem() {
        let text = GapsCommand.text(
            GapsReport(gaps: [Self.gap], more: false, coverage: [Self.day]), .utc)
        let parts = text.components(separatedBy: "\n\n")
        #expect(parts.count == 3)
        #expect(parts[1].contains("90.0 %") && parts[2].contains("link-lost"))
        #expect(!text.contains("takes a trusted clock"))
    }

    @Test func whereNothingIsKnownItSaysWhatThatCanBe() {
        let text = GapsCommand.text(GapsReport(gaps: [], more: false, coverage: []), .utc)
        #expect(text.contains("no strap was paired") && text.contains("edge-gateway status"))
    }
}
