import Foundation

/// A token that opens the page or what belongs to it, from a file that only its user may read.
enum PageToken {
    /// Shorter ones can be guessed in time.
    static let lengthMin = 32
    private static let lengthMax = 512

    /// - Parameter setting: what names the file, such as `page.token_file`.
    /// - Throws: ``SettingsFault`` in one line with advice; it never quotes the file.
    static func read(_ path: String, setting: String) throws(SettingsFault) -> String {
        func fault(_ what: String) -> SettingsFault {
            SettingsFault(description: "\(setting): \(path) \(what)", setting: setting)
        }
        let attributes: [FileAttributeKey: Any]
        do {
            attributes = try FileManager.default.attributesOfItem(
                atPath: URL(filePath: path).resolvingSymlinksInPath().path)
        } catch {
            throw fault("is not there")
        }
        guard attributes[.type] as? FileAttributeType == .typeRegular,
            (attributes[.size] as? Int).map({ $0 <= lengthMax }) ?? false
        else { throw fault("is not a file with a token") }
        guard (attributes[.posixPermissions] as? Int).map({ $0 & 0o007 == 0 }) ?? false else {
            throw fault("is readable by every user; chmod 640 it, with its reader's group")
        }
        guard let bytes = FileManager.default.contents(atPath: path) else {
            throw fault("cannot be read by this user")
        }
        let text = String(decoding: bytes, as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        // As a cookie's value (RFC 6265 §4.1.1), base64 and base64url fit.
        guard (lengthMin...lengthMax).contains(text.utf8.count),
            text.utf8.allSatisfy({ 0x21...0x7E ~= $0 && !#"",;\"#.utf8.contains($0) })
        else {
            throw fault("does not hold a token of \(lengthMin) or more letters and digits")
        }
        return text
    }
}
