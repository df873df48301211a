import Basics
import Foundation
import GRDB

/// The columns of table `sample`, in the order of the schema: every statement, the checksum and salvage go
/// by this list.
enum SampleColumn: Int, CaseIterable {
    case id, segment, uptime, uncertainty, flags, crc, frame

    static let count = allCases.count

    /// Its name in SQL.
    var name: String {
        switch self {
        case .id, .segment, .flags, .crc, .frame: "\(self)"
        case .uptime: "uptime_us"
        case .uncertainty: "time_uncertainty_ms"
        }
    }

    /// All columns, for a `SELECT` from `sample` that ``SampleRow`` reads.
    static let list = allCases.map(\.name).joined(separator: ", ")
    /// The same for a `SELECT` from several tables, in which `sample` is `p`.
    static let listOfP = allCases.map { "p.\($0.name)" }.joined(separator: ", ")
    /// The rows of a segment between two ids, without the first and with the last, in order, so many at most: one walk
    /// along the primary key.
    static let rowsOfSegment = """
        SELECT \(list) FROM sample WHERE id > ? AND id <= ? AND segment = ? ORDER BY id LIMIT ?
        """
    /// A parameter for each column.
    static let parameters = allCases.map { _ in "?" }.joined(separator: ", ")
}

/// A row of `sample`.
struct SampleRow: Sendable {
    let id: Int64
    let segment: Int64
    /// At arrival.
    let uptime: Uptime
    /// How far its time may be wrong, in milliseconds, as far as that was known at arrival.
    let uncertainty: Int64?
    let flags: Int64
    let crc: Int64
    let frame: [UInt8]

    /// A row to write, with its checksum.
    init(
        _ key: StoreKey, id: Int64, segment: Int64, uptime: Uptime, uncertainty: Duration?,
        flags: UInt32, frame: [UInt8]
    ) {
        self.id = id
        self.segment = segment
        self.uptime = uptime
        self.uncertainty = uncertainty.map(\.millisecondsAtMost)
        self.flags = Int64(flags)
        self.frame = frame
        crc = RowChecksum.of(
            key, id: id, segment: segment, uptime: uptime, uncertainty: self.uncertainty,
            flags: Int64(flags), frame: frame)
    }

    /// From a row that begins with the columns of ``SampleColumn/list``; every value is taken with
    /// suspicion.
    init(_ row: Row) {
        id = row[SampleColumn.id.rawValue] ?? 0
        segment = row[SampleColumn.segment.rawValue] ?? 0
        uptime = row[SampleColumn.uptime.rawValue] ?? .zero
        uncertainty = row[SampleColumn.uncertainty.rawValue]
        flags = row[SampleColumn.flags.rawValue] ?? 0
        crc = row[SampleColumn.crc.rawValue] ?? 0
        frame = (row[SampleColumn.frame.rawValue] as Data?).map { [UInt8]($0) } ?? []
    }

    /// From the bytes of a page; nil if that can be no row of `sample`.
    init?(_ row: CarvedRow) {
        func value(_ column: SampleColumn) -> DatabaseValue.Storage {
            row.values[column.rawValue].storage
        }
        guard row.values.count == SampleColumn.count,
            row.rowID > 0, row.rowID <= SampleIdentity.sampleMax, case .null = value(.id),
            case .int64(let segment) = value(.segment),
            case .int64(let uptime) = value(.uptime), case .int64(let flags) = value(.flags),
            case .int64(let crc) = value(.crc), case .blob(let frame) = value(.frame)
        else { return nil }
        switch value(.uncertainty) {
        case .null: uncertainty = nil
        case .int64(let number): uncertainty = number
        default: return nil
        }
        id = row.rowID
        self.segment = segment
        self.uptime = Uptime(microseconds: uptime)
        self.flags = flags
        self.crc = crc
        self.frame = [UInt8](frame)
    }

    /// Whether the row is as it was written, in the store of that key.
    func isIntact(_ key: StoreKey) -> Bool {
        crc
            == RowChecksum.of(
                key, id: id, segment: segment, uptime: uptime, uncertainty: uncertainty,
                flags: flags, frame: frame)
    }

    /// Its time, with the offset of its segment; nil while that is not known.
    func time(_ wallOffset: WallOffset?) -> UTC? { wallOffset?.utc(uptime) }

    /// How far that time may be wrong, by what is known now of the clock of its boot; nil if nobody says.
    func timeUncertainty(_ clock: BootClock?) -> Duration? {
        let stored = uncertainty.map { Duration.milliseconds($0) }
        return clock.map { $0.error(at: uptime, stored: stored) } ?? stored
    }
}
