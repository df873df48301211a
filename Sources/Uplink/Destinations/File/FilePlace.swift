import OfflineQueue

/// How an enrollment that delivers into a file names it: by the origin `file:///path`.
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

    /// The path an enrollment delivers to; nil if it delivers to a server.
    public static func path(of terms: EnrollmentTerms) -> String? {
        guard terms.kind == .file || terms.kind == .destination,
            terms.origin.hasPrefix("file:///")
        else { return nil }
        return String(terms.origin.dropFirst("file://".count))
    }
}
