import Basics
import GRDB
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

    /// Once a minute every gap that there ever was was read.
    @Test func theGapsOfADayAreReadInTheOrderOfAnIndex() async throws {
        let store = try TestStore()
        try await store.open(ManualClock()).close()
        let all: [(sql: String, arguments: [Int64], index: String)] = [
            (GapRow.withinDaySQL, [0, 1], "gap_end (until_boot=? AND until_uptime_us>?)"),
            (GapRow.betweenBootsSQL, [1], "gap_between_boots (assignment=?)"),
        ]
        for (sql, arguments, index) in all {
            let plan = try await DatabaseQueue(path: store.path).read { db in
                try Row.fetchAll(
                    db, sql: "EXPLAIN QUERY PLAN " + sql, arguments: StatementArguments(arguments)
                ).map { $0["detail"] as String }
            }
            #expect(plan.contains { $0.contains(index) }, "\(plan)")
        }
    }
}
