import ArgumentParser
import Basics
import Foundation
import Uplink

/// The command line: `edge-gateway COMMAND`.
@main
struct EdgeGatewayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edge-gateway",
        abstract: "Records BLE heart-rate straps and delivers them to JupyterHealth Exchange.",
        discussion: """
            The daemon (`run`) owns the radio and the store; the other commands talk to it over \
            its control socket.

            First steps, with the daemon running:
              edge-gateway setup

            Or one by one:
              edge-gateway enroll LINK
              edge-gateway scan
              edge-gateway pair STRAP
              edge-gateway status

            Exit codes: 0 well, 1 not well or failed, 2 wrong usage, 3 no daemon answers, 4 this user \
            may not.
            """,
        version: GatewayVersion.text,
        subcommands: [
            RunCommand.self, SetupCommand.self, ScanCommand.self, PairCommand.self,
            ForgetCommand.self,
            StrapsCommand.self, EnrollCommand.self, EnrollmentsCommand.self, ConfirmCommand.self,
            DestinationCommand.self, EraseCommand.self,
            AlertCommand.self, StatusCommand.self, GapsCommand.self, HistoryCommand.self,
            QueueCommand.self,
            WatchCommand.self, ShareCommand.self, FleetCommand.self, RelayCommand.self,
            DoctorCommand.self,
            BugreportCommand.self,
            DecodeCommand.self, ConfigCommand.self,
        ])

    static func main() async {
        Heap.keepSmall()
        // Before a thread opens a file.
        StandardStream.reserveDescriptors()
        // A reader that went away (`edge-gateway straps | head -1`) is no fault of ours.
        signal(SIGPIPE, SIG_IGN)
        OwnThread.limitStacks()
        await runCommand()
    }

    private static func runCommand() async {
        do {
            var command = try await asyncParseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            leave(CommandExit.well.rawValue)
        } catch let failure as CommandFailure {
            Terminal.complain(failure.message)
            leave(failure.exitCode.rawValue)
        } catch is Left {
            Terminal.complain("nothing was done")
            leave(CommandExit.notWell.rawValue)
        } catch {
            leave(for: error)
        }
    }

    /// Help and version leave with 0; every misuse leaves with 2.
    private static func leave(for error: any Error) -> Never {
        let code = exitCode(for: error)
        let prefix = "Error: "
        var text = fullMessage(for: error)
        if text.hasPrefix(prefix) { text.removeFirst(prefix.count) }
        // Of a command that does not exist, the parser gives the help of the one before it.
        if code.isSuccess || code == .validationFailure,
            let slip = Mistyping.find(in: Array(CommandLine.arguments.dropFirst()))
        {
            Terminal.complain(slip.message)
            leave(CommandExit.wrongUsage.rawValue)
        }
        if code.isSuccess {
            Terminal.print(text)
            leave(CommandExit.well.rawValue)
        }
        if !text.isEmpty {
            let isBareStrap =
                text.contains("Unexpected argument") && text.contains("[--strap <strap>]")
            Terminal.complain(text + (isBareStrap ? "\n  A strap is named by --strap." : ""))
        }
        leave(code == .validationFailure ? CommandExit.wrongUsage.rawValue : code.rawValue)
    }

    /// Ends the process without the libraries' exit handlers: OpenSSL's frees what a thread of
    /// libcurl may just be giving back, and the process would end in SIGABRT.
    private static func leave(_ code: Int32) -> Never {
        fflush(nil)
        guard let failure = StandardStream.outputFailure, failure != EPIPE else { _exit(code) }
        Terminal.complain(
            "the output is incomplete: \(String(cString: strerror(failure)))")
        _exit(code == CommandExit.well.rawValue ? CommandExit.notWell.rawValue : code)
    }
}

enum GatewayVersion {
    static let text = "0.1.0"
}

/// The documented exit codes.
enum CommandExit: Int32 {
    case well = 0
    case notWell = 1
    case wrongUsage = 2
    case daemonUnreachable = 3
    /// This user may not: use the daemon's socket, change things through it, or read the store or the settings.
    case notPermitted = 4
}

/// A command's end other than well: what to print on standard error and the exit code.
struct CommandFailure: Error {
    var exitCode: CommandExit
    var message: String

    /// Checks what a person gave, and throws what is wrong with it as the command's failure.
    static func ofProblem<Value>(
        _ work: () throws(DestinationProblem) -> Value
    ) throws -> Value {
        do throws(DestinationProblem) {
            return try work()
        } catch {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "\(error.message)\n  \(error.advice)")
        }
    }
}
