import ArgumentParser
import Glibc

struct SetupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "setup",
        abstract: "Leads from a new gateway to the first delivered heartbeat, step by step.",
        discussion: """
            Says what `doctor` finds, takes the invitation, lists the straps in range, pairs one, and waits \
            until its first heartbeat has been delivered. Leave it at any time with q or Ctrl-C: the next \
            time it goes on where the gateway stands. It needs a terminal.

            Example: edge-gateway setup
            """)

    /// The same by single commands.
    static let commands = """
        sudo edge-gateway doctor
          edge-gateway enroll - < link.txt
          edge-gateway scan
          edge-gateway pair STRAP --name NAME
          edge-gateway queue drain --for 2m
          edge-gateway status
        """

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        guard !daemon.json, isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1 else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "setup asks a person, at a terminal; without one give these commands:\n  "
                    + Self.commands)
        }
        try await Setup(daemon: daemon, client: try daemon.client()).run()
    }
}
