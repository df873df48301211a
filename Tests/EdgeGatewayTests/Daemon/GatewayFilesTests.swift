import Foundation
import Testing

@testable import EdgeGateway

@Suite struct GatewayFilesTests {
    private let root = FileManager.default.temporaryDirectory
        .appending(path: "gateway-files-\(UInt32.random(in: 0 ... .max))")

    private func files() async throws -> GatewayFiles {
        let state = root.appending(path: "state")
        try FileManager.default.createDirectory(at: state, withIntermediateDirectories: true)
        for name in ["queue.sqlite", "queue.sqlite-wal", "tokens-1.json"] {
            try Data("x".utf8).write(to: state.appending(path: name))
        }
        try Data().write(to: root.appending(path: "socket"))
        let settings = try SettingsLoader(environment: [
            "EDGE_GATEWAY_STATE": state.path,
            "EDGE_GATEWAY_SOCKET": root.appending(path: "socket").path,
        ]).load()
        return GatewayFiles(settings: settings)
    }

    /// `/a/../a/x` was taken beside `/a/x`, and then neither of two deliveries could lock it.
    @Test func aFileIsTheSameUnderEveryName() throws {
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: root) }
        func path(_ name: String) -> String { root.appending(path: name).path }
        try FileManager.default.createDirectory(
            atPath: path("a"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: path("b"), withDestinationPath: path("a"))
        for isThere in [false, true] {
            if isThere { try Data().write(to: root.appending(path: "a/x")) }
            for other in ["a/../a/x", "a/./x", "a//x", "b/x"] {
                #expect(GivenPath.isSame(path("a/x"), root.path + "/" + other), "\(other)")
            }
            #expect(!GivenPath.isSame(path("a/x"), path("a/y")))
            #expect(!GivenPath.isSame(path("a/x"), path("x")))
        }
        try FileManager.default.linkItem(atPath: path("a/x"), toPath: path("a/y"))
        #expect(GivenPath.isSame(path("a/x"), path("a/y")))
    }

    @Test func nothingIsWrittenIntoTheGatewaysOwnFiles() async throws {
        let files = try await files()
        defer { try? FileManager.default.removeItem(at: root) }
        let manager = FileManager.default
        func path(_ name: String) -> String { root.appending(path: name).path }
        try manager.createSymbolicLink(
            atPath: path("linked-state"), withDestinationPath: path("state"))
        try manager.createSymbolicLink(
            atPath: path("store.ndjson"), withDestinationPath: path("state/queue.sqlite"))
        try manager.createSymbolicLink(
            atPath: path("to-be.ndjson"), withDestinationPath: "linked-state/import.ndjson")
        try manager.linkItem(atPath: path("state/tokens-1.json"), toPath: path("second.ndjson"))
        for name in [
            "state", "state/queue.sqlite", "state/queue.sqlite-wal", "state/report.txt",
            "state/import.ndjson", "state/../state/import.ndjson", "linked-state/import.ndjson",
            "linked-state/day.csv", "store.ndjson", "to-be.ndjson", "second.ndjson", "socket",
        ] {
            #expect(files.refusal(of: path(name)) != nil, "\(name)")
        }
        for name in [
            "day.csv", "state/heart.ndjson", "linked-state/heart.ndjson", "nowhere/day.csv",
        ] {
            #expect(files.refusal(of: path(name)) == nil, "\(name)")
        }
    }
}
