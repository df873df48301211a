import Foundation

// The write-ahead log as it lies on the disk (https://www.sqlite.org/fileformat2.html#walformat):
//
//     header  magic, version, page size, checkpoint number, two salts, checksum          32 bytes
//     frame   page number, pages of the file after a commit (else 0), the salts, checksum 24 bytes
//             the page
//
// SQLite takes the frames up to the first whose salts or checksum are wrong, and reports nothing of
// those behind it. That is right after a power cut, and wrong when a byte has changed since. What tells
// the two apart:
//
//   - A checksum continues that of the frame before. A frame that continues a commit was written after
//     that commit had been synced: if it is there, everything before it was on the disk. Not so where it
//     has the page of the frame before: a commit's last frame is repeated up to the next block of the disk,
//     where the next commit begins. Behind a damaged frame only its beginning counts: a change that the disk
//     refused halfway may end before frames of an earlier one that it refused.
//   - The index of the log ("-shm") has the number of frames that were committed, written after they
//     were synced. It may be older than the log, never newer.
//
// Frames with other salts are left over from before the last checkpoint, and mean nothing.

/// The content of a write-ahead log.
struct WriteAheadLog: Sendable {
    static let headerBytes = 32
    static let frameHeaderBytes = 24
    private static let magic: UInt32 = 0x377F_0682
    private static let version: UInt32 = 3_007_000

    /// One frame, without its page.
    struct Frame: Sendable {
        var page: UInt32 = 0
        /// Pages of the file after the commit that this frame ends; 0 if it ends none.
        var commit: UInt32 = 0
        var salts: [UInt8] = []
        /// Whether it belongs to this log, and is not left over from an earlier one.
        var isCurrent = false
        /// Whether it is as it was written, after the frame before it.
        var isLinked = false

        var isGood: Bool { isCurrent && isLinked && page > 0 }
    }

    /// The `errno` with which a part of it could not be read; nil if all of it was.
    private(set) var unreadable: Int32?
    /// Bytes of the file; 0 if it is not there.
    private(set) var bytes = 0
    /// Bytes of a page, by the header; without one by that of the store, and without either those of a new store.
    private(set) var pageBytes = StoreFile.newPageBytes
    /// Bytes of a frame.
    var frameBytes: Int { Self.frameHeaderBytes + pageBytes }
    private(set) var hasHeader = false
    private(set) var frames: [Frame] = []
    /// The frames that SQLite would take, whether or not they end a commit.
    private(set) var prefix = 0
    /// Of these, those up to the last commit.
    private(set) var committed = 0
    /// The salts of its frames, as bytes.
    private(set) var salts: [UInt8] = []
    private var isAnythingWritten = false
    private var durable: WriteAheadLogIndex?
    /// While the log is read: the frame that the next ones may repeat; empty before the first commit.
    private var repeatable: [UInt8] = []
    /// Bytes of a page of the store itself, if it was asked and can tell.
    private var storePageBytes: Int?

    /// Reads the log of the store at `path`.
    ///
    /// - Parameter readsIndex: whether to compare with the log's index and the store. Not in a process that has
    ///   the store open: to close either would give up SQLite's locks on it.
    init(of path: String, readsIndex: Bool) {
        func index() -> WriteAheadLogIndex? {
            readsIndex ? WriteAheadLogIndex(path: path + "-shm") : nil
        }
        if readsIndex {
            storePageBytes = StoreFile.pageBytes(inHeader: StorePages.firstOctets(path))
        }
        for _ in 0..<Self.attemptsMax {
            // Before the log: it may grow meanwhile, and must not seem to be too short.
            durable = index()
            read(path + "-wal")
            // A daemon may have begun the log anew meanwhile.
            if Self.header(path + "-wal") == header, index() == durable { break }
        }
    }

    private static let attemptsMax = 5
    private var header: [UInt8] = []

    private static func header(_ path: String) -> [UInt8] {
        StorePages.octets(path, from: 0, count: headerBytes) ?? []
    }

    private mutating func read(_ path: String) {
        (hasHeader, salts) = (false, [])
        var status = stat()
        bytes = stat(path, &status) == 0 ? Int(status.st_size) : 0
        header = Self.header(path)
        var stored: (UInt32, UInt32)?
        if !header.isEmpty {
            let sum = Self.checksum(header[0..<24], (0, 0))
            stored = (header.number(at: 24), header.number(at: 28))
            let size = Int(header.number(at: 8))
            hasHeader =
                header.number(at: 0) == Self.magic && header.number(at: 4) == Self.version
                && StoreFile.isPageSize(size) && stored.map { sum == $0 } == true
            if hasHeader {
                salts = Array(header[16..<24])
                pageBytes = size
            }
        }
        if !hasHeader { pageBytes = storePageBytes ?? StoreFile.newPageBytes }
        readFrames(path, after: stored)
        if header.isEmpty, bytes >= Self.headerBytes { unreadable = unreadable ?? EIO }
    }

    private mutating func readFrames(_ path: String, after header: (UInt32, UInt32)?) {
        (frames, repeatable) = ([], [])
        (isAnythingWritten, prefix, committed) = (false, 0, 0)
        var before = header
        unreadable = StorePages.read(path, skip: Self.headerBytes, stride: frameBytes) {
            bytes, index in
            add(bytes, index, &before)
        }
        // A log without a header is known by its first frame that continues another. The first of all has
        // nothing to continue then: it is taken as it is.
        if !hasHeader {
            salts = []
            if let linked = frames.indices.dropFirst().first(where: { frames[$0].isLinked }) {
                salts = frames[linked].salts
                if linked == 1 { frames[0].isLinked = true }
            }
        }
        for index in frames.indices {
            frames[index].isCurrent = !salts.isEmpty && frames[index].salts == salts
        }
        for (index, frame) in frames.enumerated() {
            guard frame.isGood else { break }
            prefix = index + 1
            if frame.commit > 0 { committed = index + 1 }
        }
        if !hasHeader { (prefix, committed) = (0, 0) }
    }

    private mutating func add(_ bytes: [UInt8], _ index: Int, _ before: inout (UInt32, UInt32)?) {
        if !isAnythingWritten { isAnythingWritten = bytes.contains { $0 != 0 } }
        // Bytes that could not be read are no frame, nor is a part of one.
        while frames.count < index {
            frames.append(Frame())
            (before, repeatable) = (nil, [])
        }
        guard bytes.count == frameBytes else { return }
        var frame = Frame(
            page: bytes.number(at: 0), commit: bytes.number(at: 4), salts: Array(bytes[8..<16]))
        let stored = (bytes.number(at: 16), bytes.number(at: 20))
        // Behind its end the log is zeros.
        if let before, frame.page > 0 {
            frame.isLinked = Self.checksum(ofFrame: bytes, after: before) == stored
        }
        if !frame.isLinked, frame.commit > 0, let last = before,
            bytes.prefix(8) == repeatable.prefix(8)
        {
            // What a damaged copy was is known. Its own checksum may be that of a change that was refused before.
            before = Self.checksum(ofFrame: repeatable, after: last)
        } else {
            (before, repeatable) = (stored, frame.isLinked ? bytes : [])
        }
        frames.append(frame)
    }

    /// Its fault; nil if there is none.
    var damage: String? {
        guard hasHeader else {
            if isAnythingWritten { return "the header of the write-ahead log is damaged" }
            if let durable, durable.committed > durable.copied {
                return "the write-ahead log is missing or was cut off"
            }
            return nil
        }
        if let storePageBytes, storePageBytes != pageBytes {
            let sizes = "pages of \(pageBytes) bytes, the store of \(storePageBytes)"
            return "the write-ahead log has \(sizes)"
        }
        if let durable, durable.salts == salts, durable.committed > committed {
            return "the write-ahead log has \(committed) sound frames of \(durable.committed)"
        }
        guard let last = lastProven else { return nil }
        return "a frame of the write-ahead log is damaged, and \(last - prefix) are behind it"
    }

    /// The last frame behind the sound ones that shows by itself that those before it were on the disk.
    private var lastProven: Int? {
        guard prefix < frames.count else { return nil }
        return frames.indices.dropFirst(prefix + 1).last { index in
            let (frame, before) = (frames[index], frames[index - 1])
            return frame.isGood && before.isCurrent && before.commit > 0
                && frame.page != before.page && (before.isGood || mayBeginCommit(index))
        }
    }

    /// Whether it is the first frame in a block of the disk: a commit begins nowhere else.
    private func mayBeginCommit(_ index: Int) -> Bool {
        (Self.headerBytes + index * frameBytes) % StoreFile.diskBlockBytes < frameBytes
    }

    /// The frames with which the store is as new as can be: without those that are damaged, up to the last
    /// that ends a commit.
    var usable: [Int] {
        let good =
            damage == nil ? Array(0..<committed) : frames.indices.filter { frames[$0].isGood }
        let last = good.last { frames[$0].commit > 0 }
        return last.map { last in good.filter { $0 <= last } } ?? []
    }

    // MARK: - Writing

    /// Writes a log that has frames of this one.
    func write(_ indices: [Int], of path: String, to target: String) throws {
        var header = [UInt8]()
        for word in [Self.magic, Self.version, UInt32(pageBytes), 0] {
            header += Self.bytes(word)
        }
        header += salts.isEmpty ? [UInt8](repeating: 1, count: 8) : salts
        var sum = Self.checksum(header[0..<24], (0, 0))
        header += Self.bytes(sum.0) + Self.bytes(sum.1)
        let isMade = FileManager.default.createFile(
            atPath: target, contents: Data(header), attributes: [.posixPermissions: 0o600])
        guard isMade, let file = FileHandle(forUpdatingAtPath: target) else {
            throw QueueError(errno: errno, "salvage store")
        }
        defer { try? file.close() }
        try file.seekToEnd()
        let wanted = Set(indices)
        try StorePages.read(path + "-wal", skip: Self.headerBytes, stride: frameBytes) {
            bytes, index in
            guard wanted.contains(index) else { return }
            var frame = Array(bytes[0..<8])
            sum = Self.checksum(ofFrame: bytes, after: sum)
            frame += header[16..<24]
            frame += Self.bytes(sum.0) + Self.bytes(sum.1) + bytes[Self.frameHeaderBytes...]
            try file.write(contentsOf: frame)
        }
    }

    // MARK: - Numbers

    private static func bytes(_ number: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
    }

    private static func checksum(
        ofFrame bytes: [UInt8], after before: (UInt32, UInt32)
    ) -> (UInt32, UInt32) {
        checksum(bytes[frameHeaderBytes...], checksum(bytes[0..<8], before))
    }

    /// The checksum of the log (file format, §4.2) over a multiple of eight bytes, as machines make it whose least octet
    /// is the first: no other runs this program.
    static func checksum(
        _ bytes: ArraySlice<UInt8>, _ seed: (UInt32, UInt32)
    ) -> (UInt32, UInt32) {
        var (first, second) = seed
        bytes.withUnsafeBytes { raw in
            for at in stride(from: 0, to: raw.count - 7, by: 8) {
                let one = raw.loadUnaligned(fromByteOffset: at, as: UInt32.self)
                let two = raw.loadUnaligned(fromByteOffset: at + 4, as: UInt32.self)
                first = first &+ one.littleEndian &+ second
                second = second &+ two.littleEndian &+ first
            }
        }
        return (first, second)
    }
}

/// The header of a write-ahead log's index: 48 bytes, twice, then how far it was copied home
/// (https://www.sqlite.org/walformat.html#the_wal_index_header). In the byte order of the machine.
struct WriteAheadLogIndex: Sendable, Equatable {
    private static let headerBytes = 48

    /// Frames that were committed and synced.
    let committed: Int
    /// Frames that a checkpoint has copied into the file.
    let copied: Int
    let salts: [UInt8]

    /// Nil if there is none, or it is not whole.
    init?(path: String) {
        let count = 2 * Self.headerBytes + 4
        guard let bytes = StorePages.octets(path, from: 0, count: count) else { return nil }
        func number(_ at: Int) -> UInt32 {
            bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: at, as: UInt32.self) }
        }
        let sum = WriteAheadLog.checksum(bytes[0..<40], (0, 0))
        guard bytes[0..<48].elementsEqual(bytes[48..<96]), bytes[12] == 1,
            number(0) == 3_007_000, sum == (number(40), number(44))
        else { return nil }
        committed = Int(number(16))
        copied = Int(number(96))
        salts = Array(bytes[32..<40])
    }
}
