import Foundation

/// The real `edge-gateway` binary against a testbed: one state directory, one control socket, and
/// the daemon and commands that use them.
public actor GatewayProcess {
    /// Why the gateway is not there.
    public struct Fault: Error, CustomStringConvertible {
        /// One line with what to do.
        public let description: String

        public init(description: String) { self.description = description }
    }

    /// Where the gateway keeps its store, tokens, socket and log.
    public nonisolated let directory: URL
    /// The daemon's standard error, of all its starts.
    public nonisolated var logFile: URL { directory.appending(path: "daemon.log") }

    /// The program.
    public nonisolated let binary: URL
    /// The environment of its commands.
    public nonisolated let environment: [String: String]
    private nonisolated let daemonVariables: [String: String]
    private var daemon: ChildProcess?

    /// How long a daemon may take to open its control socket and to end, in seconds; a loaded machine
    /// with a debug build needs a few.
    private static let startSecondsMax = 120.0
    private static let endSecondsMax = 60.0
    /// How often a daemon that does not answer at its socket yet is asked by a command.
    private static let commandPause = Duration.seconds(1)

    /// - Parameters:
    ///   - binary: the `edge-gateway` to run; nil for the one beside this program.
    ///   - busAddress: the bus that is its system bus; nil for the machine's own.
    ///   - settings: more `EDGE_GATEWAY_…` variables.
    ///   - daemonVariables: environment of the daemon alone, not of the commands.
    public init(
        binary: URL? = nil, busAddress: String?, settings: [String: String] = [:],
        daemonVariables: [String: String] = [:]
    ) throws {
        self.daemonVariables = daemonVariables
        self.binary = binary ?? Self.program("edge-gateway")
        guard FileManager.default.isExecutableFile(atPath: self.binary.path) else {
            throw Fault(description: "no \(self.binary.path): swift build --product edge-gateway")
        }
        directory = FileManager.default.temporaryDirectory
            .appending(path: "gateway-\(UInt32.random(in: 0 ... .max))")
        let state = directory.appending(path: "state")
        try FileManager.default.createDirectory(
            at: state, withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        let configuration = directory.appending(path: "config.yaml")
        try "clock:\n  trust: always\n".write(to: configuration, atomically: true, encoding: .utf8)
        var environment = ProcessInfo.processInfo.environment.filter {
            !$0.key.hasPrefix("EDGE_GATEWAY_") && $0.key != "NOTIFY_SOCKET"
        }
        if let busAddress { environment["DBUS_SYSTEM_BUS_ADDRESS"] = busAddress }
        // Tests read the tokens, and sealing starts two processes a time.
        environment["EDGE_GATEWAY_UPLINK_SEAL_TOKENS"] = "never"
        environment["EDGE_GATEWAY_CONFIG"] = configuration.path
        environment["EDGE_GATEWAY_STATE"] = state.path
        environment["EDGE_GATEWAY_SOCKET"] = directory.appending(path: "control.sock").path
        self.environment = environment.merging(settings) { $1 }
    }

    /// A program that was built beside this one.
    public static func program(_ name: String) -> URL {
        URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: name)
    }

    /// Whether the daemon's process lives.
    public var isRunning: Bool { daemon?.isRunning ?? false }

    /// The daemon's process, while it lives.
    public var processID: pid_t? { isRunning ? daemon?.pid : nil }

    /// Whether the daemon died of SIGKILL by itself, at the step that `EDGE_GATEWAY_KILL_AT` names.
    public var diedAtStep: Bool { daemon?.status == 128 + SIGKILL }

    /// Starts the daemon and waits until its control socket answers.
    ///
    /// - Parameter variables: more of the daemon's environment, for this start.
    /// - Throws: ``Fault`` with the end of its log when it leaves or stays silent.
    public func start(with variables: [String: String] = [:]) async throws {
        let process = try await ChildProcess.launch(
            binary.path, ["run"],
            environment: environment.merging(daemonVariables) { $1 }.merging(variables) { $1 },
            log: logFile.path)
        daemon = process
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(Self.startSecondsMax)
        var nextCommand = clock.now + Self.commandPause
        while clock.now < deadline, process.isRunning {
            if try await !answer().isEmpty { return }
            // One in a container has its socket there.
            if clock.now >= nextCommand {
                // 1 means that it answers and is not well yet: no sensors, for instance.
                if try await command(["status", "--json"]).status <= 1 { return }
                nextCommand = clock.now + Self.commandPause
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Fault(description: "the daemon does not answer; its log ends:\n\(logTail())")
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// - Returns: the exit code and how long it took.
    @discardableResult
    public func stop() async -> (status: Int32, took: Duration) {
        guard let daemon else { return (0, .zero) }
        let clock = ContinuousClock()
        let began = clock.now
        daemon.signal(SIGTERM)
        let status = await daemon.wait()
        self.daemon = nil
        return (status, clock.now - began)
    }

    /// Kills the daemon as a power cut would: no flush, no farewell.
    public func kill() async {
        await daemon?.stop()
        daemon = nil
    }

    /// Sends SIGTERM, without waiting for the end.
    public func beginStop() { daemon?.signal(SIGTERM) }

    /// Runs `edge-gateway WORDS…` to its end.
    public nonisolated func command(
        _ words: [String], input: String = ""
    ) async throws -> Command.Outcome {
        try await Command.run(
            binary.path, words, environment: environment, directory: directory.path, input: input)
    }

    /// The same for one that must succeed.
    ///
    /// - Returns: what it printed.
    /// - Throws: ``Fault`` with what it complained of, unless it leaves with 0.
    @discardableResult
    package nonisolated func succeed(
        _ words: [String], input: String = ""
    ) async throws -> String {
        let outcome = try await command(words, input: input)
        guard outcome.status == 0 else {
            throw Fault(
                description: "\(words[0]) left with \(outcome.status): \(outcome.complaint)")
        }
        return outcome.output
    }

    /// Runs `body`, removes the gateway and then does what `end` says, however `body` ended.
    ///
    /// - Throws: ``Fault`` with what `body` threw and the last lines of the log.
    package nonisolated func removed<Result>(
        after body: () async throws -> Result, then end: () async -> Void
    ) async throws -> Result {
        do {
            let result = try await body()
            await remove()
            await end()
            return result
        } catch {
            let log = logTail(lines: 10)
            await remove()
            await end()
            throw Fault(description: "\(error)\n\(log)")
        }
    }

    /// Stops the daemon, by force if it does not end in a minute, and removes everything it wrote.
    ///
    /// - Returns: whether it ended by itself.
    @discardableResult
    public func remove() async -> Bool {
        daemon?.signal(SIGTERM)
        let deadline = ContinuousClock.now + .seconds(Self.endSecondsMax)
        while isRunning, ContinuousClock.now < deadline {
            try? await Task.sleep(for: .milliseconds(10))
        }
        let ended = !isRunning
        await kill()
        try? FileManager.default.removeItem(at: directory)
        return ended
    }

    /// The last lines of the daemon's log.
    public nonisolated func logTail(lines: Int = 30) -> String {
        let text = (try? String(contentsOf: logFile, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(lines).joined(separator: "\n")
    }
}
