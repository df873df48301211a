import Foundation

/// The pages of a store file and of its write-ahead log as they lie on the disk, oldest first, a
/// megabyte at a time.
struct StorePages {
    /// Octets of the log's header, and of the header before each of its pages (file format, §4.1).
    private static let logHeader = 32
    private static let frameHeader = 24
    private static let chunkPages = 1024

    let path: String

    /// Calls `body` with each page and whether it is the first of the file. A part of the disk that
    /// cannot be read is passed over.
    func forEach(_ body: (_ page: [UInt8], _ isFirst: Bool) throws -> Void) throws(QueueError) {
        do {
            try Self.read(path, skip: 0, stride: StoreFile.pageBytes) { bytes, index in
                try body(bytes, index == 0)
            }
            let frame = Self.frameHeader + StoreFile.pageBytes
            try Self.read(path + "-wal", skip: Self.logHeader, stride: frame) { bytes, _ in
                guard bytes.count == frame else { return }
                let number = bytes[0..<4].reduce(0) { $0 << 8 | Int($1) }
                try body(Array(bytes[Self.frameHeader...]), number == 1)
            }
        } catch {
            throw QueueError("salvage store", error)
        }
    }

    private static func read(
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
