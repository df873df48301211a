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
            try Self.read(path, skip: 0, stride: StoreFile.pageBytes) { bytes, index in
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
            path + "-wal", skip: WriteAheadLog.headerBytes, stride: WriteAheadLog.frameBytes
        ) { bytes, index in
            guard bytes.count == WriteAheadLog.frameBytes, index < log.frames.count,
                isWanted(index)
            else { return }
            try body(Array(bytes[WriteAheadLog.frameHeaderBytes...]), log.frames[index].page == 1)
        }
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
