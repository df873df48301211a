import Basics
import Foundation
import Glibc
import OfflineQueue

/// `GET /v1/queue/import`
struct ImportProgressReport: Codable, Equatable {
    /// `idle`, `receiving`, `checking` or `storing`.
    var state: String
    /// Bytes of the file that are here.
    var bytes: Int64
    /// Samples checked or gone through so far.
    var samples: Int
    /// Of so many; left out until it is known.
    var of: Int?
}

/// Where a file to import is put together, part by part: beside the store, readable by no other user, and
/// only as long as it is needed. One at a time; a new one takes the place of one that was left lying.
actor ImportSession {
    /// The largest part of a file, bytes.
    static let partBytesMax = 1 << 20
    /// The largest file, bytes: 12 million samples, more than a store of the usual size has.
    private static let fileBytesMax: Int64 = 4 << 30
    /// Bytes of the disk that stay free: recording goes on meanwhile, and at a commit of 2 MiB an hour
    /// this is enough to clean up in peace.
    private static let freeBytesMin: Int64 = 32 << 20

    private let directory: String
    private var path: String { directory + "/import.ndjson" }
    private var upload: String?
    private var bytes: Int64 = 0
    private var isImporting = false
    private var told: ImportProgress?
    /// Minutes since the last part.
    private var quietMinutes = 0
    /// A sender that was interrupted does not come back. Its file would keep the disk full, and names patients.
    private static let quietMinutesMax = 10

    init(directory: String) { self.directory = directory }

    /// Removes what an earlier daemon left behind.
    func discard() {
        unlink(path)
        upload = nil
        bytes = 0
        told = nil
    }

    /// A minute has passed.
    func minutePassed() {
        guard upload != nil, !isImporting else { return }
        quietMinutes += 1
        if quietMinutes >= Self.quietMinutesMax { discard() }
    }

    /// Takes the next part of a file.
    ///
    /// - Parameter upload: as the answer to the first part names it; nil for a first part.
    func add(_ part: [UInt8], at offset: Int64, upload name: String?) throws -> ImportPartReport {
        guard !isImporting else { throw ProblemReport.importing }
        if name == nil { discard() }
        guard name == upload, offset == bytes else {
            throw ProblemReport(
                code: .unknownUpload, message: "this part does not follow the one before",
                advice:
                    "another import took its place, or no part came for ten minutes: begin again")
        }
        guard bytes + Int64(part.count) <= Self.fileBytesMax else {
            discard()
            throw ProblemReport(
                code: .tooLarge,
                message: "the file is larger than \(Self.fileBytesMax >> 30) GiB",
                advice: "export it in parts: --since and --until")
        }
        let room = DiskRoom(at: directory)?.freeBytes ?? 0
        guard room - Int64(part.count) >= Self.freeBytesMin else {
            discard()
            throw ProblemReport(
                code: .diskFull,
                message: "the disk of the state directory has no room for the file; "
                    + "nothing was imported",
                advice: "free some, or export in parts: --since and --until")
        }
        try write(part)
        bytes += Int64(part.count)
        quietMinutes = 0
        let name = upload ?? String(UInt64.random(in: 0 ... .max), radix: 16)
        upload = name
        return ImportPartReport(upload: name, bytes: bytes)
    }

    /// The file is whole, and is imported from now on; gives its path.
    func begin(_ name: String) throws -> String {
        guard !isImporting else { throw ProblemReport.importing }
        guard name == upload else {
            throw ProblemReport(
                code: .unknownUpload, message: "there is no such upload",
                advice:
                    "another import took its place, or no part came for ten minutes: begin again")
        }
        isImporting = true
        told = nil
        return path
    }

    func note(_ progress: ImportProgress) { told = progress }

    /// The import is over; gives how many samples it added, as far as was told.
    func end() -> Int {
        let added = told?.summary.added ?? 0
        isImporting = false
        discard()
        return added
    }

    /// How far it is.
    var progress: ImportProgressReport {
        guard isImporting else {
            return ImportProgressReport(
                state: upload == nil ? "idle" : "receiving", bytes: bytes, samples: 0)
        }
        return ImportProgressReport(
            state: told?.total == nil ? "checking" : "storing", bytes: bytes,
            samples: (told?.total == nil ? told?.checked : told?.done) ?? 0, of: told?.total)
    }

    /// Writes a part behind the others; nothing half-written stays.
    private func write(_ part: [UInt8]) throws {
        let flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW
        let descriptor = open(path, flags | (bytes == 0 ? O_TRUNC : 0), 0o600)
        let isWritten = descriptor >= 0 && part.withUnsafeBytes { writeAll($0, to: descriptor) }
        let cause = String(cString: strerror(errno))
        if descriptor >= 0 { close(descriptor) }
        guard isWritten else {
            discard()
            throw ProblemReport(
                code: .notStored, message: "the file cannot be written beside the store: \(cause)",
                advice: "nothing was imported; check the disk of the state directory")
        }
    }
}

extension ProblemReport {
    fileprivate static let importing = ProblemReport(
        code: .importing, message: "another import is under way",
        advice: "wait until it ends: edge-gateway queue status")
}
