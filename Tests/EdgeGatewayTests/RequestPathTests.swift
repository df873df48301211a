import Foundation
import Testing

/// Paths and queries end up in logs of proxies and of people: nothing that names a person or a device
/// may be in one.
@Suite struct RequestPathTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Sources/EdgeGateway")

    private func sources(in folder: String) throws -> [(name: String, text: String)] {
        let folder = Self.root.appending(path: folder)
        return try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(".swift") }
            .map {
                ($0, try String(contentsOf: folder.appending(path: $0), encoding: .utf8))
            }
    }

    /// Every string that is a path of the API, as the source words it.
    private func paths(_ text: String) -> [Substring] {
        text.matches(of: /"\/?v1\/(?:[^"\\]|\\\([^)]*\))*"/).map(\.output)
    }

    @Test func noRouteTakesAnAddressANameOrAPatient() throws {
        var count = 0
        for (name, text) in try sources(in: "API") + sources(in: "Page") {
            for path in paths(text) {
                count += 1
                for word in [":address", ":name", ":patient", ":token"] {
                    #expect(!path.contains(word), "\(name): \(path)")
                }
            }
        }
        #expect(count > 20, "the routes were not found")
    }

    @Test func noCommandPutsAnAddressANameOrAPatientIntoAPath() throws {
        var count = 0
        let pieces = try sources(in: "Commands").flatMap { name, text in
            (paths(text) + text.matches(of: /"&(?:[^"\\]|\\\([^)]*\))*"/).map(\.output))
                .map { (name, $0) }
        }
        for (name, path) in pieces {
            count += 1
            for word in ["\\(address", "\\(sensor)", "\\(patient", "\\(name", "\\(enrollment"] {
                #expect(!path.contains(word), "\(name): \(path)")
            }
        }
        #expect(count > 15, "the paths were not found")
    }
}
