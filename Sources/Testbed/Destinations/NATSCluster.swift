import Foundation

/// nats-server from Debian on loopback: one node, or a cluster of them, with TLS and the accounts of two
/// clinics, whose users have NKEYs.
public actor NATSCluster {
    /// A user of an account, as the servers' operator lists it (docs/operate/relay.md).
    public struct User: Sendable {
        /// Its public NKEY.
        public var key: String
        /// The subjects that it may publish to, and those that it may subscribe to.
        public var publish, subscribe: [String]

        /// A gateway, which sends under its own name and hears its own answers.
        public static func gateway(_ name: String, key: String) -> User {
            User(key: key, publish: ["heart-rate.\(name)"], subscribe: ["_INBOX.\(name).>"])
        }

        /// A relay, which hears all gateways of its clinic and answers them.
        public static func relay(key: String) -> User {
            User(key: key, publish: ["_INBOX.>"], subscribe: ["heart-rate.* relay"])
        }
    }

    private struct Node {
        /// Nobody else gets them while the node is dead.
        let ports: (clients: PortReservation, routes: PortReservation)
        var port: Int { ports.clients.port }
        var routePort: Int { ports.routes.port }
        var child: ChildProcess?

        init() throws { ports = (try PortReservation(), try PortReservation()) }
    }

    /// The authority of its certificates, a PEM file.
    public nonisolated var authorityFile: String { path("ca.pem") }
    /// Where everything is kept, until ``stop()``.
    public nonisolated let directory: String
    private var nodes: [Node]
    private var accounts: [[User]] = [[], []]

    /// The program.
    public static let program = "/usr/sbin/nats-server"
    private static let openSSL = "/usr/bin/openssl"
    /// A node may take so long to start, in tenths of a second; a loaded machine needs some.
    private static let startTenthsMax = 600

    /// Makes certificates and starts the nodes.
    ///
    /// - Parameters:
    ///   - nodes: how many.
    ///   - users: of the first clinic's account.
    ///   - others: of the second clinic's.
    ///   - host: the name in the certificate.
    /// - Throws: ``SystemFault`` when a program is missing or does not start.
    public static func start(
        nodes: Int = 1, users: [User], others: [User] = [], host: String = "localhost"
    ) async throws -> NATSCluster {
        guard FileManager.default.isExecutableFile(atPath: program) else {
            throw SystemFault("\(program) is missing: deploy/setup --test installs it")
        }
        let cluster = try NATSCluster(nodes: nodes, accounts: [users, others])
        do {
            try await cluster.makeCertificates(host)
            for index in 0..<nodes { try await cluster.start(index) }
            return cluster
        } catch {
            await cluster.stop()
            throw error
        }
    }

    private init(nodes: Int, accounts: [[User]]) throws {
        directory = "/tmp/nats-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o700])
        self.accounts = accounts
        self.nodes = try (0..<nodes).map { _ in try Node() }
    }

    /// A file in the directory.
    public nonisolated func path(_ name: String) -> String { "\(directory)/\(name)" }

    /// The setting `url` of a gateway: all nodes.
    public var addresses: String {
        nodes.map { "tls://localhost:\($0.port)" }.joined(separator: ",")
    }

    /// The nodes' ports.
    public var ports: [Int] { nodes.map(\.port) }

    private func makeCertificates(_ host: String) async throws {
        let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        try await run(
            ["req", "-x509"] + newKey + [
                "-keyout", path("ca.key"), "-out", authorityFile, "-days", "30", "-subj",
                "/CN=Made-up authority",
            ])
        try await run(
            ["req"] + newKey + [
                "-keyout", path("key.pem"), "-out", path("request.pem"), "-subj", "/CN=server",
            ])
        try Data("subjectAltName=DNS:\(host)\n".utf8).write(to: URL(filePath: path("ext")))
        try await run([
            "x509", "-req", "-in", path("request.pem"), "-out", path("cert.pem"), "-extfile",
            path("ext"), "-days", "30", "-CA", authorityFile, "-CAkey", path("ca.key"),
            "-CAcreateserial",
        ])
    }

    private func run(_ words: [String]) async throws {
        let outcome = try await Command.run(Self.openSSL, words, directory: directory)
        guard outcome.status == 0 else { throw SystemFault("openssl: \(outcome.complaint)") }
    }

    private func configure(_ index: Int) throws {
        func list(_ subjects: [String]) -> String {
            "[" + subjects.map { "\"\($0)\"" }.joined(separator: ", ") + "]"
        }
        func users(_ users: [User]) -> String {
            users.map { user in
                "{ nkey: \(user.key), permissions: { publish: \(list(user.publish)), "
                    + "subscribe: \(list(user.subscribe)) } }"
            }.joined(separator: "\n    ")
        }
        let routes = nodes.map { "\"nats://127.0.0.1:\($0.routePort)\"" }.joined(separator: ", ")
        let cluster =
            nodes.count == 1
            ? ""
            : "cluster { name: relay, listen: \"127.0.0.1:\(nodes[index].routePort)\", "
                + "routes: [\(routes)], no_advertise: true }"
        let text = """
            server_name: n\(index)
            listen: "127.0.0.1:\(nodes[index].port)"
            max_payload: 1MB
            tls { cert_file: "\(path("cert.pem"))", key_file: "\(path("key.pem"))", timeout: 60 }
            \(cluster)
            accounts {
              CLINIC { users: [
                \(users(accounts[0]))
              ] }
              OTHER { users: [
                \(users(accounts[1]))
              ] }
            }

            """
        try Data(text.utf8).write(to: URL(filePath: path("n\(index).conf")))
    }

    // MARK: - What happens to it

    /// Starts a node, and waits until it takes connections.
    public func start(_ index: Int) async throws {
        guard nodes[index].child?.isRunning != true else { return }
        try configure(index)
        nodes[index].child = try await ChildProcess.launch(
            Self.program, ["-c", path("n\(index).conf")],
            environment: ["HOME": directory, "PATH": "/usr/bin:/bin"], log: path("n\(index).log"))
        for _ in 0..<Self.startTenthsMax {
            if takesConnections(nodes[index].port) { return }
            guard nodes[index].child?.isRunning == true else { break }
            try await Task.sleep(for: .milliseconds(100))
        }
        let log = (try? String(contentsOfFile: path("n\(index).log"), encoding: .utf8)) ?? ""
        throw SystemFault("nats-server does not start: \(log.suffix(500))")
    }

    /// Kills a node as a power cut would.
    public func kill(_ index: Int) async { await nodes[index].child?.stop() }

    /// Gives the first clinic other users, and makes the running nodes read them.
    public func replace(users: [User]) async throws {
        accounts[0] = users
        for index in nodes.indices {
            try configure(index)
            nodes[index].child?.signal(SIGHUP)
        }
    }

    /// Ends the nodes and removes their files.
    public func stop() async {
        for node in nodes { await node.child?.stop() }
        try? FileManager.default.removeItem(atPath: directory)
    }

    private nonisolated func takesConnections(_ port: Int) -> Bool {
        let descriptor = socket(
            AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var place = sockaddr_in()
        place.sin_family = sa_family_t(AF_INET)
        place.sin_port = in_port_t(port).bigEndian
        place.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
        return withUnsafePointer(to: &place) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
