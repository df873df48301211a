import Glibc

/// The modes of the state directory and of the files in it, which hold tokens and health data: they are for the
/// gateway's user alone. A restore, a copied card or a person may have left other modes there.
struct StateModes {
    /// The rights of the group and of all other users.
    private static let others: mode_t = 0o077
    /// Files that a person may let others read: those that a destination of the kind `file` appends (``FileKind``).
    private static let shownName = ".ndjson"

    let directory: String

    /// The paths that others have rights to: the directory itself, or files in it.
    ///
    /// - Returns: paths, sorted, the directory first; empty if it cannot be read.
    func open() -> [String] { [directory].filter(Self.isOpen) + files().filter(Self.isOpen) }

    /// Takes the others' rights away.
    ///
    /// - Returns: the paths that were open, and those of them that still are.
    func repair() -> (open: [String], left: [String]) {
        let open = open()
        for path in open {
            guard let mode = Self.mode(path) else { continue }
            chmod(path, mode & 0o7777 & ~Self.others)
        }
        return (open, open.filter(Self.isOpen))
    }

    private func files() -> [String] {
        guard let stream = opendir(directory) else { return [] }
        defer { closedir(stream) }
        var paths: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) {
                    String(cString: $0)
                }
            }
            let path = directory + "/" + name
            guard !name.contains(Self.shownName), let mode = Self.mode(path),
                mode & S_IFMT == S_IFREG
            else { continue }
            paths.append(path)
        }
        return paths.sorted()
    }

    private static func isOpen(_ path: String) -> Bool {
        mode(path).map { $0 & others != 0 } ?? false
    }

    /// Of the file itself, not of one that a link leads to: that may be anybody's.
    private static func mode(_ path: String) -> mode_t? {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFLNK else { return nil }
        return status.st_mode
    }
}
