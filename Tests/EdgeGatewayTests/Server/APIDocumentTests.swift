import BlueZ
import Foundation
import GATTHeartRate
import HTTPTypes
import Logging
import OfflineQueue
import Testing

@testable import EdgeGateway

/// docs/api.yaml names the routes there are, and no others. (`DocumentTableTests` compares its
/// enumerations, `ControlAPITests` the answers.)
@Suite struct APIDocumentTests {
    private static let document = repositoryRoot.appending(path: "docs/api.yaml")

    /// The control server's routes, as its router has them: `GET /v1/status`.
    private func routes() async throws -> Set<String> {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "routes-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let clock = SystemClock(trust: .always)
        let queue = try SampleQueue(
            path: directory.appending(path: "queue.sqlite").path, clock: clock, bootID: "boot")
        let settings = try SettingsLoader(
            environment: ["EDGE_GATEWAY_STATE": directory.path]
        ).load()
        let logger = Logger(label: "routes")
        let gateway = Gateway(
            settings: settings, queue: queue,
            central: Central(settings: CentralSettings(service: HeartRateService.service)),
            clock: clock, logger: logger)
        let server = ControlServer(gateway: gateway, place: ControlSocketPlace(""))
        let routes = server.routes().routes
        try await queue.close()
        return Set(
            routes.flatMap { path, methods in
                methods.map { "\($0.rawValue) /\(path.drop { $0 == "/" })" }
            })
    }

    /// The document's paths and methods: two and four spaces in, below `paths:`.
    private func documented() throws -> Set<String> {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        let lines = text.split(separator: "\n")
        var found: Set<String> = []
        var path: Substring?
        for line in lines.drop(while: { $0 != "paths:" }).dropFirst() {
            guard line.hasPrefix(" ") else { break }
            if let match = line.wholeMatch(of: #/\ \ (/\S*):/#) { path = match.output.1 }
            if let path, let match = line.wholeMatch(of: /\ {4}(get|put|post|delete|patch):/) {
                found.insert("\(match.output.1.uppercased()) \(path)")
            }
        }
        return found
    }

    @Test func theDocumentHasExactlyTheRoutesOfTheServer() async throws {
        let there = try await routes()
        let described = try documented()
        #expect(there.count > 30)
        #expect(
            there.symmetricDifference(described).isEmpty,
            "not described: \(there.subtracting(described)); not there: \(described.subtracting(there))"
        )
    }

    @Test func aFaultOfTheStoreKeepsItsNameAsAProblem() {
        for code in QueueError.Code.allCases {
            #expect(ProblemCode(code).rawValue == code.rawValue)
        }
    }
}
