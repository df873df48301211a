import Basics
import GRDB

/// The checksum each sample row carries, so that a row a dying card changed is never sent.
///
/// CRC-32 (ISO 3309, polynomial 0xEDB88320 reflected) over the store's key and the fields in little-endian
/// order: id, segment, uptime, uncertainty (or 0 and a 0 octet for "none", else a 1 octet), flags, frame. It
/// finds accidents, not forgery.
enum RowChecksum {
    /// The checksum of one row, as SQLite stores it.
    static func of(
        _ key: StoreKey, id: Int64, segment: Int64, uptime: Uptime, uncertainty: Int64?,
        flags: Int64, frame: [UInt8]
    ) -> Int64 {
        var crc = key.sum
        add(UInt64(bitPattern: id), to: &crc)
        add(UInt64(bitPattern: segment), to: &crc)
        add(UInt64(bitPattern: uptime.microseconds), to: &crc)
        add(UInt64(bitPattern: uncertainty ?? 0), to: &crc)
        add(UInt8(uncertainty == nil ? 0 : 1), to: &crc)
        add(UInt64(bitPattern: flags), to: &crc)
        for byte in frame { add(byte, to: &crc) }
        // As a signed number, so that SQLite needs 4 bytes for it and not 6.
        return Int64(Int32(bitPattern: ~crc))
    }

    /// The checksum of `bytes` alone: what the published check value of CRC-32 is tested with.
    static func crc32(_ bytes: [UInt8]) -> UInt32 {
        var crc = UInt32.max
        for byte in bytes { add(byte, to: &crc) }
        return ~crc
    }

    private static func add(_ word: UInt64, to crc: inout UInt32) {
        for shift in stride(from: UInt64(0), to: 64, by: 8) {
            add(UInt8(truncatingIfNeeded: word >> shift), to: &crc)
        }
    }

    private static func add(_ byte: UInt8, to crc: inout UInt32) {
        crc = table[Int((crc ^ UInt32(byte)) & 0xFF)] ^ (crc >> 8)
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { crc, _ in
            crc & 1 == 1 ? 0xEDB8_8320 ^ (crc >> 1) : crc >> 1
        }
    }
}

/// Ties a row to its store: in a file that another store was written over, rows of the other store fail their
/// checksum. The key is made of the nonce of the store's first run, and stands in the header of the file as well, so
/// that damage to either is found before every row seems damaged.
struct StoreKey: Sendable, Hashable {
    /// The initial value of each checksum.
    fileprivate let sum: UInt32
    /// As it stands in the header (`application_id`); never 0, which says that there is none.
    let mark: Int32

    init(mark: Int32) {
        self.mark = mark
        sum = UInt32(bitPattern: mark)
    }

    /// - Parameter storeID: ``Sidecar/storeID(_:)``.
    init(storeID: String) {
        let sum = RowChecksum.crc32(Array(storeID.utf8))
        self.init(mark: sum == 0 ? 1 : Int32(bitPattern: sum))
    }
}

extension Database {
    /// Throws `corrupt` if the store does not know its own.
    func storeKey() throws -> StoreKey {
        let key = StoreKey(storeID: try Sidecar.storeID(self))
        let mark = try Int32.fetchOne(cachedStatement(sql: "PRAGMA application_id"))
        guard mark == key.mark else {
            throw QueueError(.corrupt, "read store", "its mark is not its first run's")
        }
        return key
    }

    /// Marks a store that has its first run.
    func markStore() throws {
        guard try Int32.fetchOne(self, sql: "PRAGMA application_id") == 0 else { return }
        let key = StoreKey(storeID: try Sidecar.storeID(self))
        try execute(sql: "PRAGMA application_id = \(key.mark)")
    }
}
