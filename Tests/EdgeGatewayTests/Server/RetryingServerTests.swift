import Basics
import Foundation
import Glibc
import HTTPTypes
import Health
import OfflineQueue
import ServiceLifecycle
import Synchronization
import Testbed
import Testing

@testable import EdgeGateway

/// A server that cannot serve says why, and serves as soon as it can. Recording is never asked.
@Suite(.serialized) struct RetryingServerTests {
    /// A listening TCP socket on loopback.
    private final class Listener {
        let port: Int
        private let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)

        init() throws {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            let size = socklen_t(MemoryLayout<sockaddr_in>.size)
            var length = size
            let descriptor = descriptor
            let isBound = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, size) == 0 && listen(descriptor, 1) == 0
                        && getsockname(descriptor, $0, &length) == 0
                }
            }
            try #require(isBound)
            port = Int(UInt16(bigEndian: address.sin_port))
        }

        func end() { close(descriptor) }
    }

    @Test func aPageWhosePortIsTakenSaysSoAndServesOnceItIsFree() async throws {
        let listener = try Listener()
        let place = "127.0.0.1:\(listener.port)"
        try await ServerFixture.run(["EDGE_GATEWAY_PAGE_LISTEN": place]) { fixture in
            try await fixture.serving([fixture.control(), fixture.page()]) {
                try await fixture.eventually("a fault") { !fixture.states.faults().isEmpty }
                let fault = try #require(fixture.states.faults().first)
                #expect(fault.name == "page.listen")
                #expect(fault.fault == "\(place) cannot be opened: Address already in use")
                try await fixture.eventually("commands") { await fixture.isAnswered() }
                // A link that cannot be opened is not handed out.
                let share = await #expect(throws: ProblemReport.self) {
                    try await fixture.gateway.sharing.share(ShareRequest(hours: 1))
                }
                #expect(share?.code == "no-page" && share?.message.contains(place) == true)
                let status = try await fixture.gateway.status.report()
                #expect(
                    status.health.contains {
                        $0.name == "page-unavailable"
                            && $0.message
                                == "page.listen: \(place) cannot be opened: Address already in use"
                    }, "\(status.health)")
                listener.end()
                try await fixture.eventually("a page") { fixture.states.faults().isEmpty }
            }
        }
    }

    @Test(arguments: [
        (["EDGE_GATEWAY_PAGE_LISTEN": "192.0.2.77:8470"], "page.token_file"),
        (["EDGE_GATEWAY_PAGE_LISTEN": "localhost:8470"], "page.listen"),
        (
            [
                "EDGE_GATEWAY_PAGE_LISTEN": "0.0.0.0:8470",
                "EDGE_GATEWAY_PAGE_TOKEN_FILE": "/nonexistent/token",
            ], "page.token_file"
        ),
    ])
    func aPageThatMayNotServeNamesTheSetting(
        variables: [String: String], setting: String
    ) async throws {
        try await ServerFixture.run(variables) { fixture in
            try await fixture.serving([fixture.control(), fixture.page()]) {
                try await fixture.eventually("commands and a fault") {
                    let isAnswered = await fixture.isAnswered()
                    return isAnswered && !fixture.states.faults().isEmpty
                }
                #expect(fixture.states.faults().map(\.name) == [setting])
                #expect(fixture.settings.problems().map(\.setting) == [setting])
            }
        }
    }

    @Test func anAddressThatIsNotThereYetIsServedLater() async throws {
        let token = FileManager.default.temporaryDirectory
            .appending(path: "token-\(UInt32.random(in: 0 ... .max))")
        try String(repeating: "x", count: 40).write(to: token, atomically: true, encoding: .utf8)
        chmod(token.path, 0o600)
        defer { try? FileManager.default.removeItem(at: token) }
        let variables = [
            "EDGE_GATEWAY_PAGE_LISTEN": "192.0.2.77:8470",
            "EDGE_GATEWAY_PAGE_TOKEN_FILE": token.path,
        ]
        try await ServerFixture.run(variables) { fixture in
            try await fixture.serving([fixture.page()]) {
                try await fixture.eventually("a fault") { !fixture.states.faults().isEmpty }
                let fault = try #require(fixture.states.faults().first)
                #expect(fault.name == "page.listen")
                #expect(fault.fault?.contains("Cannot assign requested address") == true)
            }
            // It was not the settings: they may be right once the network is there.
            #expect(fixture.settings.problems().isEmpty)
        }
    }

    @Test func aSocketWhoseFileIsRemovedIsBoundAgain() async throws {
        try await ServerFixture.run { fixture in
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                unlink(fixture.settings.socketPath)
                try await fixture.eventually("an answer again") { await fixture.isAnswered() }
                try await fixture.eventually("no fault") { fixture.states.faults().isEmpty }
            }
        }
    }

    /// Loses its place each time that somebody looks.
    private final class LostServer: ReopenedServer {
        private let server: PageServer
        private let opened = Atomic(0)
        var timesOpened: Int { opened.load(ordering: .relaxed) }

        init(_ server: PageServer) { self.server = server }

        var name: ServerName { server.name }
        var address: String { server.address }

        func open(onServing: @escaping @Sendable () -> Void) throws -> any Service {
            opened.add(1, ordering: .relaxed)
            return try server.open(onServing: onServing)
        }

        func loss() -> String? { "lost" }
    }

    /// NIO trapped for a connection that was accepted when the server was cancelled.
    @Test func aServerThatLosesItsPlaceWhileClientsConnectEndsNoProcess() async throws {
        let listener = try Listener()
        let port = listener.port
        listener.end()
        try await ServerFixture.run(["EDGE_GATEWAY_PAGE_LISTEN": "127.0.0.1:\(port)"]) { fixture in
            let server = LostServer(fixture.page())
            try await fixture.serving([server]) {
                for _ in 0..<4 {
                    // A thread of its own: it never waits.
                    Thread.detachNewThread {
                        while server.timesOpened <= 20 { Self.connect(to: port) }
                    }
                }
                try await fixture.eventually("twenty losses") { server.timesOpened > 20 }
            }
        }
    }

    private static func connect(to port: Int) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        address.sin_port = in_port_t(port).bigEndian
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    @Test func aSocketWhoseDirectoryAppearsLaterIsBoundThen() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "later-\(UInt32.random(in: 0 ... .max))")
        let path = directory.appending(path: "control.sock").path
        try await ServerFixture.run(["EDGE_GATEWAY_SOCKET": path]) { fixture in
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("a fault") { !fixture.states.faults().isEmpty }
                let fault = try #require(fixture.states.faults().first)
                #expect(fault.name == "socket" && fault.fault?.contains("is missing") == true)
                try FileManager.default.createDirectory(
                    at: directory, withIntermediateDirectories: true)
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
            }
        }
        try? FileManager.default.removeItem(at: directory)
    }

    @Test func aSocketThatAnotherProgramServesIsLeftAlone() async throws {
        try await ServerFixture.run { fixture in
            try await fixture.serving([fixture.control()]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                let second = ControlSocketPlace(fixture.settings.socketPath)
                #expect {
                    try second.claim()
                } throws: {
                    if case .taken? = $0 as? ControlSocketPlace.Fault { true } else { false }
                }
                // Also where that program does not use the lock.
                unlink(fixture.settings.socketPath + ".lock")
                let third = ControlSocketPlace(fixture.settings.socketPath)
                #expect {
                    try third.claim()
                } throws: {
                    if case .taken(let why)? = $0 as? ControlSocketPlace.Fault {
                        why.contains("answers")
                    } else {
                        false
                    }
                }
                #expect(await fixture.isAnswered())
            }
        }
    }

    @Test func aSocketThatAKilledDaemonLeftIsReplaced() throws {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "left-\(UInt32.random(in: 0 ... .max)).sock").path
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        try #require(UnixSocket.withAddress(path) { bind(descriptor, $0, $1) } == 0)
        close(descriptor)
        let place = ControlSocketPlace(path)
        try place.claim()
        #expect(!FileManager.default.fileExists(atPath: path))
        try "mine".write(toFile: path, atomically: true, encoding: .utf8)
        #expect(throws: ControlSocketPlace.Fault.self) { try place.claim() }
        #expect(FileManager.default.fileExists(atPath: path), "no file of others is removed")
        unlink(path)
        unlink(path + ".lock")
    }
}

/// Clients that mean no good or are broken, at a server with short patience.
@Suite(.serialized) struct ConnectionGuardTests {
    private static let head = "POST /v1/forget HTTP/1.1\r\nHost: localhost\r\n"

    /// Serves the control socket with limits; gives clients.
    private func serving(
        _ limits: ServerLimits, _ body: (ServerFixture, () -> SlowClient) async throws -> Void
    ) async throws {
        try await ServerFixture.run { fixture in
            try await fixture.serving([fixture.control(limits)]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                try await body(fixture) { SlowClient(fixture.settings.socketPath) }
            }
        }
    }

    @Test(arguments: [
        head + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX",
        head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        head + "Content-Length: five\r\n\r\nhello",
        head + "Content-Length: -1\r\n\r\n",
        head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n", "\u{0}\u{1}\u{2}\r\n\r\n", "GET /v1/status HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /v1/status HTTP/1.1\r\nBad Header: x\r\n\r\n",
        "GET /v1/status\u{7F} HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/gaps?days=%zz HTTP/1.1\r\nHost: x\r\n\r\n",
    ])
    func whatIsNoHTTPIsTheClientsFault(request: String) async throws {
        try await serving(ControlServer.limits) { fixture, connect in
            let client = connect()
            client.send(request)
            try await fixture.eventually("an answer to \(request.debugDescription)") {
                client.received().contains("\"advice\"") || client.isCutOff()
            }
            let answer = client.received()
            #expect(answer.hasPrefix("HTTP/1.1 4"), "\(request.debugDescription): \(answer)")
            #expect(answer.contains("\"code\""), "\(request.debugDescription): \(answer)")
        }
    }

    @Test func headersThatAreTooLargeAreAnswered() async throws {
        try await serving(ControlServer.limits) { fixture, connect in
            let client = connect()
            let long = String(repeating: "x", count: 40_000)
            client.send("GET /v1/status HTTP/1.1\r\nHost: x\r\nX-Long: \(long)\r\n\r\n")
            try await fixture.eventually("an answer") { client.received().contains("advice") }
            #expect(client.received().hasPrefix("HTTP/1.1 431"), "\(client.received())")
        }
    }

    @Test func aBodyThatNeverEndsIsCutOffThoughItsBytesKeepComing() async throws {
        var limits = ControlServer.limits
        limits.body = .milliseconds(300)
        try await serving(limits) { fixture, connect in
            let client = connect()
            client.send(Self.head + "Content-Length: 60000\r\n\r\n")
            try await fixture.eventually("the end") {
                client.send(" ")
                return client.isCutOff()
            }
            #expect(client.received().hasPrefix("HTTP/1.1 408"), "\(client.received())")
        }
    }

    @Test func aHeadThatNeverEndsIsCutOffThoughItsBytesKeepComing() async throws {
        var limits = ControlServer.limits
        limits.head = .milliseconds(300)
        limits.idle = .milliseconds(300)
        try await serving(limits) { fixture, connect in
            let first = connect()
            first.send("GET /v1/status HTTP/1.1\r\nX-Long: ")
            let second = connect()
            second.send("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/status HTTP/1.1\r\nX: ")
            try await fixture.eventually("the end") {
                first.send("x")
                second.send("x")
                return first.isCutOff() && second.isCutOff()
            }
            #expect(second.received().hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test func silentConnectionsKeepNoOtherOut() async throws {
        var limits = ControlServer.limits
        limits.connectionsMax = 20
        limits.perPeerMax = 16
        try await serving(limits) { fixture, connect in
            let silent = (0..<100).map { _ in connect() }
            #expect(await fixture.isAnswered())
            let dawdling = (0..<100).map { _ in connect() }
            for client in dawdling { client.send(Self.head + "Content-Length: 60000\r\n\r\n") }
            #expect(await fixture.isAnswered())
            try await fixture.eventually("the first are closed") { silent[0].isCutOff() }
        }
    }

    @Test func whoNeverReadsTheStreamIsCutOff() async throws {
        var limits = ControlServer.limits
        limits.stalled = .milliseconds(300)
        try await serving(limits) { fixture, connect in
            let client = connect()
            // 10,000 requests at once, none of whose answers is read.
            let request = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"
            let requests = String(repeating: request, count: 200)
            try await fixture.eventually("the end") {
                client.send(requests)
                return client.isCutOff()
            }
            #expect(await fixture.isAnswered())
        }
    }
}

/// Users who may only read change nothing.
@Suite struct LookingTests {
    @Test func noGetAndNoHeadChangesTheStoreOrAFile() async throws {
        try await ServerFixture.run { fixture in
            _ = try await fixture.queue.addSensor(
                address: "C0:00:00:00:00:01", details: SensorDetails(name: "Ada"))
            func files() throws -> [String: Data] {
                let names = try FileManager.default.contentsOfDirectory(
                    atPath: fixture.directory.path)
                // Readers of the store note in its index how far they are.
                return try names.filter { !$0.hasSuffix("-shm") && !$0.hasSuffix(".sock") }
                    .reduce(into: [:]) {
                        $0[$1] = try Data(contentsOf: fixture.directory.appending(path: $1))
                    }
            }
            let server = fixture.control()
            let paths = server.routes().routes.filter { $0.value.contains(.get) }.keys.map {
                "/" + $0.drop { $0 == "/" }.replacing("{id}", with: "1")
            }
            #expect(paths.count > 15)
            try await fixture.serving([server]) {
                try await fixture.eventually("an answer") { await fixture.isAnswered() }
                let before = try files()
                for path in paths {
                    for words in [["-I"], ["--max-time", "1"]] {
                        _ = try await Command.run(
                            "/usr/bin/curl",
                            ["-s", "--unix-socket", fixture.settings.socketPath] + words
                                + ["http://localhost\(path)?sensor=1&minutes=10"])
                    }
                }
                #expect(try files() == before)
            }
        }
    }
}
