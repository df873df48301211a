import Basics
import Foundation
import Glibc

/// A file that appears when it is complete, and that no other user may read.
final class OutputFile {
    private let path: String
    private let part: String
    private let replaces: Bool
    private let descriptor: Int32

    /// Begins the file beside its place.
    ///
    /// - Parameter replaces: whether a complete file replaces an existing one: the file itself, not a link to it,
    ///   and nothing but a regular file.
    /// - Throws: ``CommandFailure``
    init(_ path: String, replaces: Bool = false) throws {
        guard !path.isEmpty, path != "-" else {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "\"\(path)\" is no file; name the file to write")
        }
        let path = replaces ? GivenPath.real(path) ?? path : path
        self.path = path
        self.replaces = replaces
        part = path + ".part-" + String(UInt32.random(in: 0 ... .max), radix: 16)
        guard replaces || access(path, F_OK) != 0 else { throw Self.exists(path) }
        if replaces { try Self.checkReplaceable(path) }
        descriptor = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure(path) }
    }

    /// - Throws: ``CommandFailure`` if something other than a regular file is there.
    static func checkReplaceable(_ path: String) throws {
        guard GivenPath.isOccupied(path) else { return }
        throw CommandFailure(
            exitCode: .wrongUsage,
            message: "\(path) is no regular file, and is not replaced; name another file")
    }

    /// A file that was not finished goes.
    deinit {
        close(descriptor)
        unlink(part)
    }

    /// Deletes what a crash has left of earlier files for this place. Nobody may be writing one.
    static func removeParts(of path: String) {
        let place = URL(filePath: path)
        let directory = place.deletingLastPathComponent().path
        let names = try? FileManager.default.contentsOfDirectory(atPath: directory)
        for name in names ?? [] where name.hasPrefix(place.lastPathComponent + ".part-") {
            unlink(directory + "/" + name)
        }
    }

    /// - Throws: ``CommandFailure``
    func write(_ bytes: [UInt8]) throws {
        guard bytes.withUnsafeBytes({ writeAll($0, to: descriptor) }) else {
            throw Self.failure(path)
        }
    }

    /// Gives the file the owner, the group and the mode of the one that it replaces, if there is one: whoever
    /// could read that can read this as well, from its first moment on.
    ///
    /// - Throws: ``CommandFailure`` if this user may not do that.
    func keepOwnerAndMode() throws {
        guard access(path, F_OK) == 0 else { return }
        do {
            let kept = try FileManager.default.attributesOfItem(atPath: path).filter {
                [.posixPermissions, .ownerAccountID, .groupOwnerAccountID].contains($0.key)
            }
            try FileManager.default.setAttributes(kept, ofItemAtPath: part)
        } catch {
            throw CommandFailure(
                exitCode: .notWell,
                message: "\(path) cannot be replaced by a file with its owner and mode: "
                    + "\(error.localizedDescription)\n  run this as root, or as its owner")
        }
    }

    /// Puts the file in its place, when it is on the disk.
    ///
    /// - Throws: ``CommandFailure``, also if a file has appeared there that it must not replace.
    func finish() throws {
        guard fsync(descriptor) == 0 else { throw Self.failure(path) }
        if !replaces { try takePlace() }
        guard rename(part, path) == 0 else {
            let failure = Self.failure(path)
            if !replaces { unlink(path) }
            throw failure
        }
    }

    /// Makes the empty file that the complete one replaces: every file system can do that exclusively, and not
    /// every one has links or an exclusive `rename`.
    private func takePlace() throws {
        let place = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard place >= 0 else { throw errno == EEXIST ? Self.exists(path) : Self.failure(path) }
        close(place)
    }

    private static func exists(_ path: String) -> CommandFailure {
        CommandFailure(
            exitCode: .wrongUsage, message: "\(path) exists already; name another file")
    }

    private static func failure(_ path: String) -> CommandFailure {
        let reason = errno
        let isDenied = [EACCES, EPERM, EROFS].contains(reason)
        return CommandFailure(
            exitCode: isDenied ? .notPermitted : .notWell,
            message: "\(path) cannot be written: \(String(cString: strerror(reason)))\n"
                + (isDenied
                    ? "  name a file in a folder that this user may write to, or use sudo"
                    : reason == ENOENT
                        ? "  make its folder first, or name a file in another"
                        : "  name another file, on a disk with room"))
    }
}
