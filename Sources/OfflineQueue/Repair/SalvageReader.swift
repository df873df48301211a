import Basics
import Foundation
import GRDB

/// Reads the files of a broken store, and changes nothing of them: samples with their identity, arrival and state, as
/// lines of an export.
///
/// SQLite never opens the broken file, nor its log: it reads a second name of the file beside a log made of the sound
/// frames (`SalvageView`). What SQLite cannot reach is found in the bytes of the pages by its checksum, so that it does
/// not matter what became of the tree above it. A sample is never changed after it was written: any version of a row is
/// the right one.
public final class SalvageReader {
    /// The rows that the reader found and left out.
    public struct Unread: Sendable, Hashable {
        /// Rows that fail their checksum, and of which there is no sound version.
        public internal(set) var damaged = 0
        /// Samples of which nobody knows whose they are: neither their run nor their assignment.
        public internal(set) var orphaned = 0
        /// Samples of another store, whose file was written over this one's: they are among the pieces.
        public internal(set) var strangers = 0
        /// Samples that the store has by its own books, and that were not found.
        public internal(set) var missing = 0
        /// The highest number of a sample that was found.
        public internal(set) var last: Int64 = 0
        /// Whether the device let every part of the files be read.
        public internal(set) var isReadable = true
    }

    /// The rows left out so far.
    public var unread: Unread {
        let damaged = damaged.count { !seen.contains(Int($0)) }
        return Unread(
            damaged: damaged, orphaned: orphaned,
            strangers: strangerLines,
            missing: Int(clamping: max(0, booked &- Int64(handed + orphaned + damaged))),
            last: Int64(seen.last ?? 0),
            isReadable: pages.log.unreadable == nil && position.fault == nil && isReadable)
    }

    /// Gaps of the broken store.
    private let gaps: [SalvageSource.Values]
    private let pages: StorePages
    private let view: SalvageView?
    private let database: DatabaseQueue?
    private let source: SalvageSource
    /// Of the stores whose rows may be here, the sidecar's first.
    private let keys: [StoreKey]
    /// Whether samples of another store are among the lines.
    private let takesStrangers: Bool
    private let erased: Set<Int64>
    /// The highest number of a segment at the last erasure; 0 if nobody was erased, or nobody knows.
    private let erasedThrough: Int64
    private var segments: [Int64: SalvageSource.Segment?] = [:]
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
    /// Pieces that were read, and the beginning of the next one.
    private var full: [[ImportLine]] = []
    private var slice = ImportSlice()
    /// Whether SQLite read the samples to their end, and how many of the store's own were handed out.
    private var isTreeSound = true
    private var handed = 0
    /// Bounds the memory for the count of damaged rows, not the salvage.
    private static let damagedMax = 100_000
    private static let batchRows = 1_000

    /// Looks at the files of the store at `path`, and at the sidecar of the store that it broke from, which is in the
    /// same directory. Leaves samples of another store out: an assignment's number may be another's there.
    convenience init(path: String) throws(QueueError) {
        try self.init(
            path: path, sidecar: try Sidecar.newest(besides: path), takesStrangers: false)
    }

    init(path: String, sidecar: Sidecar?, takesStrangers: Bool = true) throws(QueueError) {
        self.takesStrangers = takesStrangers
        guard StoreFile.isThere(path) else { throw QueueError(errno: ENOENT, "salvage store") }
        pages = StorePages(of: path, WriteAheadLog(of: path, readsIndex: true))
        view = SalvageView(pages)
        database = view?.open()
        do throws(QueueError) {
            source = try SalvageSource(pages, database, sidecar)
        } catch {
            try? database?.close()
            view?.remove()
            throw error
        }
        var keys: [StoreKey] = []
        let found = [sidecar?.store, source.storeID].compactMap { $0.map(StoreKey.init(storeID:)) }
        for key in found + pages.marks.map(StoreKey.init(mark:)) where !keys.contains(key) {
            keys.append(key)
        }
        self.keys = keys
        // A file of another gateway may have been written over this one's.
        let boots = source.rows["boot"] ?? [:]
        gaps = (source.isPure ? source.rows["gap"] ?? [:] : [:]).sorted { $0.key < $1.key }.map {
            // The numbers of boots may be others there.
            var gap = $0.value
            for name in ["from_boot", "until_boot"] {
                gap[name] = gap.number(name).flatMap { boots[$0]?["boot_id"] }
            }
            return gap
        }
        // In the store they have no checksum: a damaged number would take a patient away who is still there.
        erased =
            sidecar?.erasedAssignments
            ?? SalvageSource.erasedAssignments(source.unnumbered["erased_number"] ?? [])
        let numbers = source.isComplete ? source.unnumbered["erased_until"] ?? [] : []
        erasedThrough =
            numbers.first { $0.value("kind") == "segment" }
            .flatMap { $0.number("number") } ?? 0
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
        case samples([ImportLine])

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
        while full.isEmpty, let lines = next() {
            full += lines.compactMap { slice.add($0.asRead) }
        }
        let samples = full.isEmpty ? slice.take() : full.removeFirst()
        return samples.isEmpty ? nil : .samples(samples)
    }

    /// The next samples, mostly in the order of their numbers; nil at the end.
    func next() -> [ExportLine]? {
        while true {
            let rows: [SampleRow]
            if let cursor {
                rows = fetch(after: cursor)
            } else if let pages = pages.next(&position) {
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
            guard let uptime: Uptime = row.value("uptime_us"),
                let fault: String = row.value("fault"), let frame: Data = row.value("frame")
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
            guard let reason: String = row.value("reason"),
                row.value("kind") == LossKind.refused.rawValue,
                let count = row.number("count"), (1...Int64(Int32.max)).contains(count),
                let id = row.number("segment"),
                let uptime: Uptime = source.rows["segment"]?[id]?.value("last_uptime_us")
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
            unread: unread, refused: refused(), lastNonce: last.number("nonce"),
            lastEnd: last.value("ended_uptime_us"),
            isWhole: source.isComplete && isTreeSound && handed == booked)
    }

    /// The samples that the store has by its own books: of a page of zeros nothing else says that it had any.
    private var booked: Int64 {
        (source.rows["segment"] ?? [:]).values.reduce(0) { sum, row in
            guard let assignment = row.number("assignment"),
                !erased.contains(assignment)
            else { return sum }
            return sum &+ (row.number("stored") ?? 0)
                &- (row.number("pruned") ?? 0)
        }
    }

    private func frameWithoutNumber(
        _ row: SalvageSource.Values, _ uptime: Uptime, _ frame: [UInt8]
    ) -> ImportLine? {
        guard source.isPure, let key = keys.first, let id = row.number("segment"),
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
        let (rows, isWhole) = PageCarver.rows(
            of: page.bytes, isFirst: page.isFirst, pages.overflow)
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
        // A row of another store goes by a segment of that one, if anything tells which that is.
        let isOurs = key == keys.first
        let number = Int(sample.id)
        guard !(isOurs ? seen : strangers).contains(number) else { return nil }
        let segment = isOurs ? segment(sample.segment) : source.stranger(sample.segment)
        // Its insertion was never committed; the bytes only happen to be there. Where a segment ends that may be an older
        // state of itself, nobody knows.
        if let segment, source.isComplete, sample.id > segment.row.lastSample { return nil }
        if isOurs { seen.insert(number) } else { strangers.insert(number) }
        if isOurs, let row = source.rows["segment"]?[sample.segment],
            let assignment = row.number("assignment"), erased.contains(assignment)
        {
            return nil
        }
        guard let segment else {
            // Pages that were freed before a patient was erased may still have rows.
            if !isOurs || sample.segment > erasedThrough { orphaned += 1 }
            return nil
        }
        // Its deletion was committed. Pruning leaves the dead letters behind its cursor.
        let letters = isOurs && source.isPure ? source.letters.of(sample.id) : nil
        guard sample.id > segment.row.prunedThrough || letters != nil else { return nil }
        if isOurs { handed += 1 } else { strangerLines += 1 }
        guard isOurs || takesStrangers else { return nil }
        return ExportLine(sample, segment.exported, letters: letters ?? [:])
    }

    /// The key with which it is intact; nil if it is damaged.
    private func key(of sample: SampleRow) -> StoreKey? { keys.first(where: sample.isIntact) }

    private func segment(_ id: Int64) -> SalvageSource.Segment? {
        if let found = segments[id] { return found }
        let found = source.segment(id)
        segments[id] = .some(found)
        return found
    }
}

extension SampleQueue {
    /// Writes what can be read of the broken store at `path` to `sink`, in pieces, as ``export(path:format:selection:filter:now:progress:to:)``
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
