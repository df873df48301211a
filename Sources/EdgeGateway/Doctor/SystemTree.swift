import Foundation

/// The kernel's files below a root: `/` of this machine, or a tree made by a test.
struct SystemTree: Sendable {
    /// No file that is read here is larger.
    private static let bytesMax = 64 << 10

    let root: String

    init(root: String = "") {
        self.root = root
    }

    /// A file's text without the white space around it; nil if it cannot be read.
    func text(_ path: String) -> String? {
        guard let handle = FileHandle(forReadingAtPath: root + path) else { return nil }
        defer { try? handle.close() }
        guard let data = try? handle.read(upToCount: Self.bytesMax) else { return nil }
        return String(decoding: data, as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func number(_ path: String) -> Int? { text(path).flatMap { Int($0) } }

    /// The names in a directory, sorted; empty if it cannot be read.
    func names(_ path: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: root + path)) ?? []).sorted()
    }

    func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: root + path) }

    /// The last part of where a link leads, such as the driver behind `device/driver`.
    func linkName(_ path: String) -> String? {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: root + path))?
            .split(separator: "/").last.map(String.init)
    }
}
