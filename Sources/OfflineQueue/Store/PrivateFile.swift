import Basics
import Foundation

/// Files that only their owner may read, which are there whole or not at all.
enum PrivateFile {
    static func replace(_ path: String, with data: Data) throws(QueueError) {
        let part = path + ".part"
        unlink(part)
        let descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw QueueError(errno: errno, "write file") }
        defer {
            close(descriptor)
            unlink(part)
        }
        guard data.withUnsafeBytes({ writeAll($0, to: descriptor) }) else {
            throw QueueError(errno: errno, "write file")
        }
        guard fsync(descriptor) == 0, rename(part, path) == 0 else {
            throw QueueError(errno: errno, "write file")
        }
        try sync(URL(fileURLWithPath: path).deletingLastPathComponent().path)
    }

    /// Has the disk take what was written to a file, or renamed in a directory.
    static func sync(_ path: String) throws(QueueError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw QueueError(errno: errno, "sync file") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw QueueError(errno: errno, "sync file") }
    }

    /// One line that says what the file is, a checksum and the length, then the contents.
    static func sealed(_ magic: String, _ payload: Data) -> Data {
        Data("\(magic) \(RowChecksum.crc32([UInt8](payload))) \(payload.count)\n".utf8) + payload
    }

    /// The contents of such a file; nil if the file is missing or incomplete.
    ///
    /// - Throws: ``QueueError`` if it is there and cannot be read.
    static func contents(_ path: String, _ magic: String) throws(QueueError) -> Data? {
        guard let data = FileManager.default.contents(atPath: path) else {
            guard access(path, F_OK) == 0 else { return nil }
            throw QueueError(errno: access(path, R_OK) == 0 ? EIO : errno, "read registry")
        }
        guard let line = data.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let payload = data[data.index(after: line)...]
        return data == sealed(magic, Data(payload)) ? Data(payload) : nil
    }
}
