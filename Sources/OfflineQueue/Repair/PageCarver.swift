import Foundation
import GRDB

/// One row found in the bytes of a page, whichever table it belongs to.
struct CarvedRow: Sendable, Hashable {
    var rowID: Int64
    var values: [DatabaseValue]
}

/// Reads rows out of single pages, without the tree that should lead there: what is left when the tree
/// is broken. Every byte is hostile. A row that runs over into other pages is read where its caller knows that those
/// are still of the same row, or has a checksum to go by.
enum PageCarver {
    /// Reads so many octets of a row from the page with that number on, and those that follow it.
    typealias Overflow = (_ page: UInt32, _ count: Int) -> [UInt8]?

    /// The type octet of a page that holds rows of a table.
    private static let tableLeaf: UInt8 = 0x0D
    /// A row whose header claims more columns is not from this store.
    private static let columnsMax = 64

    /// The rows of `page`; the first page of a file begins with the file's own header.
    ///
    /// `isWhole` is false if the page is no page of rows or some of them cannot be read: then its
    /// samples may be looked for octet by octet.
    static func rows(
        of page: [UInt8], isFirst: Bool, _ overflow: Overflow? = nil
    ) -> (rows: [CarvedRow], isWhole: Bool) {
        let base = isFirst ? 100 : 0
        guard page.count > base + 8, page[base] == tableLeaf else { return ([], false) }
        let count = number(page, base + 3)
        let start = number(page, base + 5)
        // Octets of the content that no row, free block or fragment accounts for yet.
        var missing = page.count - (start == 0 ? 65_536 : start)
        missing -= unused(in: page, base) ?? page.count
        var offsets: Set<Int> = []
        var rows: [CarvedRow] = []
        func read(_ index: Int) -> Bool {
            let pointer = base + 8 + 2 * index
            guard pointer + 2 <= page.count else { return false }
            let offset = number(page, pointer)
            guard offset >= pointer + 2, offsets.insert(offset).inserted,
                let cell = cell(in: page, at: offset, overflow)
            else { return false }
            rows.append(cell.row)
            missing -= cell.bytes
            return true
        }
        for index in 0..<min(count, page.count) { _ = read(index) }
        // A count that is too low hides the last rows from SQLite. Their pointers are still there.
        var next = count
        while missing != 0, read(next) { next += 1 }
        return (rows, missing == 0)
    }

    private static func number(_ page: [UInt8], _ at: Int) -> Int {
        Int(page[at]) << 8 | Int(page[at + 1])
    }

    /// Octets of the content that are no row's: fragments, and a chain of free blocks (file format, §1.6). Nil if the
    /// chain is broken.
    private static func unused(in page: [UInt8], _ base: Int) -> Int? {
        var octets = Int(page[base + 7])
        var (block, end) = (number(page, base + 1), base + 8)
        while block != 0 {
            guard block >= end, block + 4 <= page.count else { return nil }
            let bytes = number(page, block + 2)
            octets += bytes
            (block, end) = (number(page, block), block + max(4, bytes))
        }
        return octets
    }

    /// Every octet of a damaged page that could begin a row with that many values. Nearly all of what
    /// it gives is noise: the caller must have a checksum to go by.
    static func candidates(in page: [UInt8], values count: Int) -> [CarvedRow] {
        page.indices.compactMap { offset in
            guard let row = cell(in: page, at: offset, nil)?.row, row.values.count == count else {
                return nil
            }
            return row
        }
    }

    /// The row whose cell begins at `offset`, and how many octets of the page it has; nil if it runs over and there is
    /// no `overflow`, or is no row.
    private static func cell(
        in page: [UInt8], at offset: Int, _ overflow: Overflow?
    ) -> (row: CarvedRow, bytes: Int)? {
        var reader = PageReader(page, from: offset, to: page.count)
        guard let length = reader.varint(), let rowID = reader.varint(), length >= 2,
            length <= payloadMax
        else { return nil }
        // The rest of a file that was cut off is no page: nothing says where a longer row would go on.
        let isPage = StoreFile.isPageSize(page.count)
        let here =
            isPage
            ? StoreFile.localBytes(ofRow: Int(length), pageBytes: page.count) : Int(length)
        let end = reader.at + here
        guard end <= page.count else { return nil }
        if here == length {
            return row(rowID, PageReader(page, from: reader.at, to: end)).map { ($0, end - offset) }
        }
        guard let overflow, end + 4 <= page.count else { return nil }
        guard let rest = overflow(page.number(at: end), Int(length) - here) else { return nil }
        let payload = page[reader.at..<end] + rest
        return row(rowID, PageReader(Array(payload), from: 0, to: payload.count))
            .map { ($0, end + 4 - offset) }
    }

    /// No row of a sample, sensor, enrollment or assignment is longer.
    private static let payloadMax = 16_384

    private static func row(_ rowID: Int64, _ payload: PageReader) -> CarvedRow? {
        var reader = payload
        let length = Int64(payload.end - payload.at)
        guard let headLength = reader.varint(), headLength >= 2, headLength <= length else {
            return nil
        }
        let split = payload.at + Int(headLength)
        var head = PageReader(payload.page, from: reader.at, to: split)
        var body = PageReader(payload.page, from: split, to: payload.end)
        var values: [DatabaseValue] = []
        while head.at < head.end {
            guard values.count < columnsMax, let type = head.varint(),
                let value = body.value(ofType: type)
            else { return nil }
            values.append(value)
        }
        return body.at == payload.end ? CarvedRow(rowID: rowID, values: values) : nil
    }
}

/// Reads numbers and values one after another, and never past `end`.
private struct PageReader {
    let page: [UInt8]
    private(set) var at: Int
    let end: Int

    init(_ page: [UInt8], from start: Int, to end: Int) {
        self.page = page
        at = start
        self.end = min(end, page.count)
    }

    /// One to nine octets, seven bits each, the ninth eight.
    mutating func varint() -> Int64? {
        var value: UInt64 = 0
        for index in 0..<9 {
            guard at < end else { return nil }
            let byte = page[at]
            at += 1
            if index == 8 { return Int64(bitPattern: value << 8 | UInt64(byte)) }
            value = value << 7 | UInt64(byte & 0x7F)
            if byte & 0x80 == 0 { break }
        }
        return Int64(bitPattern: value)
    }

    /// The value of a serial type (database file format, §2.1); nil also for a text that is no valid UTF-8 without NUL:
    /// a page that a longer row continues in may be damaged.
    mutating func value(ofType type: Int64) -> DatabaseValue? {
        switch type {
        case 0: return .null
        case 1...4: return integer(octets: Int(type))?.databaseValue
        case 5: return integer(octets: 6)?.databaseValue
        case 6: return integer(octets: 8)?.databaseValue
        case 7:
            return integer(octets: 8).map {
                Double(bitPattern: UInt64(bitPattern: $0)).databaseValue
            }
        case 8, 9: return (type - 8).databaseValue
        case 12...:
            let length = (type - 12) / 2
            guard length <= Int64(end - at) else { return nil }
            let bytes = Array(page[at..<(at + Int(length))])
            at += Int(length)
            guard type % 2 != 0 else { return Data(bytes).databaseValue }
            return bytes.contains(0)
                ? nil : String(validating: bytes, as: UTF8.self)?.databaseValue
        default: return nil
        }
    }

    private mutating func integer(octets: Int) -> Int64? {
        guard octets <= end - at else { return nil }
        var value: UInt64 = page[at] & 0x80 == 0 ? 0 : .max
        for byte in page[at..<(at + octets)] { value = value << 8 | UInt64(byte) }
        at += octets
        return Int64(bitPattern: value)
    }
}
