import Foundation

/// One figure beside its goal and the peers'. `Benchmarks/figures/table.py` judges and prints it.
package struct Verdict: Codable {
    /// What was measured.
    package var figure: String
    /// The goal in words; empty for a figure without one.
    package var goal: String
    /// Ours; nil when it never came.
    package var ours: Double?
    /// The most that ours may be; nil for a figure without a goal.
    package var limit: Double?
    /// The part of the limit by which a busy machine may move it.
    package var noise: Double
    /// The same of others, by their names; nil when it never came.
    package var peers: [String: Double?]
    /// What all of them are in.
    package var unit: String

    /// A figure.
    package init(
        figure: String, goal: String, ours: Double?, limit: Double?, noise: Double = 0,
        peers: [String: Double?], unit: String
    ) {
        self.figure = figure
        self.goal = goal
        self.ours = ours
        self.limit = limit
        self.noise = noise
        self.peers = peers
        self.unit = unit
    }
}

/// What a benchmark leaves behind.
package struct Report<Detail: Codable>: Codable {
    /// What was measured.
    package var figures: [Verdict]
    /// All that it knows besides.
    package var detail: Detail

    /// A report.
    package init(figures: [Verdict], detail: Detail) {
        self.figures = figures
        self.detail = detail
    }

    /// Writes it as JSON.
    package func write(to path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        try encoder.encode(self).write(to: URL(filePath: path))
    }
}

/// Runs a benchmark to its end.
///
/// - Parameters:
///   - name: what a complaint begins with.
///   - path: where the report goes.
package func leave<Detail>(
    _ name: String, at path: String, _ measure: @Sendable () async throws -> Report<Detail>
) async -> Never {
    do {
        try await measure().write(to: path)
        exit(0)
    } catch {
        complain("\(name): \(error)", status: 1)
    }
}

/// Ends with one line on standard error.
package func complain(_ line: String, status: Int32) -> Never {
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
    exit(status)
}
