import Foundation
import Testing
import Uplink

@testable import EdgeGateway

@Suite struct FleetTests {
    private let noon = Date(timeIntervalSince1970: 1_796_126_400)
    private let token = "0123456789abcdef0123456789abcdef"

    // MARK: What a gateway says

    @Test func aGatewayTellsAFleetNoAddressPatientOrRate() throws {
        var status = StatusReport.sample
        let address = status.sensors[0].address
        status.sensors.append(
            SensorReport(
                id: 2, address: "A0:9E:1A:00:00:02", name: "strap …00:02", link: "seen", bpm: 222,
                stored: 0,
                pending: 0))
        status.health = [
            HealthItem(
                name: "bond-lost", severity: "error", since: noon, sensor: 1,
                message: "Strap is heard", advice: "edge-gateway pair \(address)"),
            HealthItem(
                name: "strap-silent", severity: "error", since: noon, sensor: 2,
                message: "strap …00:02 has sent nothing", advice: "wear it"),
            HealthItem(
                name: "doubled-stream", severity: "warning", since: noon,
                message: "\(address) and strap …00:02", advice: "ask A0:9E:1A:00:00:02"),
        ]
        let live = LiveGatewayReport(status).health
        #expect(live.map(\.advice) == ["edge-gateway pair …00:01", "wear it", "ask …00:02"])
        var report = FleetReport(status, at: noon)
        // By the clock of the sample it may have any digits, the rate's too.
        report.oldestUndeliveredSeconds = 60
        let text = String(decoding: try ReportCoding.encoder().encode(report), as: UTF8.self)
        for hidden in ["A0:9E", "00:01", "00:02", "40001", "222", "bpm"] {
            #expect(!text.contains(hidden), "\(hidden)")
        }
        #expect(report.items.map(\.sensor) == ["Strap", "Strap 2", nil])
        #expect(report.items[0].remedy == "edge-gateway pair STRAP")
        #expect(report.items[1].detail == "Strap 2 has sent nothing")
        #expect(report.items[2].detail == "STRAP and Strap 2")
        #expect(report.sensors == FleetSensors(paired: 2, streaming: 1, silent: ["Strap 2"]))
        #expect(report.backlog.map(\.destination) == ["a\"b\\c\nd", "x\"y"])
    }

    /// "clock-untrusted for 20784 d": the clock of a machine that has just started says 1970.
    @Test func aClockThatIsNotSetMakesNoItemDecadesOld() throws {
        var status = StatusReport.sample
        status.clockTrusted = false
        status.oldestUnsent = Date(timeIntervalSince1970: 5)
        let item = HealthItem(
            name: "clock-untrusted", severity: "error", since: Date(timeIntervalSince1970: 30),
            seconds: 90, message: "m", advice: "a")
        status.health = [item]
        #expect(StatusCommand.lasting(item) == " for 90 s")
        let report = FleetReport(status, at: Date(timeIntervalSince1970: 120))
        #expect(report.time == nil && report.oldestUndeliveredSeconds == nil)
        var memory = FleetMemory()
        let row = memory.note(.report(report), of: FleetSubject(address: "gw"), at: noon)
        #expect(row.since == noon.addingTimeInterval(-90))
        #expect(row.items.map(\.since) == [row.since])
    }

    @Test func aStrapWhoseLinkIsUpAndThatSendsNothingIsSilent() {
        var status = StatusReport.sample
        status.sensors[0].secondsSinceFrame = 11
        #expect(FleetReport(status, at: noon).sensors.silent == ["Strap"])
    }

    @Test func aProgramsTokenOpensItsOneThingAndAShareNone() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "fleet-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        let shares = Shares(stateDirectory: directory)
        let share = try await shares.make(
            sensor: nil, expires: noon.addingTimeInterval(60), at: noon)
        let page = String(token.reversed())
        let metrics = token.uppercased()
        for isOpen in [false, true] {
            let access = PageAccess(
                isOpen: isOpen, operatorToken: page, programs: [.fleet: token, .metrics: metrics],
                shares: shares)
            #expect(await access.opens(.fleet, token: token, at: noon))
            #expect(await !access.opens(.metrics, token: token, at: noon))
            #expect(await access.opens(.metrics, token: metrics, at: noon))
            #expect(await !access.opens(.fleet, token: metrics, at: noon))
            #expect(await access.scope(cookie: metrics, at: noon) == nil)
            #expect(await access.admit(metrics, at: noon) == .refused)
            #expect(await access.scope(cookie: token, at: noon) == nil)
            #expect(await access.admit(token, at: noon) == .refused)
            for program in PageAccess.Program.allCases {
                #expect(await !access.opens(program, token: share.token, at: noon))
                #expect(await access.opens(program, token: page, at: noon))
                #expect(await access.opens(program, token: nil, at: noon) == isOpen)
            }
        }
    }

    @Test func labelsAreThoseThatPrometheusTakes() {
        #expect(GatewayIdentity.labels(" floor=3, owner = a b ") == ["floor": "3", "owner": "a b"])
        #expect(GatewayIdentity.labels("") == [:])
        for wrong in ["floor", "3=floor", "a=1,a=2", "a-b=1", "a=", "a=1,", "a=\u{1B}[2J"] {
            #expect(GatewayIdentity.labels(wrong) == nil, "\(wrong)")
        }
        let many = (0...GatewayIdentity.labelsMax).map { "l\($0)=x" }.joined(separator: ",")
        #expect(GatewayIdentity.labels(many) == nil)
        #expect(GatewayIdentity.isName(GatewayIdentity.hostName()))
    }

    @Test func aNameThatCannotBePrintedIsReportedAndNotUsed() async throws {
        let settings = try SettingsLoader(environment: [
            "EDGE_GATEWAY_GATEWAY_NAME": "ward\u{1B}[2J",
            "EDGE_GATEWAY_GATEWAY_SITE": String(repeating: "x", count: 65),
            "EDGE_GATEWAY_GATEWAY_LABELS": "nonsense",
        ]).load()
        #expect(settings.identity == GatewayIdentity(name: GatewayIdentity.hostName()))
        let named = settings.problems().map(\.setting).filter { $0.hasPrefix("gateway.") }
        #expect(named == ["gateway.name", "gateway.site", "gateway.labels"])
        #expect(settings.problems().allSatisfy { !$0.message.contains("\u{1B}") })
    }

    @Test func aProgramsTokenMustNotBeAnotherOneAndMayStandAlone() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "fleet-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        for name in ["one", "same"] {
            #expect(
                FileManager.default.createFile(
                    atPath: "\(directory)/\(name)", contents: Data(token.utf8),
                    attributes: [.posixPermissions: 0o600]))
        }
        func problems(_ variables: [String: String]) async throws -> [String] {
            var environment = [
                "EDGE_GATEWAY_STATE": directory, "EDGE_GATEWAY_PAGE_LISTEN": "0.0.0.0:8470",
            ]
            environment.merge(variables) { $1 }
            return try SettingsLoader(environment: environment).load().problems()
                .map(\.setting).filter { $0.hasSuffix("token_file") }
        }
        let fleet = ["EDGE_GATEWAY_FLEET_TOKEN_FILE": directory + "/one"]
        #expect(try await problems(fleet).isEmpty)
        let both = fleet.merging(["EDGE_GATEWAY_PAGE_TOKEN_FILE": directory + "/same"]) { $1 }
        #expect(try await problems(both) == ["fleet.token_file"])
        let metrics = fleet.merging(["EDGE_GATEWAY_METRICS_TOKEN_FILE": directory + "/same"]) { $1 }
        #expect(try await problems(metrics) == ["metrics.token_file"])
        let alone = ["EDGE_GATEWAY_METRICS_TOKEN_FILE": directory + "/one"]
        #expect(try await problems(alone).isEmpty)
        let missing = ["EDGE_GATEWAY_FLEET_TOKEN_FILE": directory + "/nothing"]
        #expect(try await problems(missing) == ["fleet.token_file"])

        // The fleet's secret is no token, and needs no page.
        func secretProblem(_ variables: [String: String]) throws -> String? {
            var environment = ["EDGE_GATEWAY_STATE": directory]
            environment.merge(variables) { $1 }
            let settings = try SettingsLoader(environment: environment).load()
            let problem = settings.problems().first { $0.setting == "fleet.secret_file" }
            #expect((settings.strapMarks == nil) == (problem != nil))
            return problem?.message
        }
        let secret = ["EDGE_GATEWAY_FLEET_SECRET_FILE": directory + "/one"]
        #expect(try secretProblem(secret) == nil)
        let nowhere = ["EDGE_GATEWAY_FLEET_SECRET_FILE": directory + "/nothing"]
        #expect(try secretProblem(nowhere)?.contains("is not there") == true)
        let same = secret.merging(["EDGE_GATEWAY_FLEET_TOKEN_FILE": directory + "/same"]) { $1 }
        #expect(try secretProblem(same)?.contains("the token of fleet.token_file") == true)
        try #require(chmod(directory + "/one", 0o644) == 0)
        #expect(try secretProblem(secret)?.contains("readable by every user") == true)
    }

    // MARK: The hosts file

    private func hosts(_ text: String, plain: Bool = false) throws -> [FleetHost] {
        try HostsFile.hosts(
            in: text, path: "hosts.yaml", directory: FileManager.default.temporaryDirectory,
            allowsPlainHTTP: plain)
    }

    @Test func aHostsFileNamesGatewaysTokensAndLabels() throws {
        let file = "token-\(UInt32.random(in: 0 ... .max))"
        let path = FileManager.default.temporaryDirectory.appending(path: file).path
        #expect(
            FileManager.default.createFile(
                atPath: path, contents: Data((token + "\n").utf8),
                attributes: [.posixPermissions: 0o600]))
        defer { try? FileManager.default.removeItem(atPath: path) }
        let read = try hosts(
            """
            token_file: \(file)
            gateways:
              - name: ward3-07
                address: https://ward3-07.example:8470/
                labels: {floor: 3}
              - address: http://127.0.0.1:9007
                token_file: ""
            """)
        #expect(read.count == 2)
        #expect(read[0].origin.description == "https://ward3-07.example:8470")
        #expect(read[0].token?.revealed == token && read[0].labels == ["floor": "3"])
        #expect(read[1].name == nil && read[1].token == nil)
    }

    @Test(arguments: [
        ("gateways:\n  - adress: https://a.example\n", "line 2: unknown key `adress`"),
        ("gateways:\n  - name: x\n", "line 2: `address` is missing"),
        ("gateways:\n  - address: ftp://a.example\n", "line 2: `address` is not an address"),
        ("gateways:\n  - address: https://a.example/live\n", "line 2: `address` is not"),
        ("gateways:\n  - address: http://a.example\n", "line 2: plain http"),
        ("gateways:\n  - address: https://a\n  - address: https://A\n", "line 3: https://a stands"),
        (
            "gateways:\n  - {address: https://a, name: x}\n  - {address: https://b, name: x}\n",
            "line 3: x stands in line 2"
        ),
        ("gateways:\n  - address: [1]\n", "line 2: `address` takes one value"),
        ("gateways:\n  - address: https://a\n    labels: {a-b: 1}\n", "line 3: this is no label"),
        ("gateways:\n  - address: https://a\n    token_file: /nonexistent\n", "line 3: token_file"),
        ("gateways:\n  - address: https://a\n    ca_file: /nonexistent\n", "line 3: ca_file"),
        ("gateways:\n  - nothing\n", "line 2: this is no gateway"),
        ("gateways: []\n", "line 1: it lists 0 gateways"), ("", "`gateways` is missing"),
        ("gateways:\n  - [", "it is not valid YAML"),
        ("gateways:\n  - " + String(repeating: "{a: ", count: 400), "line 2: more than 16 levels"),
    ])
    func aMistakeInTheHostsFileIsReportedWithItsLine(text: String, complaint: String) {
        #expect {
            _ = try hosts(text)
        } throws: {
            let failure = $0 as? CommandFailure
            #expect(failure?.message.contains(complaint) == true, "\(failure?.message ?? "")")
            return failure?.exitCode == .wrongUsage
        }
    }

    /// It stopped at the first one.
    @Test func everyMistakeInTheHostsFileIsListedWithItsLine() throws {
        let failure = try #require(
            throws: CommandFailure.self,
            performing: {
                _ = try hosts(
                    """
                    token_fil: x
                    gateways:
                      - adress: https://a.example
                      - address: http://b.example
                        labels: {a-b: 1, floor: 3}
                        token_file: /nonexistent
                      - address: https://c.example
                      - address: https://c.example
                    """)
            })
        let places = failure.message.matches(of: /hosts.yaml line (\d+): ([^\n]*)/).map(\.output)
        #expect(places.map(\.1) == ["1", "3", "3", "4", "5", "6", "8"], "\(failure.message)")
        #expect(failure.message.contains("unknown key `token_fil`"))
        let many = try #require(
            throws: CommandFailure.self,
            performing: {
                _ = try hosts("gateways:\n" + String(repeating: "  - nothing\n", count: 60))
            })
        #expect(many.message.contains("and 10 more mistakes"))
    }

    @Test func labelsThatAreAllCommentsAreNone() throws {
        let text = "gateways:\n  - address: https://a.example\n    labels:\n#     floor: 3\n"
        #expect(try hosts(text).first?.labels == [:])
    }

    /// Both were "there is no such file, or this user may not read it".
    @Test func anEmptyHostsFileAndADirectoryAreCalledSo() throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "fleet-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try #require(
            FileManager.default.createFile(atPath: directory + "/hosts.yaml", contents: Data()))
        for (name, words) in [
            ("hosts.yaml", "it is empty"), ("", "it is a directory"), ("none", "no such file"),
        ] {
            let failure = #expect(throws: CommandFailure.self) {
                _ = try HostsFile.read("\(directory)/\(name)", allowsPlainHTTP: false)
            }
            #expect(failure?.message.contains(words) == true, "\(failure?.message ?? "")")
        }
    }

    @Test func plainHTTPToAnotherMachineNeedsItsSwitch() throws {
        #expect(try hosts("gateways:\n  - address: http://a.example\n", plain: true).count == 1)
    }

    // MARK: Answers

    private func answer(_ body: String, status: Int = 200) -> FleetAnswer {
        FleetAnswer(.success(HTTPAnswer(status: status, body: Array(body.utf8))))
    }

    private func fault(_ answer: FleetAnswer) -> FleetFault? {
        if case .fault(let fault, _, _) = answer { fault } else { nil }
    }

    private static let well = """
        {"gateway":{"name":"gw","labels":{}},"version":"1","well":true,"items":[],\
        "sensors":{"paired":1,"streaming":1,"silent":[]},"backlog":[]}
        """

    @Test(arguments: [
        "", "null", "[]", "{", "<html>", "\u{0}", "{\"well\":true}",
        well.replacing("\"paired\":1", with: "\"paired\":-1"),
        well.replacing("\"paired\":1", with: "\"paired\":1e99"),
        well.replacing("\"paired\":1", with: "\"paired\":\"1\""),
        well.replacing("\"well\":true", with: "\"well\":1"),
        well.replacing("\"backlog\":[]", with: "\"backlog\":[{}]"),
        well.replacing("\"labels\":{}", with: "\"labels\":[]"),
        well.replacing(
            "\"silent\":[]",
            with: "\"silent\":[" + String(repeating: "\"\",", count: 1_001) + "\"\"]"),
        String(repeating: "[", count: 100_000),
    ])
    func whatIsNoReportIsAFaultOfThatGateway(body: String) {
        #expect(fault(answer(body)) == .unusable, "\(body.prefix(80))")
    }

    @Test func whatAGatewayWritesCannotSteerATerminalOrFillIt() throws {
        let hostile = Self.well.replacing(
            "\"name\":\"gw\"",
            with: "\"name\":\"\\u001b[2J\\u202e" + String(repeating: "a\\u0301", count: 9_000)
                + "\"")
        guard case .report(let report) = answer(hostile) else {
            Issue.record("no report")
            return
        }
        #expect(report.gateway.name.unicodeScalars.count == GatewayIdentity.lengthMax)
        #expect(Printable.line(report.gateway.name) == report.gateway.name)
    }

    @Test func redirectsRefusalsAndSilenceAreToldApart() {
        #expect(fault(answer(Self.well, status: 302)) == .refused)
        #expect(fault(answer(Self.well, status: 401)) == .refused)
        #expect(fault(answer(Self.well, status: 404)) == .refused)
        #expect(fault(answer(Self.well, status: 503)) == .refused)
        #expect(fault(FleetAnswer(.failure(.bodyTooLarge))) == .unusable)
        #expect(fault(FleetAnswer(.failure(.timeout))) == .noAnswer)
        #expect(fault(FleetAnswer(.failure(.connect))) == .noAnswer)
    }

    // MARK: What is remembered

    private func host(_ name: String? = nil, _ text: String = "https://a.example") throws
        -> FleetHost
    {
        FleetHost(name: name, origin: try #require(Origin(text)))
    }

    @Test func aGatewayIsGoneSinceItsLastAnswerOverARestartOfTheCommand() throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "fleet-\(UInt32.random(in: 0 ... .max))").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let file = try #require(FleetMemoryFile.standard(["XDG_STATE_HOME": directory]))
        var memory = file.read()
        let there = memory.note(answer(Self.well), of: try host().subject, at: noon)
        #expect(there.state == .well && there.since == noon && there.name == "gw")
        try file.write(memory)
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions]
        #expect(mode as? Int == 0o600)
        var again = file.read()
        #expect(again == memory)
        let later = noon.addingTimeInterval(7_200)
        let gone = again.note(FleetAnswer(.failure(.connect)), of: try host().subject, at: later)
        #expect(gone.state == .gone && gone.since == noon && gone.lastAnswer == noon)
        #expect(gone.name == "gw" && gone.version == "1" && gone.sensors == nil)
        #expect(gone.items.map(\.name) == ["no-answer"])
        let back = again.note(answer(Self.well), of: try host().subject, at: later)
        #expect(back.state == .well && back.since == later)
    }

    @Test func aGatewayThatNeverAnsweredIsGoneSinceTheFirstQuestion() throws {
        var memory = FleetMemory()
        let silence = FleetAnswer(.failure(.timeout))
        _ = memory.note(silence, of: try host("x").subject, at: noon)
        let row = memory.note(silence, of: try host("x").subject, at: noon.addingTimeInterval(60))
        #expect(row.since == noon && row.lastAnswer == nil && row.name == "x")
    }

    @Test func gatewaysThatNoFileNamesAreForgottenAfterAMonth() throws {
        var memory = FleetMemory()
        _ = memory.note(answer(Self.well), of: try host().subject, at: noon)
        memory.forget(at: noon.addingTimeInterval(FleetMemory.keptTime - 1))
        #expect(memory.entries.count == 1)
        memory.forget(at: noon.addingTimeInterval(FleetMemory.keptTime))
        #expect(memory.entries.isEmpty)
    }

    @Test func aDamagedMemoryIsAnEmptyOne() throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "fleet-\(UInt32.random(in: 0 ... .max))").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let file = try #require(FleetMemoryFile.standard(["XDG_STATE_HOME": directory]))
        try file.write(FleetMemory())
        try "{\"entries\":".write(toFile: file.path, atomically: true, encoding: .utf8)
        #expect(file.read() == FleetMemory())
    }

    /// `--hosts hosts.yaml --state hosts.yaml` put JSON in the place of the hosts file, `--state` any text's, and
    /// `--state /nope/x` made `/nope`.
    @Test func aNamedMemoryTakesThePlaceOfNothingElse() throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "fleet-\(UInt32.random(in: 0 ... .max))").path
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let hosts = "gateways:\n  - address: https://a.example\n"
        try hosts.write(toFile: directory + "/hosts.yaml", atomically: true, encoding: .utf8)
        try "{}".write(toFile: directory + "/other.json", atomically: true, encoding: .utf8)
        try #require(mkfifo(directory + "/fifo", 0o600) == 0)
        for name in ["hosts.yaml", "other.json", "fifo", "", "nope/x"] {
            let failure = #expect(throws: CommandFailure.self, "\(name)") {
                _ = try FleetMemoryFile(named: "\(directory)/\(name)")
            }
            #expect(failure?.exitCode == .wrongUsage)
        }
        #expect(
            try String(contentsOfFile: directory + "/hosts.yaml", encoding: .utf8) == hosts)
        #expect(!FileManager.default.fileExists(atPath: directory + "/nope"))
        try #require(
            FileManager.default.createFile(atPath: directory + "/empty", contents: Data()))
        try FileManager.default.createSymbolicLink(
            atPath: directory + "/link", withDestinationPath: "new")
        for name in ["new", "new", "empty", "link"] {
            let file = try FleetMemoryFile(named: "\(directory)/\(name)")
            var memory = file.read()
            _ = memory.note(answer(Self.well), of: try host().subject, at: noon)
            try file.write(memory)
            #expect(file.read().entries.count == 1)
        }
    }

    // MARK: One strap, two gateways

    private func report(
        _ name: String, _ straps: [(name: String, address: String)], secret: String? = nil
    ) -> FleetReport {
        var status = StatusReport.sample
        status.gateway = GatewayIdentity(name: name)
        (status.well, status.health) = (true, [])
        status.sensors = straps.enumerated().map { index, strap in
            SensorReport(
                id: Int64(index + 1), address: strap.address, name: strap.name, link: "streaming",
                stored: 0, pending: 0)
        }
        return FleetReport(
            status, marks: StrapMarks(secret: Secret(secret ?? token)), at: noon)
    }

    private func screen(
        _ reports: [FleetReport?], _ memory: inout FleetMemory, at now: Date
    ) -> FleetHostsReport {
        let subjects = reports.indices.map { FleetSubject(address: "https://\($0).example") }
        let rows = zip(reports, subjects).map { report, subject in
            memory.note(
                report.map(FleetAnswer.report) ?? FleetAnswer(.failure(.timeout)), of: subject,
                at: now)
        }
        return FleetHostsReport(time: now, rows: rows, of: subjects, &memory)
    }

    @Test func aStrapAtTwoGatewaysIsAnItemOfBothThatNamesTheOther() throws {
        let shared = "A0:9E:1A:00:00:02"
        let one = report("ward3-07", [("Bed 7", shared), ("Bed 8", "A0:9E:1A:00:00:03")])
        let other = report("ward3-09", [("Bed 2", shared.lowercased())])
        var memory = FleetMemory()
        let first = screen([one, other], &memory, at: noon)
        #expect(first.gateways.map(\.name) == ["ward3-07", "ward3-09"] && !first.isWell)
        for (row, words) in zip(
            first.gateways,
            [
                "Bed 7 is also paired with ward3-09 as Bed 2",
                "Bed 2 is also paired with ward3-07 as Bed 7",
            ])
        {
            #expect(row.state == .notWell && row.since == noon)
            #expect(row.items.map(\.name) == ["strap-elsewhere"])
            #expect(row.items.map(\.detail) == [words] && row.items[0].severity == "warning")
        }
        // Since then, over a restart of the command; and not any more when one has forgotten it.
        let kept = try ReportCoding.encoder().encode(memory)
        memory = try ReportCoding.decoder().decode(FleetMemory.self, from: kept)
        let later = noon.addingTimeInterval(600)
        #expect(screen([one, other], &memory, at: later).gateways.allSatisfy { $0.since == noon })
        let forgotten = screen([one, report("ward3-09", [])], &memory, at: later)
        #expect(forgotten.isWell && memory.sharedSince == [:])
        // Nothing is known of the straps of a gateway that is gone.
        let gone = screen([one, nil], &memory, at: later)
        #expect(gone.gateways.map(\.items.count) == [1, 0])
    }

    @Test func aStrapsMarkIsNotItsAddressAndNeedsTheSameSecret() throws {
        let straps = [(name: "Bed 7", address: "A0:9E:1A:00:00:02")]
        let one = report("a", straps)
        let text = String(decoding: try ReportCoding.encoder().encode(one), as: UTF8.self)
        #expect(!text.uppercased().contains("A0:9E") && !text.contains("00:02"))
        #expect(text.contains("\"straps\""))
        var memory = FleetMemory()
        let other = report("b", straps, secret: String(token.reversed()))
        #expect(screen([one, other], &memory, at: noon).isWell)
        let without = FleetReport(StatusReport.sample, at: noon)
        #expect(without.straps == nil)
    }

    @Test func marksThatNoGatewayMakesAreNoReport() throws {
        for mark in ["", "A0:9E:1A:00:00:02", String(repeating: "A", count: 32)] {
            let straps = "\"straps\":[{\"name\":\"x\",\"mark\":\"\(mark)\"}],\"backlog\":[]"
            let body = Self.well.replacing("\"backlog\":[]", with: straps)
            #expect(fault(answer(body)) == .unusable, "\(mark)")
        }
        let mark = String(repeating: "a", count: 32)
        let straps =
            "\"straps\":[{\"name\":\"\\u001b[2J\",\"mark\":\"\(mark)\"}],\"backlog\":[]"
        guard
            case .report(let report) = answer(
                Self.well.replacing("\"backlog\":[]", with: straps))
        else {
            Issue.record("no report")
            return
        }
        let name = try #require(report.straps?.first?.name)
        #expect(Printable.line(name) == name)
    }

    // MARK: The screen

    private func row(
        _ name: String, _ state: FleetGateway.State, _ severity: String = "error"
    ) -> FleetGateway {
        FleetGateway(
            name: name, site: "病棟三階の東側にある長い名前", labels: [:], version: "0.1.0", state: state,
            since: noon.addingTimeInterval(-7_200),
            items: state == .well
                ? []
                : [
                    FleetItem(
                        name: "strap-silent", severity: severity, since: noon,
                        detail: "Bed 7 has sent nothing for 12 min",
                        remedy: "wear it, moisten the electrodes, end its connection to phones")
                ],
            sensors: state == .gone
                ? nil : FleetSensors(paired: 2, streaming: 1, silent: ["Bed 7\u{1B}[31m"]),
            backlog: [FleetBacklog(destination: "e1", kind: "exchange", samples: 40)],
            lastAnswer: noon)
    }

    @Test func whoNeedsAPersonIsFirstAndARowStaysWhereItWas() {
        let report = FleetHostsReport(
            time: noon,
            gateways: [
                row("w10", .well), row("w2", .well), row("n", .notWell, "warning"),
                row("z", .notWell), row("y", .gone),
            ])
        #expect(report.gateways.map(\.name) == ["y", "z", "n", "w2", "w10"])
        #expect(!report.isWell)
        #expect(FleetHostsReport(time: noon, gateways: [row("a", .well)]).isWell)
    }

    @Test(arguments: [40, 80, 200])
    func theScreenFitsItsColumnsWhateverTheNamesAre(columns: Int) {
        let names = [
            "a gateway with a name that is longer than any column has room for", "東京病院ゲートウェイ七号機",
            "👩‍⚕️👩‍⚕️👩‍⚕️👩‍⚕️👩‍⚕️", "\u{1B}]0;x\u{7}", "",
        ]
        let lines = FleetTable(columns: columns).lines(
            FleetHostsReport(
                time: noon, gateways: names.map { row($0, .notWell) } + [row("gone", .gone)]))
        for line in lines {
            #expect(DisplayWidth.of(line) <= columns, "\(line)")
            #expect(Printable.line(line) == line)
        }
        #expect(lines.contains { $0.contains("silent: Bed 7") })
        #expect(lines.contains { $0.contains("waiting: e1 40") })
        #expect(lines.contains { $0.contains("GONE") && $0.contains("2 h") })
        // One line for condition and remedy where there is room, two where there is not.
        #expect(
            lines.contains { $0.contains("strap-silent") && $0.contains("moisten") }
                == (columns == 200))
    }

    @Test func widthsAreThoseOfATerminal() {
        for (text, width) in [
            ("", 0), ("abc", 3), ("é", 1), ("e\u{301}", 1), ("東京", 4), ("한", 2), ("ｱ", 1), ("😀", 2),
            ("❤\u{FE0F}", 2), ("…", 1),
        ] {
            #expect(DisplayWidth.of(text) == width, "\(text)")
        }
        #expect(DisplayWidth.cut("東京都", to: 5) == "東京…")
        #expect(DisplayWidth.cut("東京都", to: 6) == "東京都")
        #expect(DisplayWidth.fit("東", to: 4) == "東  ")
        #expect(DisplayWidth.cut("abc", to: 0) == "")
        #expect(DisplayWidth.terminal(["COLUMNS": "100"]).columns == 100)
        #expect(DisplayWidth.terminal(["COLUMNS": "1"]).columns == 40)
        #expect(DisplayWidth.terminal(["COLUMNS": "-9223372036854775808"]).columns == 40)
    }
}
