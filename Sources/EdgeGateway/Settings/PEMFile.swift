import Foundation

/// A file with a certificate, a bundle of authorities or a key, which a setting names.
enum PEMFile {
    /// A certificate with its chain, or a bundle of authorities, begins within this many bytes.
    private static let preambleBytesMax = 1 << 20

    /// Why it cannot be used; nil if it can.
    static func fault(_ path: String) -> String? {
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory),
            !isDirectory.boolValue, let handle = FileHandle(forReadingAtPath: path)
        else { return "\(path) is not there, or this user may not read it" }
        defer { try? handle.close() }
        let data = (try? handle.read(upToCount: preambleBytesMax)) ?? Data()
        return data.range(of: Data("-----BEGIN ".utf8)) != nil ? nil : "\(path) is not a PEM file"
    }

    /// Whether every user may read it, as nobody may read a key.
    static func isOpenToAll(_ path: String) -> Bool {
        let mode = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
        return (mode as? Int).map { $0 & 0o007 != 0 } ?? false
    }
}
