import GRDB
import GRDBSQLite
import Testing

@testable import OfflineQueue

/// What a delivery costs the processor lies in what SQLite compiles.
@Suite struct StatementTests {
    @Test func theStatementsOfADeliveryAreCompiledOnce() async throws {
        let store = try TestStore()
        let clock = ManualClock()
        let queue = try await store.open(clock)
        let worn = try await Worn(queue)
        for _ in 0..<10 { try await queue.beat(worn.assignment, clock) }
        try await queue.flush()
        for _ in 0..<4 {
            try await queue.beginRequest(enrollment: worn.enrollment.id)
            let batch = try await queue.nextBatch(enrollment: worn.enrollment.id, limit: 2)
            _ = try await queue.sensors()
            try await queue.settleSoon(
                enrollment: worn.enrollment.id, batch.map { SettledSample($0, .delivered) },
                upload: UploadRecord(batch, outcome: "delivered"), isAnswered: true)
        }
        let again = try await queue.compiledAgain()
        #expect(again == [])
    }
}

extension SampleQueue {
    /// The statements of this connection that SQLite had to compile anew.
    fileprivate func compiledAgain() throws -> [String] {
        try read("count") { db in
            var found: [String] = []
            var statement: OpaquePointer?
            while true {
                statement = sqlite3_next_stmt(db.sqliteConnection, statement)
                guard let statement else { return found }
                if sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0) > 0 {
                    found.append(sqlite3_sql(statement).map { String(cString: $0) } ?? "")
                }
            }
        }
    }
}
