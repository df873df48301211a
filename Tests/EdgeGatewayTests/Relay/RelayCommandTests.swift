import Foundation
import Logging
import Synchronization
import Testing
import Uplink

@testable import EdgeGateway

/// What `edge-gateway relay` reads: its settings, its secrets, and who may write for whom.
@Suite struct RelayCommandTests {
    private static let quiet = Logger(label: "relay") { _ in SwiftLogNoOpLogHandler() }
    private static let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
    private static let whole = """
        nats:
          servers: [tls://nats-1.example:4222, tls://nats-2.example]
          seed_file: relay.seed
        exchange:
          url: https://exchange.example
          key_file: key
          device: "70007"
          code: omh:heart-rate:2.0
        workers: 3
        patients_file: patients
        listen: 127.0.0.1:8490
        """

    /// A directory with a seed and a practitioner's key, which goes with the test.
    private final class Place {
        let directory: URL

        init() throws {
            directory = FileManager.default.temporaryDirectory
                .appending(path: "relay-\(UUID().uuidString)")
            try FileManager.default.createDirectory(
                at: directory, withIntermediateDirectories: true)
            try write(RelayCommandTests.seed + "\n", "relay.seed")
            try write(Data("client:secret".utf8).base64EncodedString(), "key")
        }

        deinit { try? FileManager.default.removeItem(at: directory) }

        func path(_ name: String) -> String { directory.appending(path: name).path }

        func write(_ text: String, _ name: String, mode: Int = 0o600) throws {
            try Data(text.utf8).write(to: URL(filePath: path(name)))
            try FileManager.default.setAttributes(
                [.posixPermissions: mode], ofItemAtPath: path(name))
        }

        func read(
            _ text: String, _ environment: [String: String] = [:]
        ) throws -> RelayConfiguration {
            try write(text, "relay.yaml")
            var mistakes = FileMistakes(path: path("relay.yaml"))
            let read = try RelayConfiguration.examine(
                path("relay.yaml"), environment: environment, plainHTTP: .loopback, &mistakes)
            try mistakes.check()
            #expect(read.tablePath == path("patients"))
            return try #require(read.configuration)
        }
    }

    @Test func theSettingsNameServersExchangeAndFiles() throws {
        let place = try Place()
        let read = try place.read(Self.whole)
        #expect(
            read.settings.servers.map(\.description) == [
                "tls://nats-1.example:4222", "tls://nats-2.example:4222",
            ])
        #expect(read.settings.origin.description == "https://exchange.example")
        #expect(read.settings.workers == 3 && read.settings.device == "70007")
        #expect(read.settings.code == .omhHeartRate)
        #expect(read.settings.identifierSystem == "urn:edge-gateway:sample")
        #expect(read.place?.port == 8490)
    }

    @Test func secretsComeAsCredentialsOfSystemd() throws {
        let place = try Place()
        try place.write(Self.seed, "relay-seed", mode: 0o440)
        try place.write(Data("client:secret".utf8).base64EncodedString(), "practitioner-key")
        let text = Self.whole.split(separator: "\n")
            .filter { !$0.contains("seed_file") && !$0.contains("key_file") }
            .joined(separator: "\n")
        let read = try place.read(text, ["CREDENTIALS_DIRECTORY": place.directory.path])
        #expect(read.settings.key == NKey(Self.seed))
        #expect(throws: CommandFailure.self) { _ = try place.read(text) }
    }

    @Test(
        arguments: [
            ("workers", "wrokers", "unknown key `wrokers`"),
            ("workers: 3", "workers: 99", "workers is no number"),
            ("tls://nats-1", "nats://nats-1", "one without TLS"),
            ("tls://nats-1", "http://nats-1", "no list of servers"),
            ("https://exchange", "http://exchange", "no https address"),
            ("key_file: key", "key_file: relay.seed", "exchange.key_file"),
            ("seed_file: relay.seed", "seed_file: key", "no NKEY seed"),
            ("seed_file: relay.seed", "seed_file: nothing", "there is no such file"),
            ("127.0.0.1:8490", "0.0.0.0:8490", "reachable from other machines"),
            ("127.0.0.1:8490", "here", "no address and port"),
            ("nats:", "nats: [", "it is not valid YAML"),
            ("workers: 3", "workers: " + String(repeating: "[", count: 400), "more than 16 levels"),
            ("seed_file: relay.seed", "seed_file: .", "it is a directory"),
            ("workers: 3", "workers: [2, 8]", "workers takes one value"),
            ("https://exchange.example", "[https://a.example]", "exchange.url takes one value"),
            ("exchange:", "exchange: no\nother:", "exchange takes keys with values"),
            ("[tls://nats-1", "[{a: b}, tls://nats-1", "nats.servers takes a list of texts"),
            ("url:", "ca_file: nothing.pem\n  url:", "is not there, or this user may not read it"),
            ("url:", "ca_file: key\n  url:", "is not a PEM file"),
            ("url:", "proxy: not-a-proxy\n  url:", "is not the address of a proxy"),
            ("url:", "identifier_system: none\n  url:", "is not a URI"),
            ("seed_file:", "client_key_file: key\n  seed_file:", "without nats.client_certificate"),
            ("seed_file:", "client_key_file: open.pem\n  seed_file:", "every user may read"),
        ])
    func aMistakeIsNamed(good: String, bad: String, words: String) throws {
        let place = try Place()
        try place.write("-----BEGIN PRIVATE KEY-----\n", "open.pem", mode: 0o644)
        #expect {
            _ = try place.read(Self.whole.replacing(good, with: bad, maxReplacements: 1))
        } throws: { error in
            guard let failure = error as? CommandFailure else { return false }
            return failure.exitCode == .wrongUsage && failure.message.contains(words)
                && !failure.message.contains(Self.seed)
        }
    }

    /// It stopped at the first one.
    @Test func everyMistakeInTheSettingsIsListedWithItsLine() throws {
        let place = try Place()
        let text = Self.whole.replacing("tls://nats-1", with: "nats://nats-1")
            .replacing("key_file: key", with: "key_file: nothing")
            .replacing("workers: 3", with: "wrokers: 3\nworkers: 99")
            .replacing("127.0.0.1:8490", with: "here")
        let failure = try #require(
            throws: CommandFailure.self, performing: { _ = try place.read(text) })
        for words in [
            "line 2: nats.servers has one without TLS", "there is no such file",
            "line 9: unknown key `wrokers`", "line 10: workers is no number",
            "line 12: listen is no address and port",
        ] {
            #expect(failure.message.contains(words), "\(words): \(failure.message)")
        }
    }

    /// Empty lines at the beginning of the file were not counted.
    @Test func aMistakeBehindEmptyLinesIsNamedWithItsLine() throws {
        let place = try Place()
        let failure = try #require(
            throws: CommandFailure.self,
            performing: {
                _ = try place.read("\n\n" + Self.whole.replacing("workers: 3", with: "workers: 99"))
            })
        #expect(failure.message.contains("line 11: workers is no number"), "\(failure.message)")
    }

    @Test func everyMistakeInTheTableIsListedWithItsLine() async throws {
        let place = try Place()
        try place.write("ward3-07 40001\nward3-07\n# no\nward3/07 1\nward3-08 abc\n", "patients")
        let faults = await RelayTableFile(place.path("patients")).faults()
        #expect(faults.count == 3)
        for (fault, line) in zip(faults, [2, 4, 5]) {
            #expect(fault.contains("patients line \(line): "), "\(fault)")
        }
        #expect(await RelayTableFile(place.path("none")).faults().count == 1)
    }

    @Test func aSecretThatEveryUserCanReadIsRefused() throws {
        let place = try Place()
        try place.write(Self.seed, "relay.seed", mode: 0o644)
        #expect(throws: CommandFailure.self) { _ = try place.read(Self.whole) }
    }

    @Test func theTableIsChangedLineByLineAndReadAgain() async throws {
        let place = try Place()
        try place.write("# ward 3\nward3-07  40001  # bed 7\n", "patients", mode: 0o640)
        let file = RelayTableFile(place.path("patients"))
        #expect(await file.faults().isEmpty)
        #expect(await file.current(Self.quiet).allows("ward3-07", "40001"))
        try await RelayTableFile.change(
            place.path("patients"), "ward3-08", "40002", isAllowed: true)
        try await RelayTableFile.change(
            place.path("patients"), "ward3-07", "40001", isAllowed: false)
        let text = try String(contentsOfFile: place.path("patients"), encoding: .utf8)
        #expect(text == "# ward 3\nward3-08  40002\n")
        let mode = try FileManager.default.attributesOfItem(atPath: place.path("patients"))[
            .posixPermissions]
        #expect(mode as? Int == 0o640, "the relay's group goes on reading it")
        let again = RelayTableFile(place.path("patients"))
        #expect(await again.current(Self.quiet).allows("ward3-08", "40002"))
        for (gateway, patient) in [("a b", "40001"), ("ward3-07", "4OOO1")] {
            await #expect(throws: CommandFailure.self) {
                try await RelayTableFile.change(
                    place.path("patients"), gateway, patient, isAllowed: true)
            }
        }
    }

    /// `relay forbid` took nothing out of such a table, or all of it.
    @Test func aTableWithTheLineEndsOfWindowsIsChangedLineByLine() async throws {
        let place = try Place()
        try place.write("# ward 3\r\nward3-07 40001\r\nward3-07 40002\r\n", "patients")
        try await RelayTableFile.change(
            place.path("patients"), "ward3-07", "40001", isAllowed: false)
        #expect(
            try String(contentsOfFile: place.path("patients"), encoding: .utf8)
                == "# ward 3\nward3-07 40002\n")
    }

    /// docs/operate/relay.md begins with an empty table, which `relay allow` took for one that is not there.
    @Test func anEmptyTableLetsNobodyWriteAndCanBeChanged() async throws {
        let place = try Place()
        try place.write("", "patients", mode: 0o640)
        let file = RelayTableFile(place.path("patients"))
        #expect(await file.faults().isEmpty)
        #expect(await file.current(Self.quiet).count == 0)
        try await RelayTableFile.change(
            place.path("patients"), "ward3-07", "40001", isAllowed: true)
        let again = RelayTableFile(place.path("patients"))
        #expect(await again.current(Self.quiet).allows("ward3-07", "40001"))
    }

    /// `relay forbid` said "may no longer write", and the table that the relays read kept the line.
    @Test func aTableIsChangedAndReadThroughALink() async throws {
        let place = try Place()
        try place.write("ward3-07  40001\n", "patients")
        try FileManager.default.createSymbolicLink(
            atPath: place.path("link"), withDestinationPath: "patients")
        let file = RelayTableFile(place.path("link"))
        let began = ContinuousClock.now
        #expect(await file.current(Self.quiet, at: began).allows("ward3-07", "40001"))
        try await RelayTableFile.change(
            place.path("link"), "ward3-07", "40001", isAllowed: false)
        #expect(try String(contentsOfFile: place.path("patients"), encoding: .utf8) == "\n")
        #expect(
            await !file.current(Self.quiet, at: began + .seconds(2)).allows("ward3-07", "40001"),
            "a relay whose table is a link never read it again")
        // Both names have one lock.
        let holder = try await RelayTableLock(of: place.path("patients"))
        await #expect(throws: CommandFailure.self) {
            try await RelayTableFile.change(
                place.path("link"), "ward3-07", "40001", isAllowed: true,
                patience: .milliseconds(30))
        }
        withExtendedLifetime(holder) {}
        #expect(link(place.path("patients"), place.path("second")) == 0)
        await #expect(throws: CommandFailure.self, "the other name would keep the old table") {
            try await RelayTableFile.change(
                place.path("second"), "ward3-07", "40001", isAllowed: true)
        }
    }

    /// A fifo held the command, and its lock, for ever; a device was replaced.
    @Test func whatIsNoTableIsNeitherReadNorReplaced() async throws {
        let place = try Place()
        try #require(mkfifo(place.path("fifo"), 0o600) == 0)
        try place.write("not a pair of words\n", "notes")
        try place.write("ward3-07  40001\n", "patients")
        try place.write("somebody's", "patients.lock")
        let before = try FileManager.default.contentsOfDirectory(atPath: place.directory.path)
        for name in ["fifo", "notes", "patients"] {
            await #expect(throws: CommandFailure.self, "\(name)") {
                try await RelayTableFile.change(
                    place.path(name), "ward3-08", "40002", isAllowed: true)
            }
        }
        #expect(await RelayTableFile(place.path("fifo")).faults().count == 1)
        let after = try FileManager.default.contentsOfDirectory(atPath: place.directory.path)
        #expect(Set(after) == Set(before + ["notes.lock"]))
        #expect(
            try String(contentsOfFile: place.path("patients.lock"), encoding: .utf8)
                == "somebody's")
    }

    @Test func aProcessThatKeepsTheTableForItselfIsNamedWithWhatToDo() async throws {
        let place = try Place()
        let path = place.path("patients")
        try place.write("ward3-07  40001\n", "patients")
        let holder = try await RelayTableLock(of: path)
        func change(_ patience: Duration) async throws {
            try await RelayTableFile.change(
                path, "ward3-08", "40002", isAllowed: true, patience: patience)
        }
        await #expect {
            try await change(.milliseconds(30))
        } throws: { error in
            guard let failure = error as? CommandFailure else { return false }
            return failure.exitCode == .notWell
                && failure.message.contains("process \(getpid()), which does not end")
                && failure.message.contains("fuser \(path).lock")
        }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "ward3-07  40001\n")
        withExtendedLifetime(holder) {}
    }

    @Test func aTableThatIsFreeAgainIsChangedByWhoWaited() async throws {
        let place = try Place()
        let path = place.path("patients")
        let holder = Mutex<RelayTableLock?>(try await RelayTableLock(of: path))
        async let changed: Void = RelayTableFile.change(
            path, "ward3-08", "40002", isAllowed: true)
        holder.withLock { $0 = nil }
        try await changed
        #expect(
            try String(contentsOfFile: path, encoding: .utf8)
                == "# gateway  patient\nward3-08  40002\n")
    }

    /// A file that became readable, or right, without a new time of change was never read again.
    @Test func aTableThatCouldNotBeReadIsTriedAgain() async throws {
        let place = try Place()
        let path = place.path("patients")
        func write(_ text: String) throws {
            let file = try FileHandle(forWritingTo: URL(filePath: path))
            try file.write(contentsOf: Data(text.utf8))
            try file.close()
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: 1_795_000_000)], ofItemAtPath: path)
        }
        try place.write("", "patients")
        try write("ward3-07 40001 x\n")
        let file = RelayTableFile(path)
        let began = ContinuousClock.now
        #expect(await !file.current(Self.quiet, at: began).allows("ward3-07", "40001"))
        try write("ward3-07 40001  \n")
        #expect(
            await file.current(Self.quiet, at: began + .seconds(2)).allows("ward3-07", "40001"))
    }

    @Test func metricsAreWhatPrometheusReads() {
        var facts = RelayFacts()
        facts.stored = 45_000
        facts.isListening = true
        let text = RelayServer.text(facts)
        #expect(text.contains("\nedge_gateway_relay_well 1\n"))
        #expect(text.contains("edge_gateway_relay_answers_total{outcome=\"stored\"} 45000\n"))
        #expect(text.contains("# TYPE edge_gateway_relay_requests_total counter\n"))
    }
}
