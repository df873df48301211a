import Basics
import GRDB

/// A segment that an import makes, and its books.
struct ImportedSegment: Sendable {
    var id: Int64
    var run: Int64
    var firstSample: Int64
    var shift: Int64
    var count = 0
    var lastSample: Int64
    var lastUptime: Uptime
    /// Its day (UTC), in days since 1970-01-01; nil without a time.
    var day: Int64?
    /// Of all its samples; nil without a time.
    var wallOffset: WallOffset?
    /// Nil: all of it waits.
    var states: States?

    struct States: Sendable, Hashable {
        var own: SampleState
        /// By the number of the destination.
        var further: [Int64: SampleState] = [:]
    }

    func write(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE segment SET received = ?1, stored = ?1, last_sample = ?2, last_uptime_us = ?3
                WHERE id = ?4
                """, arguments: [count, lastSample, lastUptime, id])
        guard let states else { return }
        func settle(_ books: DeliveryBooks, _ state: SampleState) throws {
            guard !state.isUnsent else { return }
            let isDropped = state == .dropped
            try books.move(
                db, through: lastSample, delivered: state == .delivered ? count : 0,
                dead: state == .dead ? count : 0, dropped: isDropped ? count : 0)
            guard isDropped else { return }
            try books.note(db, dropped: count, SampleImport.saved)
            try books.note(db, dropped: firstSample...lastSample, SampleImport.saved)
        }
        try settle(DeliveryBooks(segment: id), states.own)
        let further = try Int64.fetchAll(
            db, sql: "SELECT destination FROM further_delivery WHERE segment = ?", arguments: [id])
        for destination in further {
            if let state = states.further[destination] {
                try settle(DeliveryBooks(segment: id, further: destination), state)
            } else {
                // It came before that destination was added.
                try db.execute(
                    sql: """
                        UPDATE further_delivery SET settled_through = ?, before = ?
                        WHERE segment = ? AND destination = ?
                        """, arguments: [lastSample, count, id, destination])
            }
        }
    }

    /// A dead letter of a broken store stays one. Why it was refused is not known any more.
    func insertLetters(of sample: Int64, _ db: Database) throws {
        let dead = (states?.further ?? [:]).filter { $0.value == .dead }.map { Optional($0.key) }
        for further in dead + (states?.own == .dead ? [nil] : []) {
            try DeliveryBooks(segment: id, further: further).insertLetter(
                db, of: sample, reason: SampleImport.saved)
        }
    }
}
