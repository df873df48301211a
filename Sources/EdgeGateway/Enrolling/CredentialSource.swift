import Foundation
import Uplink

/// Where `enroll` finds a link or a key when it is not typed.
enum CredentialSource {
    /// A link is a few hundred characters; more is not a link.
    private static let linkBytesMax = 4096
    /// The program that reads QR codes: `zbarimg` of Debian's zbar-tools.
    private static let reader = "zbarimg"

    private static func standardInput() throws -> String {
        // One byte more, so that the end of a longer text is not taken for the end of a link.
        let data = try FileHandle.standardInput.read(upToCount: linkBytesMax + 1) ?? Data()
        return trimmed(data)
    }

    /// Text that a person types and nobody sees, or that standard input has.
    static func typed(_ question: String) async throws -> String {
        guard isatty(STDIN_FILENO) == 1 else { return try standardInput() }
        return try await Terminal.ask(question, isHidden: true)
    }

    /// An invitation link, likewise.
    static func typedLink() async throws -> String {
        try await typed("The link (it is not shown): ")
    }

    /// - Throws: ``CommandFailure`` with advice.
    static func text(ofFile path: String, bytesMax: Int) throws -> String {
        try TextFile.read(path, bytesMax: bytesMax)
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// - Throws: ``CommandFailure`` with advice.
    static func practitionerKey(inFile path: String) throws -> PractitionerKeyFile {
        let text = try text(ofFile: path, bytesMax: PractitionerKeyFile.lengthMax)
        let mode = try? FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
        if let mode = mode as? Int, mode & 0o077 != 0 {
            Terminal.complain("note: others can read \(path); chmod 600 it, or delete it now")
        }
        do {
            return try PractitionerKeyFile(text)
        } catch {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "read \(path): \(error)\n  "
                    + "the file is the exchange's answer when the key was made (JSON), lines "
                    + "such as\n  exchange=https://exchange.example and key=…, or the key alone")
        }
    }

    /// The invitation in a picture of a QR code.
    ///
    /// - Throws: ``CommandFailure`` with advice.
    static func link(inPicture path: String) throws -> String {
        var isDirectory: ObjCBool = false
        guard FileManager.default.isReadableFile(atPath: path),
            FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory),
            !isDirectory.boolValue
        else {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "read \(path): \(GivenPath.whyUnreadable(path))")
        }
        guard let program = program(reader) else {
            throw CommandFailure(
                exitCode: .notWell,
                message: "reading pictures needs \(reader)\n  apt-get install zbar-tools, or read "
                    + "the code with a phone and give the link: edge-gateway enroll -")
        }
        let lines = try run(program, ["--quiet", "--raw", URL(filePath: path).path])
            .split(whereSeparator: \.isNewline).map(String.init)
        let links = lines.filter { (try? InvitationLink($0)) != nil }
        guard Set(links).count < 2 else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message:
                    "read \(path): there are several invitations in it; cut the picture to one "
                    + "QR code")
        }
        guard let link = links.first else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: lines.isEmpty
                    ? "read \(path): no QR code was found in it; take a sharper picture"
                    : "read \(path): its QR code holds no invitation link")
        }
        return link
    }

    private static func run(_ program: String, _ words: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = words
        process.standardInput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        do {
            try process.run()
        } catch {
            throw CommandFailure(exitCode: .notWell, message: "\(program) cannot be run")
        }
        let data = try output.fileHandleForReading.read(upToCount: linkBytesMax) ?? Data()
        process.waitUntilExit()
        return trimmed(data)
    }

    private static func program(_ name: String) -> String? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            .map { "\($0)/\(name)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    private static func trimmed(_ data: Data) -> String {
        String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
