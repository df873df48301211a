import Foundation

/// The adapters that the gateway has switched off to recover them, and not yet switched on again. They are kept
/// in a file, in case the gateway is killed meanwhile.
struct OwedAdapters: Sendable {
    private static let fileName = "adapters-off"
    /// A machine has a handful of adapters; a longer file is not ours.
    private static let bytesMax = 4_096

    private let path: String

    init(stateDirectory: String) { path = stateDirectory + "/" + Self.fileName }

    /// The adapters' addresses; empty without a file.
    func read() -> Set<String> {
        guard let data = FileManager.default.contents(atPath: path), data.count <= Self.bytesMax
        else { return [] }
        return Set(String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init))
    }

    /// Notes them. A failure costs no more than the memory of it.
    func write(_ addresses: Set<String>) {
        guard !addresses.isEmpty else {
            try? FileManager.default.removeItem(atPath: path)
            return
        }
        let text = addresses.sorted().joined(separator: "\n") + "\n"
        guard let file = try? OutputFile(path, replaces: true) else { return }
        try? file.write(Array(text.utf8))
        try? file.finish()
    }
}
