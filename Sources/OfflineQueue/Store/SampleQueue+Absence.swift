import Foundation
import GRDB

// A store that cannot be written to at the start, or is being salvaged, is absent: the queue answers from
// a connection that only reads and needs nothing of the disk, takes frames into memory, and opens the
// store when it can be. Calls that would change something throw why they cannot.

/// Why a store is not open for writing.
struct Absence: Sendable {
    /// Pause between two attempts to open it, µs.
    static let pauseMicroseconds: Int64 = 5_000_000

    var error: QueueError
    /// Uptime, µs.
    var nextAttempt: Int64
    /// Whether its salvage is under way.
    var isSalvaging = false

    init(_ error: QueueError, uptime: Int64) {
        self.error = error
        nextAttempt = uptime.addingReportingOverflow(Self.pauseMicroseconds).partialValue
    }
}

extension QueueError {
    /// Whether it may go away by itself, or when a person frees the disk: a queue may wait for that.
    var isAbsence: Bool {
        switch code {
        case .diskFull, .readOnly, .inputOutput: true
        default: isDamage
        }
    }
}

/// Who wears what, as a store says that cannot be written to.
struct StandInRegistry: Sendable {
    private(set) var assignmentIDs: Set<Int64> = []
    /// Of the open assignments. They stand for those that the run begins with.
    private(set) var ledgers: [Int64: KeptLedger] = [:]

    init(_ database: DatabaseQueue, uptime: Int64) {
        let rows = try? database.read { db in
            try Row.fetchAll(db, sql: "SELECT id, ended_boot IS NULL FROM assignment")
        }
        for row in rows ?? [] {
            guard let id = row[0] as Int64? else { continue }
            assignmentIDs.insert(id)
            if row[1] as Bool? == true {
                ledgers[id] = KeptLedger(ledger: GapLedger(beginning: uptime))
            }
        }
    }
}

extension SampleQueue {
    /// Closes the store, so that its files stay as they are, and answers from a stand-in.
    func leaveStore(because error: QueueError, at uptime: Int64) {
        if absence == nil {
            StoreFile.closeKeepingLog(database, path)
        } else {
            try? database.close()
        }
        files = nil
        absence = Absence(error, uptime: uptime)
        answerFromStandIn()
    }

    func answerFromStandIn() {
        // In memory nothing can fail but for want of memory.
        if let standIn = StoreFile.openStandIn(path) ?? (try? StoreFile.openEmpty()) {
            database = standIn
        }
    }

    /// Opens the store again if it is absent and an attempt is due.
    func returnToStoreIfDue(uptime: Int64) {
        guard !isClosed, let absence, !absence.isSalvaging, uptime >= absence.nextAttempt else {
            return
        }
        try? database.close()
        // It may be that it could not be made.
        try? FileManager.default.createDirectory(
            at: URL(fileURLWithPath: path).deletingLastPathComponent(),
            withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        do throws(QueueError) {
            if lock == nil { lock = try StoreLock(path) }
            if run == 0 { try beginRun() } else { try reopen() }
            fault = nil
            failingSince = nil
            // What waited does not wait for its age as well.
            group.committed(remaining: buffer.count, oldestUptime: buffer.first?.uptimeMicroseconds)
        } catch {
            if error.isDamage { damage = error }
            self.absence = Absence(error, uptime: uptime)
            fault = error
            failingSince = failingSince ?? uptime
            answerFromStandIn()
        }
    }

    private func beginRun() throws(QueueError) {
        let opening = StoreOpening(
            path: path, settings: settings, started: started, bootID: bootID, nonce: runNonce)
        let begun = try opening.begin(salvaging: false, whileSalvaging: whileSalvaging)
        database = begun.database
        absence = nil
        files = StoreFiles(of: path)
        salvage = begun.start.salvage
        findings = begun.findings
        walk.through = begun.start.walkedThrough
        boot = begun.start.boot
        run = begun.start.run
        wallOffset = begun.start.wallOffset
        nextSample = begun.start.nextSample
        assignmentIDs = begun.start.assignmentIDs
        ledgers = begun.start.ledgers
        // Frames of assignments that the store does not know: the stand-in was of another one.
        buffer.removeAll { !assignmentIDs.contains($0.assignmentID) }
        refusals = refusals.filter { assignmentIDs.contains($0.key) }
        if buffer.isEmpty {
            ledgers.tell([], ledgerEvents)
            ledgerEvents = []
        }
    }

    private func reopen() throws(QueueError) {
        database = try StoreFile.open(path, pageCountMax: settings.pageCountMax)
        let before = absence
        absence = nil
        do throws(QueueError) {
            try resume(clock.read())
            files = StoreFiles(of: path)
            try? StoreMarker(besides: path).write(try read("read store", StoreMarker.id(of:)))
        } catch {
            absence = before
            StoreFile.closeKeepingLog(database, path)
            throw error
        }
    }
}
