import Foundation

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
        guard let place = GivenPath.real(path) else { return nil }
        if [settings.socketPath, settings.radioResetSocket].contains(where: {
            GivenPath.isSame(place, $0)
        }) {
            return "\(path) is a socket of the gateway"
        }
        guard let state = GivenPath.real(settings.stateDirectory) else { return nil }
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
                && GivenPath.isSame(place, "\(state)/\(entry)")
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
}
