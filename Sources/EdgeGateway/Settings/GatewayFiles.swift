import Foundation
import Glibc

/// Which files are the gateway's own: nothing that a command writes may take their place or be mixed into
/// them, and the gateway deletes some of them.
struct GatewayFiles {
    let settings: Settings

    /// The one kind of file that others may put into the state directory: with the packaged unit the daemon
    /// may write nowhere else.
    private static let guestExtension = "ndjson"
    private static let ownGuest = "import.ndjson"

    /// Why nothing may be written to `path`; nil if it may. Symbolic links are followed, and a second name of
    /// a file is that file.
    func refusal(of path: String) -> String? {
        guard let place = Self.resolved(path) else { return nil }
        if [settings.socketPath, settings.radioResetSocket].contains(where: {
            Self.isSame(place, $0)
        }) {
            return "\(path) is a socket of the gateway"
        }
        guard let state = Self.resolved(settings.stateDirectory) else { return nil }
        let directory = URL(filePath: place).deletingLastPathComponent().path
        let name = URL(filePath: place).lastPathComponent
        let isGuest =
            URL(filePath: place).pathExtension == Self.guestExtension && name != Self.ownGuest
        if place == state || (directory == state && !isGuest) {
            return "the state directory holds the gateway's own files"
        }
        let own = (try? FileManager.default.contentsOfDirectory(atPath: state)) ?? []
        let isSecondName = own.contains { entry in
            URL(filePath: entry).pathExtension != Self.guestExtension
                && Self.isSame(place, "\(state)/\(entry)")
        }
        return isSecondName ? "\(path) is a file of the gateway" : nil
    }

    /// For commands.
    ///
    /// - Throws: ``CommandFailure`` for a file that may not be written.
    func check(_ path: String) throws {
        guard let refusal = refusal(of: path) else { return }
        throw CommandFailure(
            exitCode: .wrongUsage, message: "\(refusal)\n  choose another directory")
    }

    /// The most links that lead from one to the next: as many as the kernel follows.
    private static let linksMax = 40

    /// The path without symbolic links; of a file that is not there, where it would be made.
    private static func resolved(_ path: String, links: Int = 0) -> String? {
        if let there = real(path) { return there }
        let url = URL(filePath: path).standardizedFileURL
        guard let directory = real(url.deletingLastPathComponent().path), links < linksMax else {
            return nil
        }
        if let target = try? FileManager.default.destinationOfSymbolicLink(atPath: url.path) {
            return resolved(
                target.hasPrefix("/") ? target : "\(directory)/\(target)", links: links + 1)
        }
        return "\(directory)/\(url.lastPathComponent)"
    }

    private static func real(_ path: String) -> String? {
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    private static func isSame(_ one: String, _ other: String) -> Bool {
        guard let identity = identity(one) else { return false }
        return identity == Self.identity(other)
    }

    /// Device and inode.
    private static func identity(_ path: String) -> [Int]? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        guard let device = attributes?[.systemNumber] as? NSNumber,
            let number = attributes?[.systemFileNumber] as? NSNumber
        else { return nil }
        return [device.intValue, number.intValue]
    }
}
