import Basics
import Foundation
import GRDB

// At the end of a run the disk may still refuse. What is in memory then goes into a file wherever one can be
// made: the runtime directory, which is memory as well and outlives the process. The next run that opens
// the store commits it in the name of the run that left it, as that would have done, and ends that run in
// the same transaction: so it is taken up once, whatever happens to the file.

/// What a run could not write into its store.
struct SetAside: Codable, Sendable {
    private static let prefix = "edge-gateway-aside-"
    private static let magic = "edge-gateway-aside 1"
    /// Files of this kind that are made in one directory at most: a gateway that starts again and again on a
    /// full disk must not fill the memory.
    private static let filesMax = 16

    /// Of the store (``Sidecar/storeID(_:)``).
    var store: String
    var bootID: String
    var nonce: UInt64
    var started: ClockReading
    var ended: Uptime
    var clock: BootClock
    var arrivals: [Arrival]
    var refusals: [Int64: Int]
    var known: UnsureCommit.Known
    /// Frames that found no room here either, by assignment.
    var framesGivenUp: [Int64: Int] = [:]
    var events: [LedgerEvent]
    /// As of the last commit; empty if the run had not begun in the store.
    var ledgers: [Int64: KeptLedger]

    /// The same without its frames, which are counted as refused: a few hundred bytes.
    func withoutFrames() -> SetAside {
        var counted = self
        counted.framesGivenUp = arrivals.reduce(into: [:]) { $0[$1.assignmentID, default: 0] += 1 }
        counted.arrivals = []
        counted.events = []
        return counted
    }

    // MARK: - Files

    /// Writes it into the first directory that takes it.
    func write(in directories: [String]) -> Bool {
        guard let payload = try? JSONEncoder().encode(self) else { return false }
        for directory in directories where Self.files(in: directory).count < Self.filesMax {
            let path = "\(directory)/\(Self.prefix)\(String(nonce, radix: 16))"
            if (try? PrivateFile.replace(path, with: PrivateFile.sealed(Self.magic, payload)))
                != nil
            {
                return true
            }
        }
        return false
    }

    /// The files there are, oldest first, as paths.
    static func files(in directory: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.filter { $0.hasPrefix(prefix) && !$0.hasSuffix(".part") }
            .map { "\(directory)/\($0)" }
    }

    // MARK: - Taking up

    /// Commits it in the name of its run, unless that was done before.
    func store(_ db: Database, _ settings: QueueSettings) throws {
        let row = try Row.fetchOne(
            db, sql: "SELECT id, boot, ended_uptime_us FROM run WHERE nonce = ?",
            arguments: [Int64(bitPattern: nonce)])
        guard row?["ended_uptime_us"] as Uptime? == nil else { return }
        let run: Int64
        let boot: Int64
        var kept: [Int64: KeptLedger] = [:]
        if let row {
            (run, boot) = (row["id"] ?? 0, row["boot"] ?? 0)
            let newest = try Int64.fetchOne(
                db, sql: "SELECT max(id) FROM run WHERE is_imported = 0")
            // If there was another run since, the unknown time is already recorded as a gap.
            if run == newest {
                kept = ledgers
                // The run had not begun as far as it knew.
                if kept.isEmpty { kept = try Self.openLedgers(db, beginning: started.uptime) }
            }
        } else {
            let start = try RunStart(db, bootID: bootID, nonce: nonce, reading: started)
            (run, boot, kept) = (start.run, start.boot, start.ledgers)
        }
        // A later run of the boot may know more.
        let stored = try BootClock(db, boot: boot) ?? BootClock()
        var clock = stored.newest > self.clock.newest ? stored : self.clock
        let facts = arrivals.compactMap { clock.note($0.reading) }
        if let offset = clock.offset, clock.isKnown {
            try clock.write(.found(offset), boot: boot, source: "clock", db)
        }
        for fact in facts { try clock.write(fact, boot: boot, source: "clock", db) }
        // A salvage may have lost some.
        let assignments = try Int64.fetchSet(db, sql: "SELECT id FROM assignment")
        kept = kept.filter { assignments.contains($0.key) }
        // A change that the disk refused at last counts by now.
        let changes = try EndedAssignments(
            db, among: Set(arrivals.map(\.assignmentID)).union(kept.keys), boot: boot)
        let arrivals = arrivals.filter { assignments.contains($0.assignmentID) }
        let unsure = try UnsureCommit(db, run: run, beyond: known)
        for id in kept.keys { kept[id]?.doubt() }
        for (id, end) in changes.ends where kept[id] != nil {
            guard let next = end.next, kept[next] == nil else { continue }
            kept[next] = KeptLedger(
                ledger: GapLedger(beginning: max(end.uptime, started.uptime)))
            // The change may have written an open gap.
            kept[next]?.doubt()
        }
        let segments = OpenSegments(nextSample: try RunStart.lastSample(db) + 1)
        var commit = Commit(run: run, segments, clock)
        try commit.insert(
            arrivals.filter { !unsure.has($0) }.compactMap(changes.reassigned)[...], settings, db)
        let refused = unsure.uncounted(refusals).merging(
            unsure.missing(framesGivenUp), uniquingKeysWith: +)
        for (assignment, count) in refused.sorted(by: { $0.key < $1.key })
        where assignments.contains(assignment) {
            try commit.refuse(count, assignment: assignment, .storeUnwritable, db)
        }
        try commit.updateSegments(db)
        kept.tell(
            arrivals.compactMap(changes.reassigned)[...], unstored: commit.unstored, events)
        for (id, end) in changes.ends where kept[id]?.isEnded == false {
            kept[id]?.end(at: end.uptime)
        }
        for id in kept.keys where kept[id]?.isEnded == false { kept[id]?.end(at: ended) }
        try kept.write(db, run: run, boot: boot, uptime: ended)
        try db.execute(
            sql: "UPDATE run SET ended_uptime_us = ? WHERE id = ?",
            arguments: [ended, run])
    }
}

extension SetAside {
    /// Nil if the file is not whole.
    init?(path: String) {
        guard let payload = PrivateFile.contents(path, Self.magic),
            let aside = try? JSONDecoder().decode(SetAside.self, from: payload)
        else { return nil }
        self = aside
    }

    /// Ledgers of the open assignments.
    private static func openLedgers(
        _ db: Database, beginning uptime: Uptime
    ) throws -> [Int64: KeptLedger] {
        let open = try Int64.fetchAll(db, sql: "SELECT id FROM assignment WHERE ended_boot IS NULL")
        let ledger = KeptLedger(ledger: GapLedger(beginning: uptime))
        return Dictionary(uniqueKeysWithValues: open.map { ($0, ledger) })
    }
}

extension StoreOpening {
    /// Takes up what earlier runs set aside, in their order.
    func takeUpAside(_ database: DatabaseQueue) throws {
        let store = try database.unsafeRead(Sidecar.storeID)
        var found: [(path: String, aside: SetAside)] = []
        for path in settings.asideDirectories.flatMap(SetAside.files) {
            guard let aside = SetAside(path: path) else {
                // The gateway cannot read it; it stays for a person to examine.
                rename(path, path.replacing("-aside-", with: "-broken-"))
                continue
            }
            // Another gateway's, that shares the directory.
            guard aside.store == store else { continue }
            found.append((path, aside))
        }
        found.sort { $0.aside.started.wall < $1.aside.started.wall }
        for (path, aside) in found {
            do {
                try database.write { db in try aside.store(db, settings) }
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                // It contradicts the store, which would stay closed at every start.
                rename(path, path.replacing("-aside-", with: "-broken-"))
                continue
            }
            FaultPoint.asideTakenUp.reach()
            unlink(path)
        }
    }
}

/// How a queue was closed.
public enum QueueClosing: Sendable, Hashable {
    /// Everything is in the store.
    case complete
    /// The store could not be written; this many frames are in a file that the next start takes up.
    case setAside(frames: Int, because: QueueError)
    /// Neither could a file; this many frames are gone. Whether the next start counts them as refused.
    case lost(frames: Int, because: QueueError, isCounted: Bool)
}

extension SampleQueue {
    /// Closes the queue for good. What the store does not take is set aside in one of
    /// ``QueueSettings/asideDirectories``.
    public func closeSettingAside() -> QueueClosing {
        do {
            try close()
            return .complete
        } catch {
            let frames = buffer.arrivals.count
            let aside = SetAside(
                store: (try? read("read store", Sidecar.storeID)) ?? "", bootID: run.bootID,
                nonce: run.nonce, started: run.started, ended: clock.read().uptime,
                clock: run.clock, arrivals: buffer.arrivals, refusals: buffer.refusals,
                known: UnsureCommit.Known(
                    nextSample: segments.nextSample, oldestWaiting: buffer.oldestUptime,
                    refusalsWritten: buffer.refusalsWritten),
                events: ledgers.events, ledgers: run.hasBegun ? ledgers.kept : [:])
            defer { try? abandon() }
            if buffer.hasNoFrames { return .complete }
            if aside.write(in: settings.asideDirectories) {
                return .setAside(frames: frames, because: error)
            }
            let isCounted = aside.withoutFrames().write(in: settings.asideDirectories)
            return .lost(frames: frames, because: error, isCounted: isCounted)
        }
    }
}
