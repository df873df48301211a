import Basics
import Foundation
import OfflineQueue
import Testing

@testable import EdgeGateway

/// The days that `gaps` lists.
@Suite struct GapServiceTests {
    /// `gaps --last 31d` was refused with "this command lists 1 to 31 days": it touches 32 of UTC.
    @Test func aMonthIsListedWhateverDaysOfUTCItTouches() async throws {
        try await ServerFixture.run { fixture in
            let gaps = fixture.gateway.gaps
            let now = SystemClock(trust: .always).read().wall
            _ = try await gaps.gaps(
                sensor: nil, days: 1, since: now - Coverage.day * 31, until: nil)
            // The month in which clocks are set back.
            _ = try await gaps.gaps(
                sensor: nil, days: 1, since: now - Coverage.day * 32 - .seconds(3_600),
                until: now - Coverage.day)
            await #expect(throws: ProblemReport.self) {
                _ = try await gaps.gaps(
                    sensor: nil, days: 1, since: now - Coverage.day * 32, until: nil)
            }
        }
    }

    /// It said that the beginning is in the future, of which nobody had given one.
    @Test func anEndThatIsToComeIsNow() async throws {
        try await ServerFixture.run { fixture in
            let now = SystemClock(trust: .always).read().wall
            _ = try await fixture.gateway.gaps.gaps(
                sensor: nil, days: 1, since: nil, until: now + Coverage.day * 5)
        }
    }
}
