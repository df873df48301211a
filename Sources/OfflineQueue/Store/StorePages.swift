import Foundation

extension [UInt8] {
    /// Four octets as a number, the greatest first: as SQLite writes all numbers.
    func number(at index: Int) -> UInt32 {
        self[index..<(index + 4)].reduce(0) { $0 << 8 | UInt32($1) }
    }
}

/// The pages of a store file and of its write-ahead log as they lie on the disk, oldest first, a
/// megabyte at a time.
struct StorePages {
    private static let chunkBytes = 1 << 20

    let path: String
    let log: WriteAheadLog
    /// Bytes of a page of the file: by its header, and where that is damaged by the log's.
    let pageBytes: Int
    /// The last undamaged frame of each page that the log has.
    private let newest: [UInt32: Int]

    init(of path: String, _ log: WriteAheadLog) {
        (self.path, self.log) = (path, log)
        pageBytes = StoreFile.pageBytes(inHeader: Self.firstOctets(path)) ?? log.pageBytes
        let good = log.frames.indices.filter { log.frames[$0].isGood }
        newest = Dictionary(good.map { (log.frames[$0].page, $0) }) { _, later in later }
    }

    /// A page as it lies on the disk.
    struct Found {
        var bytes: [UInt8]
        /// Whether it is the first of the file.
        var isFirst: Bool
        /// Whether there is no newer version of it: what it points to is still its own.
        var isNewest: Bool
        /// The frame of the log that it is from; nil: it is the file's.
        var frame: Int?
    }

    /// Where a reader is that goes through all pages: first what is left in the log from before its last checkpoint,
    /// then the file, then the log.
    struct Position: Sendable {
        fileprivate var part = 0
        fileprivate var next = 0
        /// The `errno` of a part that could not be read; nil if there is none.
        fileprivate(set) var fault: Int32?
    }

    /// The pages of the next megabyte; nil at the end. A part of the disk that cannot be read is passed over.
    func next(_ position: inout Position) -> [Found]? {
        while position.part < 3 {
            let isFile = position.part == 1
            let chunk =
                isFile
                ? Self.chunk(path, skip: 0, stride: pageBytes, &position.next, &position.fault)
                : Self.chunk(
                    path + "-wal", skip: WriteAheadLog.headerBytes, stride: log.frameBytes,
                    &position.next, &position.fault)
            guard let chunk else {
                (position.part, position.next) = (position.part + 1, 0)
                continue
            }
            return chunk.compactMap { bytes, index in
                guard !isFile else {
                    let isNewest = newest[UInt32(truncatingIfNeeded: index + 1)] == nil
                    return Found(bytes: bytes, isFirst: index == 0, isNewest: isNewest)
                }
                guard bytes.count == log.frameBytes, index < log.frames.count,
                    log.frames[index].isCurrent == (position.part == 2)
                else { return nil }
                let number = log.frames[index].page
                return Found(
                    bytes: Array(bytes[WriteAheadLog.frameHeaderBytes...]), isFirst: number == 1,
                    isNewest: newest[number] == index, frame: index)
            }
        }
        return nil
    }

    /// Reads so many octets that a row has in further pages, from `first` on, the newest undamaged version of each.
    func overflow(_ first: UInt32, _ count: Int) -> [UInt8]? {
        var octets: [UInt8] = []
        var next = first
        // Each adds some: a ring of pages ends, too.
        while octets.count < count {
            guard let page = page(next, newest[next]) else { return nil }
            next = page.number(at: 0)
            octets += page[4...].prefix(count - octets.count)
        }
        return octets
    }

    /// A page, counted from 1, by that frame of the log or by the file; nil if it cannot be read.
    private func page(_ number: UInt32, _ frame: Int?) -> [UInt8]? {
        guard number > 0 else { return nil }
        if let frame {
            let start = WriteAheadLog.headerBytes + frame * log.frameBytes
            return Self.octets(
                path + "-wal", from: start + WriteAheadLog.frameHeaderBytes, count: log.pageBytes)
        }
        return Self.octets(path, from: Int(number - 1) * pageBytes, count: pageBytes)
    }

    /// Whose the first page says that it is (``StoreKey/mark``): by the log, and by the file.
    var marks: [Int32] {
        (newest[1].map { [$0, nil] } ?? [nil]).compactMap { page(1, $0) }
            .map { Int32(bitPattern: $0.number(at: 68)) }.filter { $0 != 0 }
    }

    /// As many as tell that a file is a store, and the size of its pages; none if it has fewer.
    static func firstOctets(_ path: String) -> [UInt8] {
        octets(path, from: 0, count: 18) ?? []
    }

    /// Octets of a file; nil if it has fewer there, or they cannot be read.
    static func octets(_ path: String, from start: Int, count: Int) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var octets = [UInt8](repeating: 0, count: count)
        return pread(descriptor, &octets, count, off_t(start)) == count ? octets : nil
    }

    /// Calls `body` with each piece of `stride` bytes and its number; the last may be shorter. Pieces that
    /// cannot be read are passed over.
    ///
    /// - Returns: the `errno` of one that could not be read; nil if there is none.
    @discardableResult
    static func read(
        _ path: String, skip: Int, stride: Int, _ body: ([UInt8], Int) throws -> Void
    ) rethrows -> Int32? {
        var next = 0
        var fault: Int32?
        while let pieces = chunk(path, skip: skip, stride: stride, &next, &fault) {
            for (piece, index) in pieces { try body(piece, index) }
        }
        return fault
    }

    /// The pieces of the next megabyte, from the one with the number `next` on; nil at the end.
    static func chunk(
        _ path: String, skip: Int, stride: Int, _ next: inout Int, _ fault: inout Int32?
    ) -> [(piece: [UInt8], index: Int)]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno != ENOENT { fault = errno }
            return nil
        }
        defer { close(descriptor) }
        let size = Int(lseek(descriptor, 0, SEEK_END))
        var chunk = [UInt8](repeating: 0, count: stride * max(1, chunkBytes / stride))
        while skip + next * stride < size {
            let count = pread(descriptor, &chunk, chunk.count, off_t(skip + next * stride))
            if count > 0 {
                let first = next
                next += (count + stride - 1) / stride
                return Swift.stride(from: 0, to: count, by: stride).map { at in
                    (Array(chunk[at..<min(at + stride, count)]), first + at / stride)
                }
            }
            if count < 0 { fault = errno }
            // A sector that cannot be read: go on behind its page.
            chunk = [UInt8](repeating: 0, count: stride)
            next += 1
        }
        return nil
    }
}
