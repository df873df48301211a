import Foundation
import Glibc

/// The target of a path that a person gave.
enum GivenPath {
    /// The most links that lead from one to the next: as many as the kernel follows.
    private static let linksMax = 40

    /// The path without symbolic links; of a file that is not there, where it would be made. Nil if its
    /// directory is not there, or this user may not look into it.
    static func real(_ path: String) -> String? { real(path, links: 0) }

    private static func real(_ path: String, links: Int) -> String? {
        if let there = existing(path) { return there }
        let cut = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
        let name = path[cut...]
        guard !name.isEmpty, links < linksMax,
            let directory = existing(cut == path.startIndex ? "." : String(path[..<cut]))
        else { return nil }
        let place = (directory == "/" ? "" : directory) + "/" + name
        if let target = try? FileManager.default.destinationOfSymbolicLink(atPath: place) {
            return real(target.hasPrefix("/") ? target : "\(directory)/\(target)", links: links + 1)
        }
        return place
    }

    private static func existing(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    /// Whether two paths lead to one file, by whatever links and names.
    static func isSame(_ one: String, _ other: String) -> Bool {
        var first = stat()
        var second = stat()
        guard stat(one, &first) == 0, stat(other, &second) == 0 else {
            return (real(one) ?? one) == (real(other) ?? other)
        }
        return first.st_dev == second.st_dev && first.st_ino == second.st_ino
    }

    /// Why a file that could not be read cannot, for a message that has its path.
    static func whyUnreadable(_ path: String) -> String {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return errno == ENOENT
                ? "there is no such file" : "there is no such file, or this user may not read it"
        }
        return status.st_mode & S_IFMT == S_IFDIR
            ? "it is a directory; name a file" : "this user may not read it"
    }

    /// Whether something other than a regular file is there, such as a directory, a device or a fifo: it must
    /// not be replaced, and reading it may take for ever.
    static func isOccupied(_ path: String) -> Bool {
        var status = stat()
        return lstat(real(path) ?? path, &status) == 0 && status.st_mode & S_IFMT != S_IFREG
    }

    /// Under how many names the file stands; 0 if it is not there.
    static func names(_ path: String) -> Int {
        var status = stat()
        return stat(path, &status) == 0 ? Int(status.st_nlink) : 0
    }
}
