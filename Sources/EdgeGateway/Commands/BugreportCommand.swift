import ArgumentParser
import Foundation
import Glibc

/// `bugreport --json`
struct BugreportReport: Codable, Equatable { var file: String }

struct BugreportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bugreport", abstract: "Writes down what a maintainer needs to find a fault.",
        discussion: """
            Versions, doctor's findings, state, gaps, settings and the daemon's log, in one text \
            file of mode 0600. Tokens, links, patients and full addresses are taken out; please \
            look through it all the same before you send it.

            Example: sudo edge-gateway bugreport --output report.txt
            """)

    /// The log's last lines: some days of a gateway that is well, some hours of one that is not.
    private static let logLines = 2_000

    @Option(
        help: "File to write (default: edge-gateway-bugreport-DATE.txt here).",
        completion: .file())
    var output: String?
    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let doctor = try await DoctorCommand.examine(daemon)
        let settings = try await daemon.settings()
        let client = try await daemon.client()
        let status: StatusReport? = try? await client.get("/v1/status")
        let gaps: GapsReport? = try? await client.get("/v1/gaps?days=7")
        var text = "edge-gateway \(GatewayVersion.text), \(Terminal.time(Date())) UTC\n"
        func add(_ title: String, _ body: String) { text += "\n== \(title)\n\(body)\n" }
        add("machine", Self.machine())
        add("doctor", DoctorCommand.text(doctor))
        add(
            "settings",
            settings.listing.map { "\($0.key.name): \($0.value)" }
                .joined(separator: "\n"))
        add("status", Self.json(status))
        add("gaps", Self.json(gaps))
        add("log", await Self.log())
        let redactor = Redactor(patients: status?.enrollments.compactMap(\.patient) ?? [])
        let path =
            output ?? "edge-gateway-bugreport-\(Terminal.time(Date()).prefix(10)).txt"
        try Self.write(redactor.redact(text), to: path)
        if daemon.json { return try Terminal.printJSON(BugreportReport(file: path)) }
        print("\(path) is written; please look through it before you send it")
    }

    private static func machine() -> String {
        let tree = SystemTree()
        let model = tree.text("/proc/device-tree/model")?.filter { $0 != "\0" }
        return [
            model ?? "no device tree", tree.text("/proc/version") ?? "",
            tree.text("/etc/debian_version").map { "Debian \($0)" } ?? "not Debian",
        ].joined(separator: "\n")
    }

    private static func json(_ report: (some Encodable)?) -> String {
        guard let report, let data = try? ReportCoding.encoder(pretty: true).encode(report) else {
            return "the daemon does not answer"
        }
        return String(decoding: data, as: UTF8.self)
    }

    private static func log() async -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/journalctl")
        process.arguments = [
            "-u", "edge-gateway", "-n", "\(logLines)", "--no-pager", "-o", "short-iso",
        ]
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return "there is no journal" }
        let data = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }

    /// Nobody else may read it, and a file that is there is not overwritten.
    private static func write(_ text: String, to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(
                exitCode: .notWell,
                message: "\(path) cannot be written: \(String(cString: strerror(errno)))\n"
                    + "  name another file with --output")
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try handle.write(contentsOf: Data(text.utf8))
    }
}
