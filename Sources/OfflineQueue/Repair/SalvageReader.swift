import Basics
import Foundation
import GRDB

/// Reads the files of a broken store, and changes nothing of them: samples with their identity, arrival and state, as
/// lines of an export.
///
/// SQLite never opens the broken file, nor its log: it reads a second name of the file beside a log made of the sound
/// frames (``SalvageView``). What SQLite cannot reach is found in the bytes of the pages by its checksum, so that it does
/// not matter what became of the tree above it. A sample is never changed after it was written: any version of a row is
/// the right one.
public final class SalvageReader {
    /// The rows that the reader found and left out.
    public struct Unread: Sendable, Hashable {
        /// Rows that fail their checksum, and of which there is no sound version.
        public internal(set) var damaged = 0
        /// Samples of which nobody knows whose they are: neither their run nor their assignment.
        public internal(set) var orphaned = 0
        /// Samples of another store, whose file was written over this one's: they are among the lines.
        public internal(set) var strangers = 0
        /// The highest number of a sample that was found.
        public internal(set) var last: Int64 = 0
        /// Whether the device let every part of the files be read.
        public internal(set) var isReadable = true
    }

    /// The rows left out so far.
    public var unread: Unread {
        Unread(
            damaged: damaged.count { !seen.contains(Int($0)) }, orphaned: orphaned,
            strangers: strangerLines, last: Int64(seen.last ?? 0),
            isReadable: log.unreadable == nil && position.fault == nil && isReadable)
    }

    /// Gaps of the broken store.
    private let gaps: [SalvageSource.Values]
    private let log: WriteAheadLog
    private let pages: StorePages
    private let overflow: PageCarver.Overflow
    private let view: SalvageView?
    private let database: DatabaseQueue?
    private let source: SalvageSource
    /// Of the stores whose rows may be here, the sidecar's first.
    private let keys: [StoreKey]
    private let hasSidecar: Bool
    private let erased: Set<Int64>
    /// The highest number of a segment at the last erasure; 0 if nobody was erased, or nobody knows.
    private let erasedThrough: Int64
    private let letters: [Int64: [ExportedLetters.Place: Bool]]
    private struct Segment {
        let row: SegmentRow
        let exported: ExportedSegment
    }
    private var segments: [Int64: Segment?] = [:]
    private var seen = IndexSet()
    private var strangers = IndexSet()
    private var strangerLines = 0
    private var damaged: Set<Int64> = []
    private var orphaned = 0
    /// The last sample that was read through SQLite; nil when that is over. Then the pages are read: SQLite says nothing
    /// of rows to which a damaged page does not lead.
    private var cursor: Int64? = 0
    private var position = StorePages.Position()
    private var isReadable = true
    private var gapsHanded = 0
    private var hasHandedFrames = false
    /// Whether SQLite read the samples to their end, and how many of the store's own were handed out.
    private var isTreeSound = true
    private var handed = 0
    /// Bounds the memory for the count of damaged rows, not the salvage.
    private static let damagedMax = 100_000
    private static let batchRows = 1_000

    /// Looks at the files of the store at `path`, and at the sidecar of the store that it broke from, which is in the
    /// same directory.
    public convenience init(path: String) throws(QueueError) {
        try self.init(path: path, sidecar: try Sidecar.newest(besides: path))
    }

    init(path: String, sidecar: Sidecar?) throws(QueueError) {
        guard StoreFile.isThere(path) else { throw QueueError(errno: ENOENT, "salvage store") }
        let log = WriteAheadLog(of: path, readsIndex: true)
        self.log = log
        pages = StorePages(path: path, log)
        overflow = pages.overflow(log)
        view = SalvageView(of: path, log)
        database = view?.open()
        do throws(QueueError) {
            source = try SalvageSource(path: path, log: log, database, sidecar)
        } catch {
            try? database?.close()
            view?.remove()
            throw error
        }
        hasSidecar = sidecar != nil
        var keys: [StoreKey] = []
        let found = [sidecar?.store, source.storeID].compactMap { $0.map(StoreKey.init(storeID:)) }
        for key in found + pages.marks(log).map(StoreKey.init(mark:)) where !keys.contains(key) {
            keys.append(key)
        }
        self.keys = keys
        // A file of another gateway may have been written over this one's.
        let boots = source.rows["boot"] ?? [:]
        gaps = (source.isPure ? source.rows["gap"] ?? [:] : [:]).sorted { $0.key < $1.key }.map {
            // The numbers of boots may be others there.
            var gap = $0.value
            for name in ["from_boot", "until_boot"] {
                gap[name] = SegmentRow.number(gap, name).flatMap { boots[$0]?["boot_id"] }
            }
            return gap
        }
        // In the store they have no checksum: a damaged number would take a patient away who is still there.
        erased =
            sidecar?.erasedAssignments
            ?? SalvageSource.erasedAssignments(source.unnumbered["erased_number"] ?? [])
        let numbers = source.isComplete ? source.unnumbered["erased_until"] ?? [] : []
        erasedThrough =
            numbers.first { $0["kind"].flatMap(String.fromDatabaseValue) == "segment" }
            .flatMap { SegmentRow.number($0, "number") } ?? 0
        var letters: [Int64: [ExportedLetters.Place: Bool]] = [:]
        for (id, row) in source.rows["dead_letter"] ?? [:] {
            letters[id, default: [:]][.own] = SegmentRow.number(row, "is_requeued") != 0
        }
        for row in (source.rows["further_dead_letter"] ?? [:]).values {
            guard let id = SegmentRow.number(row, "sample"),
                let destination = SegmentRow.number(row, "destination")
            else { continue }
            letters[id, default: [:]][.further(destination)] =
                SegmentRow.number(row, "is_requeued") != 0
        }
        self.letters = source.isPure ? letters : [:]
        if database == nil { cursor = nil }
    }

    deinit {
        try? database?.close()
        view?.remove()
    }

    /// Part of what is there, as much as one transaction takes.
    enum Piece: Sendable {
        case gaps([SalvageSource.Values])
        case undecodable([(frame: ImportLine, fault: String)])
        case samples([ExportLine])

        /// Nil if it is no more than one.
        var halves: (Piece, Piece)? {
            func split<Part>(_ parts: [Part], _ piece: ([Part]) -> Piece) -> (Piece, Piece)? {
                guard parts.count > 1 else { return nil }
                let half = parts.count / 2
                return (piece(Array(parts[..<half])), piece(Array(parts[half...])))
            }
            return switch self {
            case .gaps(let gaps): split(gaps, Piece.gaps)
            case .undecodable(let frames): split(frames, Piece.undecodable)
            case .samples(let lines): split(lines, Piece.samples)
            }
        }
    }

    /// The next piece; nil at the end.
    func nextPiece() -> Piece? {
        if gapsHanded < gaps.count {
            let piece = Array(gaps.dropFirst(gapsHanded).prefix(Self.batchRows))
            gapsHanded += piece.count
            return .gaps(piece)
        }
        if !hasHandedFrames {
            hasHandedFrames = true
            return .undecodable(undecodable())
        }
        return next().map(Piece.samples)
    }

    /// The next samples, mostly in the order of their numbers; nil at the end.
    func next() -> [ExportLine]? {
        while true {
            let rows: [SampleRow]
            if let cursor {
                rows = fetch(after: cursor)
            } else if let pages = pages.next(&position, log) {
                rows = pages.flatMap(carve).sorted { $0.id < $1.id }
            } else {
                return nil
            }
            let lines = rows.compactMap(line)
            if !lines.isEmpty { return lines }
        }
    }

    /// Frames that no measurement could be read from, with the fault of each.
    private func undecodable() -> [(frame: ImportLine, fault: String)] {
        (source.rows["undecodable"] ?? [:]).sorted { $0.key < $1.key }.compactMap { _, row in
            guard let uptime = row["uptime_us"].flatMap(Uptime.fromDatabaseValue),
                let fault = row["fault"].flatMap(String.fromDatabaseValue),
                let frame = row["frame"].flatMap(Data.fromDatabaseValue)
            else { return nil }
            return frameWithoutNumber(row, uptime, [UInt8](frame)).map { ($0, fault) }
        }
    }

    /// Frames that were refused.
    struct Refused: Sendable {
        /// Whose they were, and when the newest before them came.
        var frame: ImportLine
        var reason: String
        var count: Int
    }

    /// Those of the files, which no line tells of.
    private func refused() -> [Refused] {
        (source.unnumbered["loss"] ?? []).compactMap { row in
            guard let reason = row["reason"].flatMap(String.fromDatabaseValue),
                row["kind"].flatMap(String.fromDatabaseValue) == LossKind.refused.rawValue,
                let count = SegmentRow.number(row, "count"), (1...Int64(Int32.max)).contains(count),
                let id = SegmentRow.number(row, "segment"),
                let uptime = source.rows["segment"]?[id]?["last_uptime_us"]
                    .flatMap(Uptime.fromDatabaseValue)
            else { return nil }
            return frameWithoutNumber(row, uptime, []).map {
                Refused(frame: $0, reason: reason, count: Int(count))
            }
        }
    }

    /// The counts that are known once all pieces have been handed out.
    struct Rest: Sendable {
        var unread: Unread
        var refused: [Refused]
        /// Of the run that was the last to begin.
        var lastNonce: Int64?
        var lastEnd: Uptime?
        /// Whether nothing of the files was damaged, and every sample of their books was read.
        var isWhole: Bool
    }

    var rest: Rest {
        let last = source.ownRuns.max { $0.key < $1.key }?.value ?? [:]
        return Rest(
            unread: unread, refused: refused(), lastNonce: SegmentRow.number(last, "nonce"),
            lastEnd: last["ended_uptime_us"].flatMap(Uptime.fromDatabaseValue),
            isWhole: source.isComplete && isTreeSound && handed == booked)
    }

    /// The samples that the store has by its own books: of a page of zeros nothing else says that it had any.
    private var booked: Int64 {
        (source.rows["segment"] ?? [:]).values.reduce(0) { sum, row in
            guard let assignment = SegmentRow.number(row, "assignment"),
                !erased.contains(assignment)
            else { return sum }
            return sum &+ (SegmentRow.number(row, "stored") ?? 0)
                &- (SegmentRow.number(row, "pruned") ?? 0)
        }
    }

    private func frameWithoutNumber(
        _ row: SalvageSource.Values, _ uptime: Uptime, _ frame: [UInt8]
    ) -> ImportLine? {
        guard source.isPure, let key = keys.first, let id = SegmentRow.number(row, "segment"),
            let segment = segment(id)?.exported, !erased.contains(segment.assignmentID)
        else { return nil }
        let sample = SampleRow(
            key, id: 0, segment: id, uptime: uptime, uncertainty: nil, flags: 0, frame: frame)
        return ExportLine(sample, segment, letters: [:]).asRead
    }

    // MARK: - Rows

    private func fetch(after id: Int64) -> [SampleRow] {
        var step: Int64 = 1
        while let database {
            do {
                let rows = try database.unsafeRead { db in
                    try Row.fetchAll(
                        db,
                        sql: """
                            SELECT \(SampleColumn.list) FROM sample WHERE id > ? ORDER BY id
                            LIMIT \(Self.batchRows)
                            """, arguments: [id &+ step &- 1]
                    ).map { SampleRow($0) }
                }
                // In a broken tree they need not be in order.
                cursor = rows.last.map { max($0.id, id &+ step) }
                return rows
            } catch {
                isTreeSound = false
                if QueueError("salvage store", error).code == .inputOutput { isReadable = false }
            }
            // A page that SQLite cannot read: on behind it.
            guard step < SampleIdentity.sampleMax / 2 else { break }
            step *= 2
        }
        cursor = nil
        return []
    }

    private func carve(_ page: StorePages.Found) -> [SampleRow] {
        // The log has its length from the start, of zeros.
        guard page.bytes.contains(where: { $0 != 0 }) else { return [] }
        // A sample's checksum says whether what it goes on with is still its own.
        let (rows, isWhole) = PageCarver.rows(of: page.bytes, isFirst: page.isFirst, overflow)
        var found = rows.compactMap { SampleRow($0) }
        if !isWhole {
            found += PageCarver.candidates(in: page.bytes, values: SampleColumn.count)
                .compactMap { SampleRow($0) }.filter { key(of: $0) != nil }
        }
        return found
    }

    // MARK: - Lines

    private func line(_ sample: SampleRow) -> ExportLine? {
        guard sample.id > 0, sample.id <= SampleIdentity.sampleMax else { return nil }
        guard let key = key(of: sample) else {
            if damaged.count < Self.damagedMax { damaged.insert(sample.id) }
            return nil
        }
        // A row of another store goes by a segment of that one.
        let isOurs = !hasSidecar || key == keys.first
        let number = Int(sample.id)
        guard !(isOurs ? seen : strangers).contains(number) else { return nil }
        let segment = isOurs ? segment(sample.segment) : stranger(sample.segment)
        // Its insertion was never committed; the bytes only happen to be there. Where a segment ends that may be an older
        // state of itself, nobody knows.
        if let segment, source.isComplete, sample.id > segment.row.lastSample { return nil }
        if isOurs { seen.insert(number) } else { strangers.insert(number) }
        if isOurs, let row = source.rows["segment"]?[sample.segment],
            let assignment = SegmentRow.number(row, "assignment"), erased.contains(assignment)
        {
            return nil
        }
        guard let segment else {
            // Pages that were freed before a patient was erased may still have rows.
            if !isOurs || sample.segment > erasedThrough { orphaned += 1 }
            return nil
        }
        // Its deletion was committed. Pruning leaves the dead letters behind its cursor.
        let letters = isOurs ? letters[sample.id] : nil
        guard sample.id > segment.row.prunedThrough || letters != nil else { return nil }
        if isOurs { handed += 1 } else { strangerLines += 1 }
        return ExportLine(sample, segment.exported, letters: letters ?? [:])
    }

    /// The key with which it is intact; nil if it is damaged.
    private func key(of sample: SampleRow) -> StoreKey? { keys.first(where: sample.isIntact) }

    private func segment(_ id: Int64) -> Segment? {
        if let found = segments[id] { return found }
        let found = segment(
            source.rows["segment"]?[id], id, hasSidecar ? source.known : source.rows)
        segments[id] = .some(found)
        return found
    }

    private func stranger(_ id: Int64) -> Segment? {
        segment(source.rows[SalvageSource.strangers]?[id], id, source.rows)
    }

    private func segment(
        _ values: SalvageSource.Values?, _ id: Int64,
        _ registry: [String: [Int64: SalvageSource.Values]]
    ) -> Segment? {
        guard let row = values.flatMap({ SegmentRow($0) }),
            let exported = exported(row, of: id, registry)
        else { return nil }
        return Segment(row: row, exported: exported)
    }

    private func exported(
        _ segment: SegmentRow, of id: Int64, _ registry: [String: [Int64: SalvageSource.Values]]
    ) -> ExportedSegment? {
        func row(_ table: String, _ id: Int64?) -> SalvageSource.Values? {
            id.flatMap { registry[table]?[$0] }
        }
        func text(_ row: SalvageSource.Values?, _ name: String) -> String? {
            row?[name].flatMap(String.fromDatabaseValue)
        }
        guard let run = row("run", segment.run), let nonce = SegmentRow.number(run, "nonce"),
            SampleIdentity.isNonce(nonce),
            let assignment = row("assignment", segment.assignment),
            let sensor = SegmentRow.number(assignment, "sensor")
        else { return nil }
        let address = text(row("sensor", sensor), "address") ?? "unknown-\(sensor)"
        let boot = row("boot", SegmentRow.number(run, "boot"))
        let enrollment = row("enrollment", SegmentRow.number(assignment, "enrollment"))
        // A destination without records here may not have received it.
        var settled: [Int64: Int64] = [:]
        for row in (registry["further_destination"] ?? [:]).values
        where SegmentRow.number(row, "assignment") == segment.assignment
            && text(row, "state") == "active"
        {
            guard let destination = SegmentRow.number(row, "destination") else { continue }
            settled[destination] = max(0, (SegmentRow.number(row, "first_sample") ?? 0) - 1)
        }
        for row in (source.isPure ? source.rows["further_delivery"] ?? [:] : [:]).values
        where SegmentRow.number(row, "segment") == id {
            guard let destination = SegmentRow.number(row, "destination") else { continue }
            settled[destination] = SegmentRow.number(row, "settled_through") ?? 0
        }
        let further = settled.compactMap {
            destination, through -> (id: Int64, delivery: ExportedSegment.Delivery)? in
            guard let name = text(row("enrollment", destination), "name") else { return nil }
            return (
                destination,
                ExportedSegment.Delivery(
                    name: name, settledThrough: through, isHeld: false,
                    dropped: dropped(id, destination))
            )
        }
        return ExportedSegment(
            own: ExportedSegment.Delivery(
                name: text(enrollment, "name"), settledThrough: segment.settledThrough,
                isHeld: enrollment == nil, dropped: dropped(id, 0)),
            further: further.sorted { $0.id < $1.id }, identityShift: segment.identityShift,
            assignmentID: segment.assignment, nonce: UInt64(bitPattern: nonce),
            bootID: text(boot, "boot_id") ?? "unknown",
            wallOffset: segment.wallOffset ?? offset(of: boot),
            sensor: address, patient: text(assignment, "patient") ?? text(enrollment, "patient"))
    }
}

extension SampleQueue {
    /// Writes what can be read of the broken store at `path` to `sink`, in pieces, as ``export(path:format:selection:filter:progress:to:)``
    /// does of one in order. Changes nothing of it.
    ///
    /// Throws ``QueueError`` if there is nothing at `path`, and whatever `sink` throws.
    public static func salvage(
        path: String, selection: ExportSelection = .unsent, to sink: ([UInt8]) throws -> Void
    ) throws -> (samples: Int, unread: SalvageReader.Unread) {
        let reader = try SalvageReader(path: path)
        var summary = ExportSummary()
        var lines = ExportLines()
        try lines.add(ExportLine.header, to: sink)
        while let found = reader.next() {
            for line in found where selection == .everything || line.isUnsent {
                try lines.add(line.json, to: sink)
                summary.samples += 1
            }
        }
        summary.damaged = reader.unread.damaged
        try lines.add(ExportLine.trailer(summary), to: sink)
        try lines.flush(to: sink)
        return (summary.samples, reader.unread)
    }
}

extension SalvageReader {
    /// Of a boot whose clock jumped to another date the samples without an offset have no time.
    private func offset(of boot: SalvageSource.Values?) -> WallOffset? {
        guard let boot, SegmentRow.number(boot, "jumped_after_us") == nil else { return nil }
        return boot["wall_offset_us"].flatMap(WallOffset.fromDatabaseValue)
    }

    /// The samples of a segment that a destination does not get, in order.
    private func dropped(_ segment: Int64, _ destination: Int64) -> [ClosedRange<Int64>] {
        (source.unnumbered["dropped_range"] ?? []).compactMap { row in
            guard source.isPure, SegmentRow.number(row, "segment") == segment,
                SegmentRow.number(row, "destination") == destination,
                let first = SegmentRow.number(row, "first_sample"),
                let last = SegmentRow.number(row, "last_sample"), first <= last
            else { return nil }
            return first...last
        }.sorted { $0.lowerBound < $1.lowerBound }
    }
}
