import ArgumentParser
import GATTHeartRate

struct DecodeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "decode", abstract: "Decodes heart-rate frames (0x2A37) without a daemon.",
        discussion: """
            Give - to read frames from standard input, one a line. Exits with 1 if a frame is \
            not valid.

            Example: edge-gateway decode 165a3403 --json
            """)

    @Argument(help: "Frames as hexadecimal digits, or - for standard input.")
    var frames: [String]
    @Option(help: "What to do with disputed frames: strict, clinical or lenient.")
    var policy: PolicyName = .clinical
    @Flag(help: "Print one JSON object per frame.")
    var json = false

    enum PolicyName: String, ExpressibleByArgument, CaseIterable {
        case strict, clinical, lenient

        var policy: DecodePolicy {
            switch self {
            case .strict: .strict
            case .clinical: .clinical
            case .lenient: .lenient
            }
        }
    }

    func run() throws {
        var allValid = true
        for frame in frames {
            if frame == "-" {
                while let line = readLine() {
                    allValid = try show(line) && allValid
                }
            } else {
                allValid = try show(frame) && allValid
            }
        }
        if !allValid { throw ExitCode(CommandExit.notWell.rawValue) }
    }

    private func show(_ text: String) throws -> Bool {
        guard let frame = DecodeReport.octets(hexadecimal: text),
            frame.count <= Self.frameBytesMax
        else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "`\(Printable.line(String(text.prefix(40))))` is not a frame: give "
                    + "two hexadecimal digits for each byte (08, not 8), at most "
                    + "\(Self.frameBytesMax) bytes")
        }
        let report = DecodeReport(frame: frame, policy: policy.policy)
        Terminal.print(json ? report.json : report.text)
        return report.isValid
    }

    /// The longest value an attribute can have (Core Specification, Vol 3, Part F, §3.2.9).
    private static let frameBytesMax = 512
}
