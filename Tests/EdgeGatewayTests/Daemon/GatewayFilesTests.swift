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
