import Foundation
import OfflineQueue

/// How a destination that is a file names it: by the origin `file:///path`.
public enum FilePlace {
    /// The longest path taken, in bytes.
    public static let lengthMax = 1000

    /// The origin of the file at `path`; nil unless it is a whole path in printable characters.
    public static func origin(path: String) -> String? {
        let isPath = path.hasPrefix("/") && !path.hasSuffix("/") && path.utf8.count <= lengthMax
        let isPrintable = path.unicodeScalars.allSatisfy {
            $0.properties.generalCategory != .control && $0.properties.generalCategory != .format
        }
        return isPath && isPrintable ? "file://" + path : nil
    }

    /// The path of a file that is delivered into; nil for a server.
    public static func path(of terms: EnrollmentTerms) -> String? {
        guard terms.kind == .destination, terms.origin.hasPrefix("file:///") else { return nil }
        return String(terms.origin.dropFirst("file://".count))
    }

    /// The files that a delivery into one at `path` has left there: its own, that of the gaps beside it, and those that
    /// were put aside.
    public static func files(at path: String) -> [String] { RotatedFiles(path: path).all() }

    /// Whether what is written to `path` is lost when the service stops or the machine restarts: the kernel's
    /// file systems, and a service's own /tmp and /var/tmp (systemd.exec(5), `PrivateTmp=`).
    static func isTemporary(_ path: String) -> Bool {
        isTemporary(path, mounts: wholeText(ofKernelFile: "/proc/self/mountinfo"))
    }

    /// Foundation's `contentsOf…` end after the first 4 KiB of a file without a size, as the kernel's are.
    static func wholeText(ofKernelFile path: String) -> String {
        guard let file = FileHandle(forReadingAtPath: path) else { return "" }
        defer { try? file.close() }
        return String(decoding: (try? file.readToEnd()) ?? Data(), as: UTF8.self)
    }

    /// The same with the table of mounts of proc(5).
    static func isTemporary(_ path: String, mounts: String) -> Bool {
        let slash = path.lastIndex(of: "/") ?? path.startIndex
        var directory = slash == path.startIndex ? "/" : String(path[..<slash])
        if let real = realpath(directory, nil) {
            directory = String(cString: real)
            free(real)
        }
        func isBelow(_ place: some StringProtocol) -> Bool {
            place == "/" || directory == place || directory.hasPrefix(place + "/")
        }
        if ["/run", "/dev", "/proc", "/sys"].contains(where: { isBelow($0) }) { return true }
        // ID, parent, device, root within the file system, where it is mounted, …
        let mount = mounts.split(separator: "\n").map { $0.split(separator: " ") }
            .filter { $0.count > 4 && isBelow($0[4]) }
            .max { $0[4].utf8.count < $1[4].utf8.count }
        return mount?[3].contains("/systemd-private-") ?? false
    }
}
