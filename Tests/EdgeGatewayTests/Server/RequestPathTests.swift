import Foundation
import Testing

/// Paths and queries end up in logs of proxies and of people: nothing that names a person or a device
/// may be in one.
@Suite struct RequestPathTests {
    private static let root = repositoryRoot.appending(path: "Sources/EdgeGateway")

    private func sources() throws -> [(name: String, text: String)] {
        try FileManager.default.subpathsOfDirectory(atPath: Self.root.path)
            .filter { $0.hasSuffix(".swift") }
            .map {
                ($0, try String(contentsOf: Self.root.appending(path: $0), encoding: .utf8))
            }
    }

    /// Every string that is a path of the API, as the source words it.
    private func paths(_ text: String) -> [Substring] {
        text.matches(of: /"\/?v1\/(?:[^"\\]|\\\([^)]*\))*"/).map(\.output)
    }

    @Test func noRouteTakesAnAddressANameOrAPatient() throws {
        var count = 0
        for (name, text) in try sources() {
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
        let pieces = try sources().flatMap { name, text in
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
