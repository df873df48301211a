import Foundation
import Health
import OfflineQueue
import Testing
import Uplink

@testable import EdgeGateway

/// The folders of docs/develop/architecture.md: who may know whom, held by reading the sources.
@Suite struct SourceRulesTests {
    private static let ours: Set<String> = [
        "Basics", "GATTHeartRate", "CLoad", "CDBus", "CBlueZ", "BlueZ", "OfflineQueue", "Recording",
        "CCurl", "CMosquitto", "CNATS", "COpenSSL", "Uplink", "CQREncode", "EdgeGateway", "Health",
        "CGlibc", "CSQLite", "Testbed", "GatewayDemo",
    ]

    @Test(
        arguments: [
            ("Basics", ["CGlibc"]), ("GATTHeartRate", []), ("BlueZ", ["Basics", "CBlueZ"]),
            ("OfflineQueue", ["Basics", "CGlibc", "CSQLite", "GATTHeartRate"]),
            ("Recording", ["Basics", "BlueZ", "GATTHeartRate", "OfflineQueue"]),
            ("Health", ["Basics", "BlueZ", "OfflineQueue", "Recording"]),
            (
                "Uplink",
                [
                    "Basics", "OfflineQueue", "GATTHeartRate", "CCurl", "CMosquitto", "CNATS",
                    "COpenSSL",
                ]
            ),
            (
                "EdgeGateway",
                [
                    "Basics", "BlueZ", "CQREncode", "GATTHeartRate", "Health", "OfflineQueue",
                    "Recording", "Uplink",
                ]
            ),
            ("Testbed", ["Basics", "BlueZ", "CGlibc", "GATTHeartRate"]),
            ("GatewayDemo", ["GATTHeartRate", "Testbed"]),
        ] as [(String, Set<String>)])
    func aTargetKnowsOnlyItsNeighbours(target: String, neighbours: Set<String>) throws {
        for file in try swiftFiles(in: "Sources/\(target)") {
            for module in try imports(of: file) where Self.ours.contains(module) {
                #expect(neighbours.contains(module), "\(file.lastPathComponent) imports \(module)")
            }
        }
    }

    /// Simulated time can then stand in for it.
    @Test func theProductSleepsByItsClockAlone() throws {
        for target in [
            "BlueZ", "OfflineQueue", "Recording", "Health", "Uplink", "EdgeGateway", "Basics",
        ] {
            for file in try swiftFiles(in: "Sources/\(target)")
            where file.lastPathComponent != "UptimeClock.swift" {
                let text = try String(contentsOf: file, encoding: .utf8)
                #expect(!text.contains("Task.sleep"), "\(file.lastPathComponent)")
            }
        }
    }

    @Test func theProductUsesPublicInterfacesAlone() throws {
        let files = try swiftFiles(in: "Sources")
        for file in files {
            let text = try String(contentsOf: file, encoding: .utf8)
            for word in ["@_spi", "unsafeBitCast"] {
                #expect(!text.contains(word), "\(file.lastPathComponent): \(word)")
            }
        }
    }

    @Test func theFrameDecoderImportsNothing() throws {
        for file in try swiftFiles(in: "Sources/GATTHeartRate") {
            #expect(try imports(of: file).isEmpty, "\(file.lastPathComponent)")
        }
    }

    @Test func onlyTheDaemonKnowsRadioQueueAndUplinkTogether() throws {
        for file in try swiftFiles(in: "Sources/EdgeGateway")
        where !file.path.contains("/Daemon/") {
            let known = Set(try imports(of: file))
            #expect(!known.isSuperset(of: ["BlueZ", "Uplink"]), "\(file.lastPathComponent)")
        }
    }

    /// What a person asks for is done by a service, and the simulation calls it as the control API does.
    @Test func noServiceKnowsAServerOrACommandLine() throws {
        let services = try swiftFiles(in: "Sources/EdgeGateway").filter {
            $0.lastPathComponent.hasSuffix("Service.swift")
        }
        #expect(services.count > 10)
        for file in services {
            let known = try imports(of: file).filter {
                $0 == "ArgumentParser" || $0.hasPrefix("Hummingbird") || $0.hasPrefix("NIO")
            }
            #expect(known == [], "\(file.lastPathComponent)")
        }
    }

    // MARK: - How many files a frequent change touches

    /// A row of "Where to change what" names few files, and all of them exist.
    @Test(
        arguments: [
            ("a health item", 2), ("a command that shows data", 4), ("a metric", 2),
            ("a value on the live page", 2), ("a gap cause", 2), ("a column of the store", 3),
            ("a kind of destination", 3), ("a reason to hold", 2),
        ])
    func whatIsAddedOftenTakesFewFiles(task: String, most: Int) throws {
        let text = try read("docs/develop/architecture.md")
        let row = try #require(
            text.split(separator: "\n").first { $0.hasPrefix("| \(task) |") })
        let named = row.matches(of: /\*\*`([^`]+)`\*\*/).map { String($0.output.1) }
        #expect((1...most).contains(named.count), "\(named)")
        let files =
            try (swiftFiles(in: "Sources") + swiftFiles(in: "Tests/Conformance")).map { $0.path }
            + ["docs/operate/operations.md", "Sources/EdgeGateway/Live/Page/card.js"]
        for name in named {
            let pattern = try Regex(
                name.split(separator: "…", omittingEmptySubsequences: false)
                    .map { NSRegularExpression.escapedPattern(for: String($0)) }
                    .joined(separator: "[^/]*") + "$")
            #expect(files.contains { $0.contains(pattern) }, "\(name)")
        }
    }

    /// A health item is in its table and in one file of rules.
    @Test(arguments: HealthName.allCases)
    func aHealthItemIsInTwoFiles(name: HealthName) {
        let rules = Source.all.filter {
            $0.name.hasPrefix("HealthRules") && $0.cases.contains("\(name)")
        }
        // A delivery that does not run is a part that has stopped, too.
        #expect(rules.count == (name == .serviceStopped ? 2 : 1), "\(rules.map(\.name))")
        let others = Source.all.filter { $0.members.contains("HealthName.\(name)") }
        #expect(others.isEmpty, "\(others.map(\.name))")
    }

    /// What explains a silence of the radio is in the table of causes and where it is noted.
    @Test(
        arguments: [
            GapCause.noContact, .outOfRange, .connecting, .linkLost, .adapterDown, .adapterFull,
            .daemonGone,
        ])
    func aGapCauseIsInTwoFiles(cause: GapCause) {
        let naming = Source.all.filter {
            ["OfflineQueue", "Recording"].contains($0.target) && $0.cases.contains("\(cause)")
        }
        #expect(Set(naming.map(\.name)) == ["GapCause.swift", "SilenceCause.swift"])
    }

    /// Reasons that one kind of destination has are in the table of reasons and in that kind.
    @Test(
        arguments: [
            (HoldReason.tooOld, "InfluxKind.swift"), (.pairingLost, "CloudCareKind.swift"),
        ])
    func aReasonToHoldIsInTwoFiles(reason: HoldReason, kind: String) {
        let naming = Source.all.filter { $0.cases.contains("\(reason)") }
        #expect(Set(naming.map(\.name)) == ["HoldReason.swift", kind])
    }

    /// No other file goes through all the cases of a table: it would have to change with each of them.
    @Test func aTableIsTheOnlyFileWithAllItsCases() {
        let tables = [
            ("HealthName.swift", HealthName.allCases.map { "\($0)" }),
            ("GapCause.swift", GapCause.allCases.map { "\($0)" }),
            ("HoldReason.swift", HoldReason.allCases.map { "\($0)" }),
            ("ProblemCode.swift", ProblemCode.allCases.map { "\($0)" }),
        ]
        for (table, cases) in tables {
            let complete = Source.all.filter { $0.cases.isSuperset(of: cases) }.map(\.name)
            #expect(complete == [table])
        }
    }

    /// A kind of destination is a folder and a line in the registry. (A file is looked for by
    /// ``DestinationService``: two deliveries may not have the same one.)
    @Test func aKindOfDestinationIsAFolderAndALine() {
        for kind in DestinationRegistry.kinds where kind != FileKind.self {
            let naming = Source.all.filter { $0.words.contains("\(kind)") }
            let folder = naming.first { $0.name == "\(kind).swift" }?.folder
            let elsewhere = naming.filter { $0.folder != folder }.map(\.name)
            #expect(folder != nil && elsewhere == ["DestinationRegistry.swift"], "\(kind)")
        }
    }

    /// A column of `sample` is in the list of columns and where a row is bound; the rest goes by the list.
    @Test func aColumnOfSamplesIsInTheListAndItsUse() {
        let columns: Set = ["wall", "flags", "crc", "frame"]
        let naming = Source.all.filter {
            $0.words.contains("SampleColumn")
                && (!$0.cases.isDisjoint(with: columns)
                    || !$0.members.isDisjoint(with: columns.map { "SampleColumn.\($0)" }))
        }
        #expect(Set(naming.map(\.name)) == ["SampleInsertion.swift", "SampleRow.swift"])
    }

    /// A command is in its folder and in one list of commands; its routes are in one list of routes.
    @Test func aCommandIsAFolderAndALine() {
        let sources = Source.all.filter { $0.target == "EdgeGateway" }
        var found = 0
        for source in sources {
            for type in source.structs where type != "EdgeGatewayCommand" {
                let lists: Set<String>
                if type.hasSuffix("Command") {
                    lists = Set(sources.filter { $0.members.contains(type + ".self") }.map(\.name))
                } else if type.hasSuffix("Routes") {
                    lists = Set(sources.filter { $0.calls.contains(type) }.map(\.name))
                } else {
                    continue
                }
                found += 1
                let outside = lists.filter { list in
                    !sources.contains { $0.name == list && $0.folder == source.folder }
                }
                #expect(
                    !lists.isEmpty
                        && outside.isSubset(of: [
                            "EdgeGatewayCommand.swift", "ControlServer.swift", "PageServer.swift",
                        ]), "\(type): \(lists)")
            }
        }
        #expect(found > 30)
    }

    /// A metric is a line of `Metrics.swift` and its name in docs/operate/operations.md.
    @Test func everyMetricIsInOperations() throws {
        let documents = try read("docs/operate/operations.md")
        let metrics = try read("Sources/EdgeGateway/Health/Metrics.swift")
        let names = metrics.matches(of: /"([a-z_]+)",\s+\.(?:counter|gauge)/).map(\.output.1)
        #expect(names.count > 25)
        for name in names {
            let isNamed = documents.contains("`\(name)`") || documents.contains("`\(name){")
            #expect(isNamed, "\(name)")
        }
    }

    @Test(arguments: ["docs/develop/conformance.md", "docs/develop/testing.md"])
    func everyTestThatIsNamedInTheDocumentsExists(document: String) throws {
        let text = try read(document)
        let files = try FileManager.default
            .subpathsOfDirectory(atPath: repositoryRoot.appending(path: "Tests").path)
        // FrameDecodingTests.wellFormed, tests_link.link_loss
        let named = text.matches(of: #/`([A-Z]\w*Tests|tests_\w+)\.(\w+)`/#)
        #expect(!named.isEmpty)
        for name in named {
            let isSwift = name.1.hasSuffix("Tests")
            let suffix = "/\(name.1)" + (isSwift ? ".swift" : ".py")
            guard let file = files.first(where: { $0.hasSuffix(suffix) }) else {
                Issue.record("\(document): no file of \(name.0)")
                continue
            }
            let source = try String(
                contentsOf: repositoryRoot.appending(path: "Tests/\(file)"), encoding: .utf8)
            let declaration = "\(isSwift ? "func" : "def") \(name.2)("
            #expect(source.contains(declaration), "\(document): \(name.0)")
        }
    }

    private func swiftFiles(in folder: String) throws -> [URL] {
        let folder = repositoryRoot.appending(path: folder)
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        let files = names.filter { $0.hasSuffix(".swift") }.map { folder.appending(path: $0) }
        try #require(!files.isEmpty)
        return files
    }

    private func read(_ path: String) throws -> String {
        try String(contentsOf: repositoryRoot.appending(path: path), encoding: .utf8)
    }

    private func imports(of file: URL) throws -> [String] {
        try String(contentsOf: file, encoding: .utf8).split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard let index = words.firstIndex(of: "import"), index <= 2, words.count > index + 1,
                !line.hasPrefix("//"), !line.hasPrefix(" ")
            else { return nil }
            return String(words[index + 1])
        }
    }
}

/// A file of `Sources`, without its comments.
private struct Source: Sendable {
    /// The file, its folder, and the target it belongs to.
    let name, folder, target: String
    /// Every identifier in it.
    let words: Set<String>
    /// The identifiers behind a dot that is behind no value: `.name`, as a case is written.
    let cases: Set<String>
    /// `Type.member`, wherever one follows an identifier.
    let members: Set<String>
    /// The structures it declares, and the identifiers before a parenthesis.
    let structs, calls: Set<String>

    static let all: [Source] = {
        let root = repositoryRoot.appending(path: "Sources")
        let paths = (try? FileManager.default.subpathsOfDirectory(atPath: root.path)) ?? []
        return paths.sorted().filter { $0.hasSuffix(".swift") }.compactMap { path in
            (try? String(contentsOf: root.appending(path: path), encoding: .utf8)).map {
                Source(path, $0)
            }
        }
    }()

    private init(_ path: String, _ text: String) {
        let parts = path.split(separator: "/").map(String.init)
        name = parts[parts.count - 1]
        folder = parts.dropLast().joined(separator: "/")
        target = parts[0]
        func isWord(_ byte: UInt8) -> Bool {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        let bytes = Array(text.utf8)
        var words: Set<String> = []
        var cases: Set<String> = []
        var members: Set<String> = []
        var structs: Set<String> = []
        var calls: Set<String> = []
        var last = ""
        var index = 0
        while index < bytes.count {
            let isComment =
                bytes[index] == UInt8(ascii: "/") && index + 1 < bytes.count
                && bytes[index + 1] == UInt8(ascii: "/")
            if isComment {
                while index < bytes.count, bytes[index] != UInt8(ascii: "\n") { index += 1 }
            }
            guard index < bytes.count, isWord(bytes[index]) else {
                index += 1
                continue
            }
            let begin = index
            while index < bytes.count, isWord(bytes[index]) { index += 1 }
            let word = String(decoding: bytes[begin..<index], as: UTF8.self)
            words.insert(word)
            if last == "struct" { structs.insert(word) }
            if index < bytes.count, bytes[index] == UInt8(ascii: "(") { calls.insert(word) }
            if begin > 1, bytes[begin - 1] == UInt8(ascii: ".") {
                let before = bytes[begin - 2]
                if isWord(before) {
                    members.insert("\(last).\(word)")
                } else if ![UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "?")]
                    .contains(before)
                {
                    cases.insert(word)
                }
            }
            last = word
        }
        self.words = words
        self.cases = cases
        self.members = members
        self.structs = structs
        self.calls = calls
    }
}
