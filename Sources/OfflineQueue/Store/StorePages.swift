import Foundation

/// The pages of a store file and of its write-ahead log as they lie on the disk, oldest first, a
/// megabyte at a time.
struct StorePages {
    private static let chunkBytes = 1 << 20

    private let path: String
    /// Bytes of a page of the file: by its header, and where that is damaged by the log's.
    let pageBytes: Int

    init(path: String, _ log: WriteAheadLog) {
        self.path = path
        pageBytes = StoreFile.pageBytes(inHeader: Self.firstOctets(path)) ?? log.pageBytes
    }

    /// A page as it lies on the disk.
    struct Found {
        var bytes: [UInt8]
        /// Whether it is the first of the file.
        var isFirst: Bool
        /// Whether there is no newer version of it: what it points to is still its own.
        var isNewest: Bool
    }

    /// Calls `body` with each page. A part of the disk that cannot be read is passed over.
    ///
    /// First what is left in `log` from before its last checkpoint, then the file, then the log.
    func forEach(
        _ log: WriteAheadLog, _ body: (_ page: Found) throws -> Void
    ) throws(QueueError) {
        let newest = Self.newestFrames(of: log)
        do {
            try forEachFrame(of: log, where: { !log.frames[$0].isCurrent }, body)
            try Self.read(path, skip: 0, stride: pageBytes) { bytes, index in
                let isNewest = newest[UInt32(truncatingIfNeeded: index + 1)] == nil
                try body(Found(bytes: bytes, isFirst: index == 0, isNewest: isNewest))
            }
            try forEachFrame(of: log, where: { log.frames[$0].isCurrent }, body)
        } catch {
            throw QueueError("salvage store", error)
        }
    }

    /// Calls `body` with the page of each frame that is wanted, as ``forEach(_:_:)`` does.
    func forEachFrame(
        of log: WriteAheadLog, where isWanted: (Int) -> Bool,
        _ body: (_ page: Found) throws -> Void
    ) throws {
        let newest = Self.newestFrames(of: log)
        try Self.read(
            path + "-wal", skip: WriteAheadLog.headerBytes, stride: log.frameBytes
        ) { bytes, index in
            guard bytes.count == log.frameBytes, index < log.frames.count,
                isWanted(index)
            else { return }
            let number = log.frames[index].page
            try body(
                Found(
                    bytes: Array(bytes[WriteAheadLog.frameHeaderBytes...]), isFirst: number == 1,
                    isNewest: newest[number] == index))
        }
    }

    /// The last undamaged frame of each page that the log has.
    private static func newestFrames(of log: WriteAheadLog) -> [UInt32: Int] {
        var newest: [UInt32: Int] = [:]
        for (index, frame) in log.frames.enumerated() where frame.isGood {
            newest[frame.page] = index
        }
        return newest
    }

    /// Reads what a row has in further pages, the newest undamaged version of each.
    func overflow(_ log: WriteAheadLog) -> PageCarver.Overflow {
        let newest = Self.newestFrames(of: log)
        return { first, count in
            var octets: [UInt8] = []
            var next = first
            // Each adds some: a ring of pages ends, too.
            while octets.count < count {
                guard let page = page(next, log, newest[next]) else { return nil }
                next = page[..<4].reduce(0) { $0 << 8 | UInt32($1) }
                octets += page[4...].prefix(count - octets.count)
            }
            return octets
        }
    }

    /// The newest undamaged version of a page, counted from 1; nil if there is none.
    private func page(_ number: UInt32, _ log: WriteAheadLog, _ frame: Int?) -> [UInt8]? {
        guard number > 0 else { return nil }
        if let frame {
            let start = WriteAheadLog.headerBytes + frame * log.frameBytes
            return Self.octets(
                path + "-wal", from: start + WriteAheadLog.frameHeaderBytes, count: log.pageBytes)
        }
        return Self.octets(path, from: Int(number - 1) * pageBytes, count: pageBytes)
    }

    /// As many as tell what a file is; none if it has fewer.
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
        var chunk = [UInt8](repeating: 0, count: stride * max(1, chunkBytes / stride))
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
