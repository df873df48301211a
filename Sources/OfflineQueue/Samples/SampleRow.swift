import Basics
import Foundation
import GRDB

/// The columns of table `sample`, in the order of the schema: every statement, the checksum and salvage go
/// by this list.
enum SampleColumn: Int, CaseIterable {
    case id, segment, uptime, wall, flags, crc, frame

    static let count = allCases.count

    /// Its name in SQL.
    var name: String {
        switch self {
        case .id, .segment, .flags, .crc, .frame: "\(self)"
        case .uptime: "uptime_us"
        case .wall: "wall_us"
        }
    }

    /// All columns, for a `SELECT` from `sample` that ``SampleRow`` reads.
    static let list = allCases.map(\.name).joined(separator: ", ")
    /// The same for a `SELECT` from several tables, in which `sample` is `p`.
    static let listOfP = allCases.map { "p.\($0.name)" }.joined(separator: ", ")
    /// A parameter for each column.
    static let parameters = allCases.map { _ in "?" }.joined(separator: ", ")
}

/// A row of `sample`.
struct SampleRow: Sendable {
    let id: Int64
    let segment: Int64
    /// At arrival.
    let uptime: Uptime
    /// UTC at arrival, only if the clock was trusted then.
    let wall: UTC?
    let flags: Int64
    let crc: Int64
    let frame: [UInt8]

    /// A row to write, with its checksum.
    init(
        id: Int64, segment: Int64, uptime: Uptime, wall: UTC?, flags: UInt32, frame: [UInt8]
    ) {
        self.id = id
        self.segment = segment
        self.uptime = uptime
        self.wall = wall
        self.flags = Int64(flags)
        self.frame = frame
        crc = RowChecksum.of(
            id: id, segment: segment, uptime: uptime, wall: wall, flags: Int64(flags), frame: frame)
    }

    /// From a row that begins with the columns of ``SampleColumn/list``; every value is taken with
    /// suspicion.
    init(_ row: Row) {
        id = row[SampleColumn.id.rawValue] ?? 0
        segment = row[SampleColumn.segment.rawValue] ?? 0
        uptime = row[SampleColumn.uptime.rawValue] ?? .zero
        wall = row[SampleColumn.wall.rawValue]
        flags = row[SampleColumn.flags.rawValue] ?? 0
        crc = row[SampleColumn.crc.rawValue] ?? 0
        frame = (row[SampleColumn.frame.rawValue] as Data?).map { [UInt8]($0) } ?? []
    }

    /// From the bytes of a page; nil if that can be no row of `sample`.
    init?(_ row: CarvedRow) {
        func value(_ column: SampleColumn) -> StoredValue { row.values[column.rawValue] }
        guard row.values.count == SampleColumn.count,
            row.rowID > 0, row.rowID <= SampleIdentity.sampleMax, case .null = value(.id),
            case .integer(let segment) = value(.segment),
            case .integer(let uptime) = value(.uptime), case .integer(let flags) = value(.flags),
            case .integer(let crc) = value(.crc), case .blob(let frame) = value(.frame)
        else { return nil }
        switch value(.wall) {
        case .null: wall = nil
        case .integer(let number): wall = UTC(microseconds: number)
        default: return nil
        }
        id = row.rowID
        self.segment = segment
        self.uptime = Uptime(microseconds: uptime)
        self.flags = flags
        self.crc = crc
        self.frame = frame
    }

    /// Whether the row is as it was written.
    var isIntact: Bool {
        crc
            == RowChecksum.of(
                id: id, segment: segment, uptime: uptime, wall: wall, flags: flags, frame: frame)
    }

    /// Its time, with the offset of its boot; nil if none is trusted.
    func time(_ wallOffset: WallOffset?) -> UTC? { wall ?? wallOffset?.utc(uptime) }
}
