import Foundation
import Testing

/// The folders of docs/architecture.md: who may know whom, held by reading the sources.
@Suite struct SourceRulesTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private static let ours: Set<String> = [
        "Basics", "GATTHeartRate", "CDBus", "CBlueZ", "BlueZ", "OfflineQueue", "Recording",
        "CCrypto", "CCurl", "CMosquitto", "Uplink", "CQREncode", "EdgeGateway", "Health",
        "CSpawn", "Testbed", "GatewayDemo",
    ]

    @Test(
        arguments: [
            ("Basics", []), ("GATTHeartRate", []), ("BlueZ", ["Basics", "CBlueZ"]),
            ("OfflineQueue", ["Basics", "GATTHeartRate"]),
            ("Recording", ["Basics", "BlueZ", "GATTHeartRate", "OfflineQueue"]),
            ("Health", ["Basics", "BlueZ", "OfflineQueue", "Recording"]),
            (
                "Uplink",
                ["Basics", "OfflineQueue", "GATTHeartRate", "CCrypto", "CCurl", "CMosquitto"]
            ),
            (
                "EdgeGateway",
                [
                    "Basics", "BlueZ", "CQREncode", "GATTHeartRate", "Health", "OfflineQueue",
                    "Recording", "Uplink",
                ]
            ),
            ("Testbed", ["Basics", "BlueZ", "CSpawn", "GATTHeartRate"]),
            ("GatewayDemo", ["GATTHeartRate", "Testbed"]),
        ] as [(String, Set<String>)])
    func aTargetKnowsOnlyItsNeighbours(target: String, neighbours: Set<String>) throws {
        for file in try swiftFiles(in: "Sources/\(target)") {
            for module in try imports(of: file) where Self.ours.contains(module) {
                #expect(neighbours.contains(module), "\(file.lastPathComponent) imports \(module)")
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

    @Test(
        arguments: [
            ("a health item", 2), ("a command that shows data", 4), ("a metric", 2),
            ("a gap cause", 2), ("a column of the store", 3), ("a kind of destination", 3),
            ("a reason to hold", 2),
        ])
    func whatIsAddedOftenTakesFewFiles(task: String, most: Int) throws {
        let text = try String(
            contentsOf: Self.root.appending(path: "docs/architecture.md"), encoding: .utf8)
        let row = try #require(
            text.split(separator: "\n").first { $0.hasPrefix("| \(task) |") })
        let named = row.matches(of: /\*\*`([^`]+)`\*\*/).map { String($0.output.1) }
        #expect((1...most).contains(named.count), "\(named)")
        let files = try (swiftFiles(in: "Sources") + swiftFiles(in: "Tests/Conformance"))
            .map { $0.path }
        for name in named {
            let pattern = try Regex(
                name.split(separator: "…", omittingEmptySubsequences: false)
                    .map { NSRegularExpression.escapedPattern(for: String($0)) }
                    .joined(separator: "[^/]*") + "$")
            #expect(files.contains { $0.contains(pattern) }, "\(name)")
        }
    }

    @Test(arguments: ["conformance.md", "testing.md"])
    func everyTestThatIsNamedInTheDocumentsExists(document: String) throws {
        let text = try String(
            contentsOf: Self.root.appending(path: "docs/\(document)"), encoding: .utf8)
        let files = try FileManager.default
            .subpathsOfDirectory(atPath: Self.root.appending(path: "Tests").path)
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
                contentsOf: Self.root.appending(path: "Tests/\(file)"), encoding: .utf8)
            let declaration = "\(isSwift ? "func" : "def") \(name.2)("
            #expect(source.contains(declaration), "\(document): \(name.0)")
        }
    }

    private func swiftFiles(in folder: String) throws -> [URL] {
        let folder = Self.root.appending(path: folder)
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        let files = names.filter { $0.hasSuffix(".swift") }.map { folder.appending(path: $0) }
        try #require(!files.isEmpty)
        return files
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
