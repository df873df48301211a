import Foundation

/// The pages of a store file and of its write-ahead log as they lie on the disk, oldest first, a
/// megabyte at a time.
struct StorePages {
    private static let chunkPages = 1024

    let path: String

    /// Calls `body` with each page and whether it is the first of the file. A part of the disk that
    /// cannot be read is passed over.
    ///
    /// First what is left in `log` from before its last checkpoint, then the file, then the log.
    func forEach(
        _ log: WriteAheadLog, _ body: (_ page: [UInt8], _ isFirst: Bool) throws -> Void
    ) throws(QueueError) {
        do {
            try forEachFrame(of: log, where: { !log.frames[$0].isCurrent }, body)
            try Self.read(path, skip: 0, stride: pageBytes(log)) { bytes, index in
                try body(bytes, index == 0)
            }
            try forEachFrame(of: log, where: { log.frames[$0].isCurrent }, body)
        } catch {
            throw QueueError("salvage store", error)
        }
    }

    /// Calls `body` with the page of each frame that is wanted, as ``forEach(_:_:)`` does.
    func forEachFrame(
        of log: WriteAheadLog, where isWanted: (Int) -> Bool,
        _ body: (_ page: [UInt8], _ isFirst: Bool) throws -> Void
    ) throws {
        try Self.read(
            path + "-wal", skip: WriteAheadLog.headerBytes, stride: log.frameBytes
        ) { bytes, index in
            guard bytes.count == log.frameBytes, index < log.frames.count,
                isWanted(index)
            else { return }
            try body(Array(bytes[WriteAheadLog.frameHeaderBytes...]), log.frames[index].page == 1)
        }
    }

    /// Reads what a row has in further pages, the newest sound version of each.
    func overflow(_ log: WriteAheadLog) -> PageCarver.Overflow {
        let pageBytes = pageBytes(log)
        return { first, count in
            var octets: [UInt8] = []
            var next = first
            // Each adds some: a ring of pages ends, too.
            while octets.count < count {
                guard let page = page(next, log, pageBytes) else { return nil }
                next = page[..<4].reduce(0) { $0 << 8 | UInt32($1) }
                octets += page[4...].prefix(count - octets.count)
            }
            return octets
        }
    }

    /// The newest sound version of a page, counted from 1; nil if there is none.
    private func page(_ number: UInt32, _ log: WriteAheadLog, _ pageBytes: Int) -> [UInt8]? {
        guard number > 0 else { return nil }
        if let frame = log.frames.lastIndex(where: { $0.isGood && $0.page == number }) {
            let start = WriteAheadLog.headerBytes + frame * log.frameBytes
            return Self.octets(
                path + "-wal", from: start + WriteAheadLog.frameHeaderBytes, count: log.pageBytes)
        }
        return Self.octets(path, from: Int(number - 1) * pageBytes, count: pageBytes)
    }

    /// Bytes of a page of the file: by its header; where that is damaged by its log; and without either by what
    /// lies where pages of the smallest size begin, and no others.
    func pageBytes(_ log: WriteAheadLog) -> Int {
        if let size = StoreFile.pageBytes(inHeader: Self.firstOctets(path)) { return size }
        if log.hasHeader { return log.pageBytes }
        let (small, next) = (StoreFile.pageSizes[0], StoreFile.pageSizes[1])
        var (trees, others) = (0, 0)
        try? Self.read(path, skip: 0, stride: small) { piece, index in
            guard index * small % next != 0, piece.contains(where: { $0 != 0 }) else { return }
            if PageCarver.isTree(piece) { trees += 1 } else { others += 1 }
        }
        guard trees + others > 0 else { return log.pageBytes }
        return trees > others ? small : next
    }

    /// As many as tell what a file is; fewer where the file has no more.
    static func firstOctets(_ path: String) -> [UInt8] {
        octets(path, from: 0, count: StoreFile.headerBytes) ?? []
    }

    private static func octets(_ path: String, from start: Int, count: Int) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var octets = [UInt8](repeating: 0, count: count)
        return pread(descriptor, &octets, count, off_t(start)) == count ? octets : nil
    }

    /// Calls `body` with each piece of `stride` bytes and its number; the last may be shorter. Pieces that
    /// cannot be read are passed over.
    static func read(
        _ path: String, skip: Int, stride: Int, _ body: ([UInt8], Int) throws -> Void
    ) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return }
        let size = Int(status.st_size)
        var chunk = [UInt8](repeating: 0, count: stride * chunkPages)
        var offset = skip
        var index = 0
        while offset < size {
            let count = chunk.withUnsafeMutableBytes {
                pread(descriptor, $0.baseAddress, $0.count, off_t(offset))
            }
            if count <= 0 {
                // A sector that cannot be read: go on behind its page.
                offset += stride
                index += 1
                continue
            }
            var at = 0
            while at < count {
                try body(Array(chunk[at..<min(at + stride, count)]), index)
                at += stride
                index += 1
            }
            offset += at
        }
    }
}
