import Foundation
import Glibc
import Logging
import Synchronization
import Uplink

/// The relay's table on the disk, read again when it changes.
actor RelayTableFile {
    private let path: String
    private var table = RelayTable()
    /// Of the file that ``table`` is from.
    private var stamp: Stamp?
    /// The last line of the log about a file that could not be read.
    private var complaint: String?
    private var looked: ContinuousClock.Instant?

    /// A person who has changed it does not wait longer.
    private static let lookPause = Duration.seconds(1)
    private static let bytesMax = 64 << 20
    private static let advice = "a line has a gateway and a patient: docs/operate/relay.md"

    /// The facts that tell one state of the file from another.
    private struct Stamp: Equatable {
        var changed: Date?
        var size, number: Int?
    }

    init(_ path: String) { self.path = path }

    /// The mistakes in the file, a line each.
    func faults() -> [String] {
        let text: String
        do { text = try Self.text(path) } catch {
            return [(error as? CommandFailure)?.message ?? "\(error)"]
        }
        var mistakes = FileMistakes(path: path)
        for fault in RelayTable.read(text).faults {
            mistakes.add(line: fault.line, fault.message, Self.advice)
        }
        return mistakes.messages
    }

    /// The table as it is now; as it was, if what is there now is no table.
    func current(_ logger: Logger, at instant: ContinuousClock.Instant = .now) -> RelayTable {
        if let looked, instant - looked < Self.lookPause { return table }
        looked = instant
        let now = Self.stamp(path)
        guard now != stamp || now == nil else { return table }
        do {
            table = try Self.table(try Self.text(path), path)
            (stamp, complaint) = (now, nil)
            logger.notice("patients", metadata: ["pairs": "\(table.count)"])
        } catch {
            // Tried again: a file's owner and mode may change without a trace in its stamp.
            let message = (error as? CommandFailure)?.message ?? "\(error)"
            if message != complaint { logger.error("\(message)") }
            complaint = message
        }
        return table
    }

    private static func stamp(_ path: String) -> Stamp? {
        // A link does not change with what it leads to.
        guard let real = GivenPath.real(path),
            let attributes = try? FileManager.default.attributesOfItem(atPath: real)
        else { return nil }
        return Stamp(
            changed: attributes[.modificationDate] as? Date, size: attributes[.size] as? Int,
            number: attributes[.systemFileNumber] as? Int)
    }

    private static func table(_ text: String, _ path: String) throws -> RelayTable {
        do {
            return try RelayTable(text)
        } catch {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "\(path) \(error)\n  \(advice)")
        }
    }

    private static func text(_ path: String) throws -> String {
        guard !GivenPath.isOccupied(path), let handle = FileHandle(forReadingAtPath: path),
            let data = try? handle.read(upToCount: bytesMax + 1) ?? Data(), data.count <= bytesMax,
            let text = String(data: data, encoding: .utf8)
        else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message:
                    "read \(path): it is not there, no text, no regular file, or this user may not read it\n"
                    + "  edge-gateway relay allow GATEWAY PATIENT makes it")
        }
        return text
    }

    /// Adds a line, or takes it out; the others stay as they are, with their comments. Processes that do so at
    /// once do it one after another. What is changed is the table that a link leads to.
    ///
    /// - Parameter patience: how long another process may keep the table for itself.
    /// - Throws: ``CommandFailure``
    static func change(
        _ given: String, _ gateway: String, _ patient: String, isAllowed: Bool,
        patience: Duration = RelayTableLock.patience
    ) async throws {
        guard RelayTable.isGateway(gateway), PatientAccess.isExchangeID(patient) else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "a gateway has letters, digits, - and _; a patient the exchange's "
                    + "number, such as 40001")
        }
        let path = GivenPath.real(given) ?? given
        try OutputFile.checkReplaceable(path)
        let lock = try await RelayTableLock(of: path, patience: patience)
        defer { withExtendedLifetime(lock) {} }
        OutputFile.removeParts(of: path)
        guard GivenPath.names(path) < 2 else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "\(path) has another name (a hard link), under which the old table would "
                    + "stay\n  remove that name, or make it a symbolic link")
        }
        let before = access(path, F_OK) == 0 ? try text(path) : "# gateway  patient\n"
        guard try table(before, path).allows(gateway, patient) != isAllowed else {
            return Terminal.print(
                "nothing was changed: \(gateway) "
                    + (isAllowed ? "may write for this patient already" : "has no such line"))
        }
        var lines = RelayTable.lines(of: before)
        if lines.last == "" { lines.removeLast() }
        if isAllowed {
            lines.append("\(gateway)  \(patient)")
        } else {
            lines.removeAll { RelayTable.words(of: $0) == [gateway, patient] }
        }
        let file = try OutputFile(path, replaces: true)
        try file.write(Array((lines.joined(separator: "\n") + "\n").utf8))
        // The relay's user must go on reading what it could read.
        try file.keepOwnerAndMode()
        try file.finish()
        Terminal.print(
            "\(gateway) may \(isAllowed ? "now" : "no longer") write for this patient; relays read it within a second"
        )
    }
}
