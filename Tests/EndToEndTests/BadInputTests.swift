import Basics
import Foundation
import Testbed
import Testing

@Suite(.serialized) struct BadInputTests {
    @Test func withoutADaemonACommandSaysHowToStartIt() async throws {
        try await TestWorld.run(starts: false) { fixture in
            for words in [["status"], ["straps"], ["scan"], ["pair", "C0:00:00:00:00:01"]] {
                let outcome = try await fixture.gateway.command(words)
                #expect(outcome.status == 3)
                #expect(outcome.complaint.contains("systemctl start edge-gateway"))
                // It does not stay up on a store of another version.
                #expect(outcome.complaint.contains("edge-gateway doctor"))
                #expect(outcome.output.isEmpty)
            }
        }
    }

    /// "Nothing is recorded until it opens. See that the state directory exists": it does.
    @Test(arguments: [["verify"], ["export", "x.ndjson"], ["export", "x.csv", "--beats"]])
    func withoutAStoreACommandSaysThatThereIsNoneYet(words: [String]) async throws {
        try await TestWorld.run(starts: false) { fixture in
            let outcome = try await fixture.gateway.command(["queue"] + words)
            #expect(outcome.status == 1)
            #expect(outcome.complaint.contains("there is no store yet"), "\(outcome.complaint)")
            #expect(outcome.complaint.contains("systemctl start edge-gateway"))
        }
    }

    /// A directory was read for ever, and random octets were "0 samples", as if the store had been saved.
    @Test func salvageTakesNothingButAStore() async throws {
        try await TestWorld.run(starts: false) { fixture in
            let directory = fixture.gateway.directory
            let out = directory.appending(path: "saved.ndjson").path
            let folder = try await fixture.gateway.command([
                "queue", "salvage", directory.path, out,
            ])
            #expect(folder.status == 2 && folder.complaint.contains("is no file"), "\(folder)")
            let stranger = directory.appending(path: "stranger").path
            try Data(repeating: 0x5A, count: 20_000).write(to: URL(filePath: stranger))
            let other = try await fixture.gateway.command(["queue", "salvage", stranger, out])
            #expect(other.status == 1 && other.complaint.contains("is no store"), "\(other)")
            #expect(!FileManager.default.fileExists(atPath: out))
        }
    }

    @Test func aStoreOfAnotherVersionStopsTheDaemonAndStaysAsItIs() async throws {
        try await TestWorld.run { fixture in
            await fixture.gateway.stop()
            let store = fixture.gateway.directory.appending(path: "state/queue.sqlite")
            // No stamp of any version (https://www.sqlite.org/fileformat2.html, "user version").
            let handle = try FileHandle(forUpdating: store)
            try handle.seek(toOffset: 60)
            try handle.write(contentsOf: Data(count: 4))
            try handle.close()
            func files() throws -> [String: Data] {
                let folder = store.deletingLastPathComponent()
                let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
                    .filter { $0.hasPrefix("queue.sqlite") && !$0.hasSuffix(".lock") }
                return try Dictionary(
                    uniqueKeysWithValues: names.map {
                        ($0, try Data(contentsOf: folder.appending(path: $0)))
                    })
            }
            let before = try files()
            let outcome = try await fixture.gateway.command(["run"])
            #expect(outcome.status == 1)
            let said = outcome.output + outcome.complaint
            #expect(said.contains("another version of edge-gateway wrote this store"), "\(said)")
            #expect(said.contains("queue export") && said.contains("move queue.sqlite"), "\(said)")
            #expect(try files() == before)
            let doctor = try await fixture.gateway.command(["doctor"])
            #expect(doctor.output.contains("another version of edge-gateway wrote this store"))
        }
    }

    @Test(arguments: [
        ["fly"], ["scan", "--for", "0s"], ["pair"], ["decode", "zz"], ["decode"],
        ["status", "--verbose"],
    ])
    func wrongUsageLeavesWithTwo(words: [String]) async throws {
        try await TestWorld.run(starts: false) { fixture in
            let outcome = try await fixture.gateway.command(words)
            #expect(outcome.status == 2)
            #expect(!outcome.complaint.isEmpty)
        }
    }

    /// Runs a line of bash in which `$0` is the program.
    private static func bash(_ fixture: TestWorld, _ line: String) async throws -> Command.Outcome {
        try await Command.run(
            "/bin/bash", ["-c", line, fixture.gateway.binary.path],
            environment: fixture.gateway.environment, directory: fixture.gateway.directory.path)
    }

    /// It ended with 0, and the file that the shell made had lost its end.
    @Test func outputThatTheDiskDoesNotTakeIsAFailure() async throws {
        try await TestWorld.run(starts: false) { fixture in
            let full = try await Self.bash(fixture, "\"$0\" decode 1048 > /dev/full")
            #expect(full.status == 1)
            #expect(full.complaint.contains("the output is incomplete: No space left on device"))
            let closed = try await Self.bash(fixture, "\"$0\" decode 1048 >&-")
            #expect(closed.status == 1)
            #expect(closed.complaint.contains("the output is incomplete: Bad file descriptor"))
        }
    }

    /// A trap ended the command, or the page server of `fleet`, when its messages had no reader.
    @Test(arguments: ["2> /dev/full", "2>&-", "2>&4"])
    func messagesThatNobodyTakesDoNotEndACommandEarly(redirection: String) async throws {
        try await TestWorld.run(starts: false) { fixture in
            // 4 is a pipe whose reader has gone.
            let outcome = try await Self.bash(
                fixture, "exec 4> >(:); wait $!; \"$0\" status \(redirection)")
            #expect(outcome.status == 3, "\(outcome.complaint)")
        }
    }

    /// The text went into the first file that the command opened: into the export itself.
    @Test func whatIsPrintedToAClosedDescriptorGoesIntoNoFile() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            try await fixture.eventually("samples") { $0.balance.stored >= 3 }
            let outcome = try await Self.bash(
                fixture, "\"$0\" queue export out.ndjson --all >&- 2>&-; cat out.ndjson")
            let lines = outcome.output.split(separator: "\n")
            #expect(lines.count >= 3)
            #expect(lines.allSatisfy { $0.hasPrefix("{") }, "\(lines.last ?? "")")
        }
    }

    @Test func withoutAReaderOfItsOutputACommandEndsQuietly() async throws {
        try await TestWorld.run(starts: false) { fixture in
            let outcome = try await Self.bash(
                fixture, "exec 4> >(:); wait $!; \"$0\" decode 1048 >&4")
            #expect(outcome.status == 0)
            #expect(outcome.complaint.isEmpty, "\(outcome.complaint)")
        }
    }

    /// It went on asking the daemon for ever.
    @Test func watchEndsWhenNobodyReadsIt() async throws {
        try await TestWorld.run { fixture in
            try await fixture.put(on: 0)
            let outcome = try await Self.bash(fixture, "\"$0\" watch | head -n 1")
            #expect(!outcome.output.isEmpty)
        }
    }

    @Test func aDaemonWithABadConfigurationSaysWhatAndLeaves() async throws {
        try await TestWorld.run(starts: false) { fixture in
            let path = fixture.gateway.directory.appending(path: "bad.yaml")
            try "clock:\n  trsut: always\n".write(to: path, atomically: true, encoding: .utf8)
            let outcome = try await fixture.gateway.command(["run", "--config", path.path])
            #expect(outcome.status == 1)
            #expect(outcome.complaint.contains("did you mean `clock.trust`?"))
            #expect(outcome.complaint.split(separator: "\n").count == 1)
        }
    }

    @Test func aClientKeyThatEverybodyMayReadStopsTheDaemonAndTheCheck() async throws {
        try await TestWorld.run(starts: false) { fixture in
            let key = fixture.gateway.directory.appending(path: "key.pem").path
            try "-----BEGIN CERTIFICATE-----\n".write(
                toFile: key, atomically: true, encoding: .utf8)
            chmod(key, 0o644)
            let path = fixture.gateway.directory.appending(path: "key.yaml").path
            try """
            uplink:
              proxy: http://someone:hush@proxy.example:3128
              client_certificate_file: \(key)
              client_key_file: \(key)
            """.write(toFile: path, atomically: true, encoding: .utf8)
            for words in [["run"], ["config", "check"]] {
                let outcome = try await fixture.gateway.command(words + ["--config", path])
                #expect(outcome.status == 1)
                #expect(outcome.complaint.contains("chmod 640"), "\(outcome.complaint)")
            }
            chmod(key, 0o640)
            let check = try await fixture.gateway.command(["config", "check", "--config", path])
            #expect(check.status == 0, "\(check.complaint)")
            for words in [["config", "show"], ["config", "show", "--json"]] {
                let shown = try await fixture.gateway.command(words + ["--config", path])
                #expect(shown.output.contains("***@proxy.example:3128"))
                #expect(!shown.output.contains("hush"))
            }
        }
    }

    /// A second daemon, with other settings than the fixture's.
    private static func run(
        _ fixture: TestWorld, _ variables: [String: String]
    ) async throws -> Command.Outcome {
        try await Command.run(
            GatewayProcess.program("edge-gateway").path, ["run"],
            environment: fixture.gateway.environment.merging(variables) { $1 })
    }

    @Test func aSecondDaemonOnTheSameStoreRefuses() async throws {
        try await TestWorld.run { fixture in
            let other = fixture.gateway.directory.appending(path: "other.sock").path
            let outcome = try await Self.run(fixture, ["EDGE_GATEWAY_SOCKET": other])
            #expect(outcome.status == 1)
            #expect(outcome.complaint.contains("in-use"))
            _ = try await fixture.gateway.status()
        }
    }

    /// It used to remove the first one's socket, and to end only then.
    @Test func aSecondDaemonLeavesTheFirstOnesSocketAlone() async throws {
        try await TestWorld.run { fixture in
            let elsewhere = fixture.gateway.directory.appending(path: "elsewhere").path
            let outcome = try await Self.run(fixture, ["EDGE_GATEWAY_STATE": elsewhere])
            #expect(outcome.status == 1)
            #expect(outcome.complaint.contains("another daemon has"), "\(outcome.complaint)")
            _ = try await fixture.gateway.status()
        }
    }

    @Test func malformedAndUnknownLinksStoreNothing() async throws {
        try await TestWorld.run { fixture in
            let malformed = try await fixture.gateway.command(["enroll", "hello"])
            #expect(malformed.status == 2)
            #expect(malformed.complaint.contains("invitation"))
            let unknown =
                "https://x.example/\(fixture.exchange.host)_\(String(repeating: "a", count: 32))"
            let refused = try await fixture.gateway.command(["enroll", unknown])
            #expect(refused.status == 1)
            #expect(refused.complaint.contains("does not know this invitation"))
            #expect(!refused.complaint.contains("aaaa"))
            let listing = try await fixture.command("enrollments", "--json")
            #expect(listing.filter { !$0.isWhitespace } == "[]")
        }
    }

    @Test func pairingWhatIsNotThereIsAdvisedAbout() async throws {
        try await TestWorld.run { fixture in
            let nonsense = try await fixture.gateway.command(["pair", "hello"])
            #expect(nonsense.status == 2)
            let absent = try await fixture.gateway.command(["pair", "C0:00:00:00:00:99"])
            #expect(absent.status == 1)
            #expect(absent.complaint.split(separator: "\n").count == 2, "what and advice")
            #expect(try await fixture.gateway.status().sensors.isEmpty)
            let unknown = try await fixture.gateway.command(
                ["pair", TestWorld.addresses[0], "--enrollment", "nobody"])
            #expect(unknown.status == 2)
        }
    }

    @Test func withoutAnAdapterTheDaemonRunsAndSaysSo() async throws {
        try await TestWorld.run { fixture in
            await fixture.bluez.unplug("00:1A:7D:DA:71:01")
            try await fixture.eventually("no adapter") {
                $0.health.contains { $0.name == "no-adapter" }
            }
            let scan = try await fixture.gateway.command(["scan", "--for", "1s"])
            #expect(scan.status == 1)
            #expect(scan.complaint.contains("adapter"))
        }
    }

    @Test func withoutABusTheDaemonRunsAndSaysSo() async throws {
        try await TestWorld.run(starts: false) { fixture in
            await fixture.bus.halt()
            try await fixture.gateway.start()
            let status = try await fixture.eventually("no bus") {
                $0.health.contains { $0.name == "bus-absent" }
            }
            #expect(!status.well)
        }
    }

    @Test func garbageOnTheControlSocketDoesNotDisturb() async throws {
        try await TestWorld.run { fixture in
            let socket = fixture.gateway.directory.appending(path: "control.sock").path
            var random = SystemRandomNumberGenerator()
            for length in [0, 1, 100, 70_000] {
                let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
                try RawSocket.send(bytes, to: socket)
                try RawSocket.send(
                    Array(
                        "POST /v1/pair HTTP/1.1\r\nHost: x\r\nContent-Length: \(length)\r\n\r\n"
                            .utf8)
                        + bytes, to: socket)
            }
            _ = try await fixture.gateway.status()
        }
    }
}

/// Bytes on a Unix socket, and away.
enum RawSocket {
    static func send(_ bytes: [UInt8], to path: String) throws {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        try #require(UnixSocket.withAddress(path) { connect(descriptor, $0, $1) } == 0)
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
