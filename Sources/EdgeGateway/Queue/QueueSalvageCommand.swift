import ArgumentParser
import Basics
import Foundation
import OfflineQueue

/// `queue salvage`
struct SalvageFileReport: Codable, Equatable {
    var file: String
    var samples: Int
    /// Left out because their row fails its checksum.
    var damaged: Int
    /// Left out because their strap and patient are unknown.
    var orphaned: Int
    /// Left out because they are of another store, whose file was written over this one's.
    var ofAnotherStore: Int
    /// The store's own books have them, and they were not found.
    var missing: Int
    /// Whether the disk let every part of the files be read.
    var readable: Bool

    /// What was left out of the file, in words; nil if nothing was.
    var complaint: String? {
        let parts = [
            (damaged, "damaged"), (orphaned, "without a known strap and patient"),
            (ofAnotherStore, "of another store"), (missing, "not found"),
        ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        let samples = parts.isEmpty ? nil : "samples left out: " + parts.joined(separator: ", ")
        let disk = readable ? nil : "the disk does not let all of the files be read"
        let both = [samples, disk].compactMap(\.self)
        return both.isEmpty ? nil : both.joined(separator: "; ")
    }
}

struct QueueSalvageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "salvage", abstract: "Reads a broken store, and writes its samples to a file.",
        discussion: """
            The gateway does this by itself with a store that breaks. The command does it on any \
            machine, with copies of the file, of its write-ahead log (-wal) and index (-shm), and of \
            queue.sqlite.registry-0 and -1 in the same directory, which name the patients. Keep the \
            names of the files. The command changes none of them. `queue import` reads the file that \
            it writes. If it leaves samples out, it writes all others and exits with 1.

            Example:
              edge-gateway queue salvage queue.sqlite.broken-20261201T000000Z saved.ndjson
            """)

    @Argument(help: "The broken store.", completion: .file())
    var store: String
    @Argument(help: "The file to write; an existing one is not overwritten.", completion: .file())
    var file: String
    @Flag(help: "Include delivered, dropped and dead samples.")
    var all = false
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        guard access(store, R_OK) == 0 else {
            let isForbidden = errno == EACCES
            throw CommandFailure(
                exitCode: isForbidden ? .notPermitted : .wrongUsage,
                message: "read \(store): \(GivenPath.whyUnreadable(store))"
                    + (isForbidden ? "\n  use sudo" : ""))
        }
        guard !GivenPath.isOccupied(store) else {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "\(store) is no file; name the broken store's file")
        }
        try GatewayFiles(settings: daemon.settings()).check(file)
        let output = try OutputFile(file)
        let summary = try StoreAccess.read(store) {
            try SampleQueue.salvage(path: store, selection: all ? .everything : .unsent) {
                try output.write($0)
            }
        }
        let unread = summary.unread
        guard summary.samples + unread.damaged + unread.orphaned > 0 || isStore else {
            throw CommandFailure(
                exitCode: .notWell,
                message: "\(store) is no store: it does not begin as one, and has no sample")
        }
        try output.finish()
        let report = SalvageFileReport(
            file: file, samples: summary.samples, damaged: unread.damaged,
            orphaned: unread.orphaned, ofAnotherStore: unread.strangers, missing: unread.missing,
            readable: unread.isReadable)
        try daemon.show(report, "\(report.samples.counted("sample is", "samples are")) in \(file)")
        guard let complaint = report.complaint else { return }
        Terminal.complain(complaint)
        throw ExitCode(CommandExit.notWell.rawValue)
    }

    /// Whether the file begins as SQLite's do; a broken one may not.
    private var isStore: Bool {
        let start = try? FileHandle(forReadingFrom: URL(filePath: store)).read(upToCount: 16)
        return start == Data("SQLite format 3\0".utf8)
    }
}
