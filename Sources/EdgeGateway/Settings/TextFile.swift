import Foundation

/// The text of a file that a person named.
enum TextFile {
    /// - Parameter bytesMax: a larger file is some other one.
    /// - Throws: ``CommandFailure`` that names the file and says why it cannot be had.
    static func read(_ path: String, bytesMax: Int) throws(CommandFailure) -> String {
        let data: Data
        do {
            // An empty file has nothing to read, which is no error.
            let file = try FileHandle(forReadingFrom: URL(filePath: path))
            data = try file.read(upToCount: bytesMax + 1) ?? Data()
        } catch {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "read \(path): \(GivenPath.whyUnreadable(path))")
        }
        guard data.count <= bytesMax, let text = String(data: data, encoding: .utf8) else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "read \(path): it is no text, or larger than \(bytesMax >> 10) KiB")
        }
        return text
    }
}
