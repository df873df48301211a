import Foundation

extension QueueError {
    /// The error for the `errno` of a failed system call.
    init(errno code: Int32, _ operation: String) {
        let kind: Code =
            switch code {
            case ENOSPC, EDQUOT: .diskFull
            case EROFS: .readOnly
            case EIO: .inputOutput
            default: .cannotOpen
            }
        self.init(kind, operation, String(cString: strerror(code)))
    }

    /// The same by what the disk at `path` says: SQLite has many names for a full disk, some of which are
    /// those of a broken one.
    func located(at path: String) -> QueueError {
        guard code == .inputOutput || code == .cannotOpen,
            let room = DiskRoom(at: path)
        else { return self }
        if room.isReadOnly { return QueueError(.readOnly, operation, cause) }
        return room.isFull ? QueueError(.diskFull, operation, cause) : self
    }
}

/// The room that is left on the file system that holds a file.
public struct DiskRoom: Sendable, Hashable {
    /// With less than this the disk counts as full: SQLite needs as much at once, for the index of its log.
    private static let bytesMin: Int64 = 64 << 10
    /// With less than this the disk is nearly full: eight straps without a network need as much for half a day.
    private static let bytesLow: Int64 = 32 << 20

    /// Bytes that this user may still take.
    public let freeBytes: Int64
    /// Whether no further file can be made.
    public let isWithoutInodes: Bool
    /// Whether it is mounted read-only.
    public let isReadOnly: Bool

    /// Asks the file system of `path`, or of the nearest directory above it that is there; nil if none is.
    public init?(at path: String) {
        var status = statvfs()
        var place = URL(fileURLWithPath: path)
        while statvfs(place.path, &status) != 0 {
            let above = place.deletingLastPathComponent()
            guard errno == ENOENT, above.path != place.path else { return nil }
            place = above
        }
        freeBytes = Int64(clamping: UInt64(status.f_bavail) &* UInt64(status.f_frsize))
        // A file system without inodes says that it has none.
        isWithoutInodes = status.f_files > 0 && status.f_favail == 0
        isReadOnly = status.f_flag & UInt(ST_RDONLY) != 0
    }

    /// Whether nothing can be written for want of room.
    public var isFull: Bool { freeBytes < Self.bytesMin || isWithoutInodes }

    /// Whether a person had better make room.
    public var isNearlyFull: Bool { freeBytes < Self.bytesLow }
}
