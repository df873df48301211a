import Basics
import Testing

@testable import OfflineQueue

@Suite struct CoverageTests {
    /// A day without a gap used to be covered by 100.00000000000001 percent.
    @Test func nothingIsCoveredByMoreThanAHundredPercent() {
        var coverage = Coverage(dayStart: .epoch)
        coverage.coveredSeconds = 0.1 + 0.2
        coverage.expectedSeconds = 0.3
        #expect(coverage.percent == 100)
    }
}
