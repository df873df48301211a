import Foundation
import Glibc
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

    /// The link was replaced, and what it led to stayed as it was.
    @Test func theFileThatALinkLeadsToIsReplaced() throws {
        defer { for file in [path, path + "-target"] { unlink(file) } }
        try FileManager.default.createSymbolicLink(
            atPath: path, withDestinationPath: path + "-target")
        for text in ["first", "second"] {
            try write(text, replaces: true)
            #expect(try String(contentsOfFile: path + "-target", encoding: .utf8) == text)
            #expect(try files().count == 2)
        }
        #expect(
            try FileManager.default.destinationOfSymbolicLink(atPath: path) == path + "-target")
    }

    /// A device node, a fifo or a socket was replaced as if it were a file.
    @Test func onlyARegularFileIsReplaced() throws {
        defer { for file in [path, path + "-link", path + "-loop"] { unlink(file) } }
        try #require(mkfifo(path, 0o600) == 0)
        try FileManager.default.createSymbolicLink(
            atPath: path + "-link", withDestinationPath: path)
        try FileManager.default.createSymbolicLink(
            atPath: path + "-loop", withDestinationPath: path + "-loop")
        let before = try files().sorted()
        for place in [path, path + "-link", path + "-loop"] {
            let failure = #expect(throws: CommandFailure.self) {
                _ = try OutputFile(place, replaces: true)
            }
            #expect(failure?.exitCode == .wrongUsage)
        }
        #expect(try files().sorted() == before)
        #expect(GivenPath.isOccupied(path), "it is the fifo")
    }

    /// A file called "-" was written where others write to a pipe.
    @Test(arguments: ["", "-"])
    func noNameIsWrongUsage(path: String) {
        let failure = #expect(throws: CommandFailure.self) { _ = try OutputFile(path) }
        #expect(failure?.exitCode == .wrongUsage)
    }
}
