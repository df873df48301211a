import Foundation

/// PostgreSQL 15 from Debian with deploy/supabase.sql, behind what PostgREST and GoTrue do.
public struct PostgRESTSystem: DestinationSystem {
    public let kind = "postgrest"
    public let title = "PostgreSQL"
    public let settings: [String: String]
    public let secretFiles: [String: String]
    private let host: SystemHost

    private static let programs = "/usr/lib/postgresql/15/bin/"
    /// PostgreSQL may take so long to start, in tenths of a second; a loaded machine needs a few seconds.
    private static let startTenthsMax = 300
    /// psql leaves with it when it cannot connect.
    private static let noConnection: Int32 = 2

    /// Starts a server that can be reached through a Unix socket alone, and the front.
    ///
    /// - Parameter python: one that has psycopg 3.
    public static func start(python: String) async throws -> PostgRESTSystem {
        let needs = [
            programs + "initdb", programs + "postgres", "/usr/bin/psql", "/usr/bin/setpriv", python,
        ]
        return try await SystemHost.start("postgrest", needs: needs) { host in
            let data = host.path("data")
            // PostgreSQL does not run as root.
            let isRoot = getuid() == 0
            let asItself =
                isRoot
                ? ["--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"] : ["--"]
            if isRoot { try await host.run("/usr/bin/chown", ["postgres", host.directory]) }
            try await host.run(
                "/usr/bin/setpriv",
                asItself + [
                    programs + "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N",
                ])
            // Changing the user forgets the signal at the parent's death: it is asked for again, as the one at
            // which PostgreSQL takes its shared memory with it.
            try await host.launch(
                "/usr/bin/setpriv",
                asItself + [
                    "/usr/bin/setpriv", "--pdeathsig", "QUIT", "--", programs + "postgres",
                    "-D", data, "-k", host.directory, "-c", "listen_addresses=", "-c", "fsync=off",
                ], environment: ["LC_ALL": "C"], end: SIGQUIT)
            try await waitForDatabase(host)
            try await sql(host, ["-c", "create role authenticated nologin"])
            try await sql(
                host, ["-f", SystemHost.root.appending(path: "deploy/supabase.sql").path])
            let port = try await host.script(
                "postgrest_front.py", ["host=\(host.directory) user=postgres dbname=postgres"],
                python: python)
            let password = "correct horse"
            return PostgRESTSystem(
                host: host, port: port, password: password,
                passwordFile: try host.write(password, to: "password"))
        }
    }

    private init(host: SystemHost, port: Int, password: String, passwordFile: String) {
        self.host = host
        settings = [
            "url": "http://127.0.0.1:\(port)/rest/v1", "key": "sb_publishable_test",
            "email": "gateway@clinic.example", "password": password, "patient": "id",
        ]
        secretFiles = ["password": passwordFile]
    }

    private static func waitForDatabase(_ host: SystemHost) async throws {
        for _ in 0..<startTenthsMax {
            let outcome = try await psql(host, ["-c", "select 1"])
            if outcome.status != noConnection { return }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw SystemFault("PostgreSQL does not answer: \(host.logTail)")
    }

    /// Runs SQL as the database's owner.
    @discardableResult
    private static func sql(_ host: SystemHost, _ words: [String]) async throws -> String {
        let outcome = try await psql(host, words)
        guard outcome.status == 0 else { throw SystemFault("psql: \(outcome.complaint)") }
        return outcome.output
    }

    private static func psql(
        _ host: SystemHost, _ words: [String]
    ) async throws -> Command.Outcome {
        try await Command.run(
            "/usr/bin/psql",
            ["-h", host.directory, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtX"] + words)
    }

    public func counts() async throws -> (stored: Int, repeated: Int) {
        try await pair(
            "select count(distinct id), count(*) - count(distinct id) from heart_rate "
                + "where kind = 'heart-rate'")
    }

    public func ledgerCounts() async throws -> (gaps: Int, days: Int)? {
        try await pair(
            "select (select count(*) from heart_rate_gap), "
                + "(select count(*) from heart_rate_coverage "
                + "where day = current_date - 1 or day = current_date - 2)")
    }

    private func pair(_ query: String) async throws -> (Int, Int) {
        let text = try await Self.sql(host, ["-c", query])
        let numbers = text.split { !$0.isNumber }.compactMap { Int($0) }
        guard numbers.count == 2 else { throw SystemFault("psql answers: \(text)") }
        return (numbers[0], numbers[1])
    }

    public func stop() async { await host.stop() }
}
