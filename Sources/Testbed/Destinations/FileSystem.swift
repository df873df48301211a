import Foundation

/// A file on this machine, read by somebody else than who wrote it.
public struct FileSystem: DestinationSystem {
    public let kind = "file"
    public let title = "the file"
    public let settings: [String: String]
    private let host: SystemHost

    private struct Line: Decodable {
        struct Point: Decodable {
            struct Header: Decodable { var uuid: String }
            struct Body: Decodable {
                struct Rate: Decodable { var value: Double }
                var heartRate: Rate?
            }
            var header: Header
            var body: Body
        }
        var dataPoint: Point
    }

    /// Makes the directory of the file.
    public static func start() async throws -> FileSystem {
        try await SystemHost.start("file", needs: []) { FileSystem(host: $0) }
    }

    private init(host: SystemHost) {
        self.host = host
        settings = ["path": host.path("points.ndjson")]
    }

    public func counts() async throws -> (stored: Int, repeated: Int) {
        // The last line may be in the middle of being written.
        guard let text = try? String(contentsOfFile: host.path("points.ndjson"), encoding: .utf8),
            let end = text.lastIndex(of: "\n")
        else { return (0, 0) }
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let points = try text[...end].split(separator: "\n").map {
            try decoder.decode(Line.self, from: Data($0.utf8)).dataPoint
        }
        let rates = points.filter { $0.body.heartRate != nil }.map(\.header.uuid)
        let different = Set(rates).count
        return (different, rates.count - different)
    }

    public func stop() async { await host.stop() }
}
