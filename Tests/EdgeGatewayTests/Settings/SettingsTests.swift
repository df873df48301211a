import Foundation
import Logging
import OfflineQueue
import Testbed
import Testing

@testable import EdgeGateway

@Suite struct SettingsTests {
    @Test func standsOnDefaultsWhenThereIsNoFile() async throws {
        let settings = try SettingsLoader(environment: [:]).load()
        #expect(settings.commitInterval == .seconds(5))
        #expect(settings.commitSamples == 500)
        #expect(settings.clockTrust == .kernel)
        #expect(!settings.allowPlainHTTP)
    }

    @Test func readsNestedAndDottedKeys() async throws {
        let settings = try await load("clock:\n  trust: always\nuplink:\n  interval_seconds: 7\n")
        #expect(settings.clockTrust == .always)
        #expect(settings.deliveryInterval == .seconds(7))
    }

    /// `Meyer, Anna` was two names.
    @Test func anOrderOfPlacesTakesNamesWithCommasAsAList() async throws {
        struct Strap: Identifiable {
            var id: Int64
            var name: String
        }
        let straps = [Strap(id: 1, name: "Bed 2"), Strap(id: 2, name: "Meyer, Anna")]
        func places(_ text: String) async throws -> [Int64] {
            try await load(text).pageOrder.sorted(straps, by: \.name).map(\.id)
        }
        #expect(try await places("page:\n  order:\n    - Meyer, Anna\n    - Bed 2\n") == [2, 1])
        #expect(try await places("page:\n  order: [\"Meyer, Anna\", Bed 2]\n") == [2, 1])
        #expect(try await places("page:\n  order: Bed 9, Bed 2\n") == [1, 2])
        #expect(try await places("page:\n  order:\n") == [1, 2])
        let settings = try await load("page:\n  order: [\"Meyer, Anna\", Bed 2]\n")
        let shown = settings.listing.first { $0.key.name == "page.order" }?.value.description
        #expect(shown == "[\"Meyer, Anna\", \"Bed 2\"]")
        await #expect(throws: SettingsFault.self) {
            _ = try await load("page:\n  order:\n    - [a]\n")
        }
        await #expect(throws: SettingsFault.self) { _ = try await load("state: [/a]\n") }
    }

    @Test func environmentOverridesTheFile() async throws {
        let settings = try await load(
            "storage:\n  commit_seconds: 9\nstate: /a\n",
            environment: [
                "EDGE_GATEWAY_STORAGE_COMMIT_SECONDS": "3", "EDGE_GATEWAY_STATE": "/b",
            ])
        #expect(settings.commitInterval == .seconds(3))
        #expect(settings.stateDirectory == "/b")
    }

    @Test func framesGatherOnlyForACommitThatWaitsForThem() async throws {
        let settings = try SettingsLoader(environment: [:]).load()
        #expect(settings.frameAgeMax == .seconds(5))
        let soon = try await load("storage:\n  commit_seconds: 2\n")
        #expect(soon.frameAgeMax == .seconds(2))
        let eachSample = try await load("storage:\n  commit_samples: 1\n")
        #expect(eachSample.frameAgeMax == .zero)
    }

    @Test(arguments: [
        (
            "clock:\n  trsut: always\n",
            "line 2: unknown key `clock.trsut`; did you mean `clock.trust`?"
        ),
        ("sate: /x\n", "unknown key `sate`; did you mean `state`?"),
        ("weather: fine\n", "unknown key `weather`; `edge-gateway config show` lists the keys"),
        ("storage:\n  commit_seconds: soon\n", "`storage.commit_seconds`"),
        ("storage:\n  commit_seconds: 0\n", "expected a whole number from 1 to 60"),
        // They were read as 8, 90 and 16.
        (
            "uplink:\n  interval_seconds: 0010\n",
            "is 0010, which YAML may read as another number; write 10"
        ),
        ("uplink:\n  interval_seconds: 1:30\n", "`uplink.interval_seconds`"),
        ("uplink:\n  interval_seconds: 0x10\n", "`uplink.interval_seconds`"),
        ("clock:\n  trust: maybe\n", "expected one of kernel, always"),
        // It delivered what is withheld without the key.
        ("uplink:\n  withhold:\n", "expected none, or some of"),
        ("uplink:\n  allow_plain_http: perhaps\n", "true or false"),
        ("state: [a, b]\n", "`state` takes one value"),
        ("- a\n- b\n", "expected `key: value` lines"),
        ("state: \"unclosed\nlog: {", "parse configuration"),
        ("state: /a\nstorage: 5\n", "line 2: `storage` is a section"),
        // It had no line, and "Context:;" in its place.
        ("state: /a\nlog:\n  level: info\nlog:\n", "line 2: the key `log` stands here, and once"),
        ("clock:\n  trust: always\n  trust: kernel\n", "line 2: the key `trust` stands here"),
        (String(repeating: "{a: ", count: 400), "line 1: more than 16 levels"),
    ])
    func saysWhatIsWrongAndWhatToDo(yaml: String, says: String) async throws {
        let fault = await #expect(throws: SettingsFault.self) { _ = try await load(yaml) }
        let text = fault?.description ?? ""
        #expect(text.contains(says), "\(text)")
        #expect(!text.contains("\n"), "one line: \(text)")
    }

    /// `config check` stopped at the first.
    @Test func everythingThatIsWrongIsListed() async throws {
        let yaml = """
            sate: /x
            clock:
              trust: maybe
              latest_year: [1]
            storage: 5
            uplink:
              interval_seconds: soon
            """
        let fault = await #expect(throws: SettingsFault.self) {
            _ = try await load(yaml, environment: ["EDGE_GATEWAY_LOG_LEVLE": "info"])
        }
        let lines = (fault?.description ?? "").split(separator: "\n")
        #expect(lines.count == 6, "\(lines)")
        for word in [
            "EDGE_GATEWAY_LOG_LEVLE", "`sate`", "`clock.trust`", "`clock.latest_year` takes",
            "`storage` is a section", "`uplink.interval_seconds`",
        ] {
            #expect(lines.contains { $0.contains(word) }, "\(word): \(lines)")
        }
    }

    @Test func anUnknownVariableIsAnErrorToo() async throws {
        let fault = #expect(throws: SettingsFault.self) {
            _ = try SettingsLoader(environment: ["EDGE_GATEWAY_CLOCK_TRUTS": "always"]).load()
        }
        #expect(fault?.description.contains("did you mean `EDGE_GATEWAY_CLOCK_TRUST`?") == true)
        // It was taken for `EDGE_GATEWAY_STATE`.
        let other = #expect(throws: SettingsFault.self) {
            _ = try SettingsLoader(environment: ["EDGE_GATEWAY_FOO": "1"]).load()
        }
        #expect(other?.description.hasSuffix("`edge-gateway config show` lists the keys") == true)
    }

    @Test func aMissingNamedFileIsAnErrorButAMissingStandardFileIsNot() async throws {
        let fault = #expect(throws: SettingsFault.self) {
            _ = try SettingsLoader(environment: [:]).load(path: "/nonexistent/config.yaml")
        }
        #expect(fault?.description.contains("no such file") == true)
    }

    /// "unknown key `log`" kept the daemon from starting.
    @Test(arguments: ["log:\n#  level: debug\n", "log: ~\n", "log: null\n", "log: {}\n", "~\n"])
    func aSectionWithoutKeysIsEmpty(yaml: String) async throws {
        #expect(try await load(yaml).logLevel == .info)
    }

    @Test func aRelativeDirectoryOfTheStoreStopsTheDaemonAndNoOtherPathDoes() async throws {
        for (yaml, stops) in [
            ("state: state\n", ["state"]), ("state:\n", ["state"]), ("socket: \"\"\n", []),
            ("socket: control.sock\n", []), ("uplink:\n  ca_file: ca.pem\n", []),
        ] {
            let problems = try await load(yaml).problems()
            #expect(problems.filter(\.stopsDaemon).map(\.setting) == stops, "\(yaml)")
            #expect(problems.contains { $0.message.contains("must begin with /") }, "\(yaml)")
        }
    }

    @Test func aTokenThatOpensNothingIsSaid() async throws {
        for key in ["page", "fleet", "metrics"] {
            let settings = try await load("\(key):\n  token_file: /nonexistent\n")
            let problem = settings.problems().first { $0.setting == "\(key).token_file" }
            #expect(problem?.message.contains("page.listen") == true, "\(key)")
            #expect(problem?.stopsDaemon == false)
        }
    }

    @Test func anEmptyFileMeansDefaults() async throws {
        #expect(try await load("# nothing\n").commitInterval == .seconds(5))
        #expect(try await load("").commitInterval == .seconds(5))
    }

    @Test func theShippedConfigurationIsWell() async throws {
        let path = repositoryRoot.appending(path: "deploy/config.yaml").path
        let shipped = try SettingsLoader(environment: [:]).load(path: path)
        let defaults = try SettingsLoader(environment: [:]).load()
        #expect(shipped.listing.map(\.value) == defaults.listing.map(\.value))
    }

    @Test(arguments: [
        ("http://proxy.example:3128", "http://proxy.example:3128"),
        ("http://user:pa@ss@proxy.example:3128/", "http://***@proxy.example:3128/"),
        ("socks5h://u:hush@[::1]:1080", "socks5h://***@[::1]:1080"),
    ])
    func aProxysPasswordIsInNoListing(proxy: String, shown: String) async throws {
        let settings = try await load("uplink:\n  proxy: \"\(proxy)\"\n")
        #expect(settings.proxy == proxy)
        #expect(settings.problems().isEmpty)
        let listed = settings.listing.first { $0.key.name == "uplink.proxy" }
        #expect(listed?.value.description == shown)
    }

    @Test func whatIsNoProxyIsSaidWithoutQuotingIt() async throws {
        for proxy in ["proxy.example:3128", "ftp://u:hush@proxy.example", "http://u:hush@"] {
            let settings = try await load("uplink:\n  proxy: \"\(proxy)\"\n")
            let problem = settings.problems().first(where: \.stopsDaemon)
            #expect(problem?.message.contains("uplink.proxy") == true)
            #expect(problem?.message.contains("hush") == false)
        }
    }

    @Test func aClientKeyIsNotForEverybodyAndNotWithoutItsCertificate() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
        try "-----BEGIN CERTIFICATE-----\n".write(toFile: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: file) }
        let both = "uplink:\n  client_certificate_file: \(file)\n  client_key_file: \(file)\n"
        for (yaml, mode, says) in [
            (both, 0o644, "every user may read"), (both, 0o640, nil), (both, 0o600, nil),
            ("uplink:\n  client_key_file: \(file)\n", 0o600, "without"),
        ] as [(String, Int, String?)] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file)
            let settings = try await load(yaml)
            let problem = settings.problems().first(where: \.stopsDaemon)
            if let says {
                #expect(problem?.message.contains(says) == true, "\(yaml)")
            } else {
                #expect(problem == nil, "\(problem?.message ?? "")")
                #expect(settings.clientKeyFile == file)
            }
        }
    }

    /// A file that an update or a full disk took away stopped the recording at the next start.
    @Test(
        arguments: [
            "ca_file: /nonexistent", "client_certificate_file: /tmp",
            "client_certificate_file: /nonexistent\n  client_key_file: /nonexistent",
        ])
    func aCertificateThatIsNotThereIsSaidAndStopsNoStart(setting: String) async throws {
        let problems = try await load("uplink:\n  \(setting)\n").problems()
        #expect(problems.contains { $0.message.contains("is not there") })
        #expect(problems.allSatisfy { !$0.stopsDaemon })
    }

    /// `config check` used to say that all of these are well, and `run` refused them.
    @Test(
        .serialized,
        arguments: [
            ("state:\n", "state"), ("state: state\n", "state"), ("socket: \"\"\n", "socket"),
            ("socket: control.sock\n", "socket"),
            ("radio:\n  reset_socket: reset.sock\n", "radio.reset_socket"),
            ("state: /dev/null/state\n", "state"), ("state: /dev/null\n", "state"),
            ("socket: /nonexistent/control.sock\n", "socket"), ("socket: /tmp\n", "socket"),
            ("socket: /tmp/\(String(repeating: "x", count: 120))\n", "socket"),
            ("control:\n  change_group: no-such-group\n", "control.change_group"),
            ("page:\n  listen: localhost:8470\n", "page.listen"),
            ("page:\n  listen: \"8470\"\n", "page.listen"),
            ("page:\n  listen: ward.example:8470\n", "page.listen"),
            ("page:\n  listen: 0.0.0.0:8470\n", "page.token_file"),
            ("page:\n  listen: 127.0.0.1:8470\n  token_file: /nonexistent\n", "page.token_file"),
            ("page:\n  listen: 127.0.0.1:8470\n  token_file: /etc/passwd\n", "page.token_file"),
            ("page:\n  url: ward.example\n", "page.url"),
            ("page:\n  url: https://ward.example/#x\n", "page.url"),
            ("uplink:\n  proxy: proxy.example\n", "uplink.proxy"),
            ("uplink:\n  ca_file: /nonexistent\n", "uplink.ca_file"),
            ("uplink:\n  ca_file: /etc/passwd\n", "uplink.ca_file"),
            ("uplink:\n  client_certificate_file: /dev/null\n", "uplink.client_certificate_file"),
            ("uplink:\n  identifier_system: my gateway\n", "uplink.identifier_system"),
            ("clock:\n  trust: maybe\n", "clock.trust"), ("a: [\n", "parse configuration"),
            ("nonsense: 1\n", "unknown key"),
        ])
    func theCheckRefusesWhatCannotBeUsedAndNamesTheSetting(
        yaml: String, setting: String
    ) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "check-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let path = directory.appending(path: "config.yaml").path
        // What the table's line does not say is well; a key must not be there twice.
        var text = yaml
        if !yaml.contains("state:") { text += "state: \(directory.path)/state\n" }
        if !yaml.contains("socket:") { text += "socket: \(directory.path)/control.sock\n" }
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        let outcome = try await Command.run(
            GatewayProcess.program("edge-gateway").path, ["config", "check", "--config", path])
        #expect(outcome.status == 1, "\(outcome.output)")
        #expect(outcome.complaint.contains(setting), "\(outcome.complaint)")
        #expect(outcome.complaint.split(separator: "\n").count == 1, "\(outcome.complaint)")
    }

    @Test func settingsThatCanBeUsedAreWell() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "check-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let token = directory + "/token"
        try String(repeating: "t", count: 40).write(
            toFile: token, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: token)
        let settings = try await load(
            """
            state: \(directory)/new/state
            socket: \(directory)/control.sock
            control:
              change_group: root
            page:
              listen: 0.0.0.0:8470
              token_file: \(token)
              url: https://ward.example/heart
            uplink:
              proxy: http://proxy.example:3128
              identifier_system: https://ward.example/samples
            """)
        #expect(settings.problems() == [])
    }

    @Test func hostileFilesNeverTrap() async throws {
        var random = SystemRandomNumberGenerator()
        let alphabet = Array("abc:-[]{}#&*!|>'\"%@`,?\n \t0~\\")
        for _ in 0..<300 {
            let length = Int.random(in: 0..<120, using: &random)
            let text = String(
                (0..<length).map { _ in alphabet.randomElement(using: &random) ?? "a" })
            _ = try? await load(text)
        }
    }

    private func load(_ yaml: String, environment: [String: String] = [:]) async throws -> Settings
    {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "settings-\(UUID().uuidString).yaml").path
        try yaml.write(toFile: path, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try SettingsLoader(environment: environment).load(path: path)
    }
}
