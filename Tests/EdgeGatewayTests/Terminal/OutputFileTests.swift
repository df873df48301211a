import Foundation
import Testing

@testable import EdgeGateway

@Suite struct OutputFileTests {
    private let path = FileManager.default.temporaryDirectory
        .appending(path: "output-\(UInt32.random(in: 0 ... .max)).txt").path

    /// What lies in the directory under the file's name, whole or in part.
    private func files() throws -> [String] {
        let url = URL(filePath: path)
        return try FileManager.default
            .contentsOfDirectory(atPath: url.deletingLastPathComponent().path)
            .filter { $0.hasPrefix(url.lastPathComponent) }
    }

    private func write(_ text: String, replaces: Bool = false) throws {
        let file = try OutputFile(path, replaces: replaces)
        try file.write(Array(text.utf8))
        try file.finish()
    }

    @Test func aFileAppearsCompleteAndForItsOwnerOnly() throws {
        defer { try? FileManager.default.removeItem(atPath: path) }
        try write("all of it")
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "all of it")
        let mode =
            try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(try files().count == 1)
    }

    /// `doctor --report` looked only before its checks, which take a while.
    @Test func aFileThatAppearsWhileTheReportIsMadeIsNotReplaced() throws {
        defer { try? FileManager.default.removeItem(atPath: path) }
        do {
            let file = try OutputFile(path)
            try file.write(Array("report".utf8))
            try "somebody's".write(toFile: path, atomically: false, encoding: .utf8)
            let failure = #expect(throws: CommandFailure.self) { try file.finish() }
            #expect(failure?.exitCode == .wrongUsage)
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "somebody's")
        #expect(try files().count == 1, "the part is removed")
    }

    @Test func anExistingFileIsReplacedOnlyOnRequest() throws {
        defer { try? FileManager.default.removeItem(atPath: path) }
        try write("first")
        #expect(throws: CommandFailure.self) { try write("second") }
        try write("third", replaces: true)
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "third")
    }
}
