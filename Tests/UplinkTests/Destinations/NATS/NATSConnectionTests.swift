import Basics
import Foundation
import Testbed
import Testing

@testable import Uplink

/// What libnats does with servers and signatures that nobody would wish for.
@Suite(.serialized, .timeLimit(.minutes(2))) struct NATSConnectionTests {
    private static func connection(
        _ server: ScriptedNATS, _ key: NKey, scheme: String = "nats",
        patience: Duration = .seconds(60)
    ) throws -> NATSConnection {
        var network = CurlSettings()
        network.connectTimeout = patience
        network.totalTimeout = patience
        return NATSConnection(
            NATSSettings(
                servers: try #require(
                    ServerAddress.list("\(scheme)://127.0.0.1:\(server.port)", .nats)),
                name: "gw1", key: key, inbox: "_INBOX.gw1", network: network))
    }

    /// A key that signs the usual question without a zero at the beginning.
    private static func key() throws -> NKey {
        while true {
            let key = try #require(NKey.make())
            if key.signature(of: Array(ScriptedNATS.question.utf8))?.first != 0 { return key }
        }
    }

    /// A question whose signature begins with a zero.
    private static func question(_ key: NKey) throws -> String {
        try #require(
            (0..<100_000).lazy.map { "question\($0)" }.first {
                key.signature(of: Array($0.utf8))?.first == 0
            })
    }

    @Test func aKeyIsTakenThoughItsSignatureBeginsWithAZero() async throws {
        let key = try Self.key()
        let unlucky = try Self.question(key)
        let server = try ScriptedNATS { .question($0 < 2 ? unlucky : ScriptedNATS.question) }
        defer { server.stop() }
        let connection = try Self.connection(server, key)
        #expect(await connection.open() == nil)
        #expect(server.connections == 3)
        await connection.close()
    }

    @Test func signaturesThatAllBeginWithAZeroAreNoRefusalOfTheKey() async throws {
        let key = try Self.key()
        let unlucky = try Self.question(key)
        let server = try ScriptedNATS { _ in .question(unlucky) }
        defer { server.stop() }
        let connection = try Self.connection(server, key)
        #expect(await connection.open() == .connect)
    }

    @Test func aServerThatBecomesSilentInTheHandshakeIsGivenUp() async throws {
        let server = try ScriptedNATS { _ in .silentHandshake }
        defer { server.stop() }
        let connection = try Self.connection(
            server, try Self.key(), scheme: "tls", patience: .milliseconds(100))
        for _ in 0..<3 { #expect(await connection.open() == .connect) }
        #expect(server.connections == 3)
    }

    @Test func aServerThatDoesNotAnswerTheFirstPingIsGivenUp() async throws {
        let server = try ScriptedNATS {
            $0 == 0 ? .question(ScriptedNATS.question) : .silentAfterwards
        }
        defer { server.stop() }
        let key = try Self.key()
        // Only what is being opened is cut off.
        let other = try Self.connection(server, key)
        #expect(await other.open() == nil)
        let connection = try Self.connection(server, key, patience: .milliseconds(100))
        #expect(await connection.open() == .connect)
        #expect(await other.answers(within: .seconds(10)))
        await other.close()
    }

    /// To close a second descriptor of a file gives up all that the process has locked in it.
    @Test func aConnectionLeavesTheLocksOfSQLiteAlone() async throws {
        let server = try ScriptedNATS { _ in .question(ScriptedNATS.question) }
        defer { server.stop() }
        let path = FileManager.default.temporaryDirectory
            .appending(path: "lock-\(UInt32.random(in: 0 ... .max))").path
        let file = open(path, O_RDWR | O_CREAT, 0o600)
        defer {
            close(file)
            unlink(path)
        }
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        #expect(fcntl(file, F_SETLK, &lock) == 0)
        let connection = try Self.connection(server, try Self.key())
        #expect(await connection.open() == nil)
        let script =
            "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        let other = try await Command.run("/usr/bin/python3", ["-c", script, path])
        #expect(other.complaint.contains("BlockingIOError"), "\(other)")
        await connection.close()
    }

    @Test func aServerThatReadsNothingHoldsNobodyUp() async throws {
        // libnats connects again at once; that connection would answer.
        let server = try ScriptedNATS { $0 == 0 ? .readsNothing : .silentAfterwards }
        defer { server.stop() }
        let connection = try Self.connection(
            server, try Self.key(), patience: .milliseconds(500))
        #expect(await connection.open() == nil)
        let payload = [UInt8](repeating: 0x20, count: 1_000_000)
        var outcome = NATSOutcome.unanswered(.timeout)
        while outcome == .unanswered(.timeout) {
            outcome = await connection.request(
                "heart-rate.gw1", payload, patience: .milliseconds(10))
        }
        // The write that waited, or a request that the end of the connection met.
        #expect([.notSent(.connect), .unanswered(.cut)].contains(outcome), "\(outcome)")
        await connection.ended()
        #expect(await !connection.answers(within: .milliseconds(10)))
        await connection.close()
    }
}
