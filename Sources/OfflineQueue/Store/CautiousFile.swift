import GRDB
import GRDBSQLite
import Synchronization

/// A file of SQLite's that promises less than the disk seems to.
enum CautiousFile {
    /// Has SQLite not rely on what it takes for granted of any disk: that a write which a power cut interrupts
    /// leaves the bytes before and behind it alone. A card writes blocks of 4 KiB at least, so each commit begins
    /// in a block of its own (docs/develop/decisions.md).
    ///
    /// Not by the `psow` of a URI, with which SQLite would also write all pages of a block of which one has
    /// changed. It asks once for that, when it has opened the file, and again when it opens the log
    /// (<https://www.sqlite.org/psow.html>).
    ///
    /// Nor does it call it damage when the device refuses to read (`SQLITE_IOERR_CORRUPTFS`): that may pass.
    static func use(_ db: Database) {
        for pointer in [SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER] {
            var file: UnsafeMutablePointer<sqlite3_file>?
            sqlite3_file_control(db.sqliteConnection, "main", pointer, &file)
            guard let file, let methods = file.pointee.pMethods else { continue }
            file.pointee.pMethods = cautious(
                methods, isLog: pointer == SQLITE_FCNTL_JOURNAL_POINTER)
        }
    }

    /// How often SQLite has written to the file of a store, and not to its log: when it copies that home.
    static let fileWrites = Atomic<Int>(0)

    private struct Methods: Hashable {
        var address: UInt
        var isLog: Bool
    }

    /// By the addresses of the methods that they were made of, of which SQLite has a few for each kind of file.
    private static let cautiousMethods = Mutex<[Methods: UInt]>([:])

    /// The cautious methods, and behind them the real ones. They are never freed: they must outlive every file.
    private static func cautious(
        _ methods: UnsafePointer<sqlite3_io_methods>, isLog: Bool
    ) -> UnsafePointer<sqlite3_io_methods> {
        let address = UInt(bitPattern: methods)
        let key = Methods(address: address, isLog: isLog)
        let found = cautiousMethods.withLock { made in
            // They are cautious already.
            made.values.contains(address) ? address : made[key]
        }
        if let found, let known = UnsafePointer<sqlite3_io_methods>(bitPattern: found) {
            return known
        }
        let both = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 2)
        both.initialize(repeating: methods.pointee, count: 2)
        // A newer SQLite may have more methods than were copied.
        both[0].iVersion = min(methods.pointee.iVersion, 3)
        both[0].xDeviceCharacteristics = { _ in 0 }
        both[0].xRead = { file, bytes, count, offset in
            let code =
                file?.pointee.pMethods?[1].xRead?(file, bytes, count, offset) ?? SQLITE_IOERR
            let (isRefused, readFailed) = (SQLITE_IOERR | 33 << 8, SQLITE_IOERR | 1 << 8)
            return code == isRefused ? readFailed : code
        }
        if !isLog {
            both[0].xWrite = { file, bytes, count, offset in
                FaultPoint.checkpoint.reach()
                CautiousFile.fileWrites.add(1, ordering: .relaxed)
                return file?.pointee.pMethods?[1].xWrite?(file, bytes, count, offset)
                    ?? SQLITE_IOERR
            }
        }
        let new = UInt(bitPattern: both)
        let kept = cautiousMethods.withLock { made in
            // Another connection may have been faster.
            let kept = made[key] ?? new
            made[key] = kept
            return kept
        }
        return UnsafePointer(bitPattern: kept) ?? UnsafePointer(both)
    }
}
