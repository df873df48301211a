import Foundation

/// The entries of systemd's journal.
enum Journal {
    /// The lines that `journalctl` prints for these arguments, without this machine's name, or why there are none.
    static func text(_ arguments: [String]) -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/journalctl")
        process.arguments = arguments + ["--no-pager", "--no-hostname"]
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return "journalctl cannot be run" }
        let data = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }
}
