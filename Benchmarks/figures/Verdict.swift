import Foundation

/// One figure beside its goal and the peer's.
package struct Verdict: Codable {
    package var figure: String
    package var goal: String
    package var ours: Double?
    package var peer: Double?
    package var unit: String
    /// Nil for a figure without a goal.
    package var isReached: Bool?

    /// A figure.
    package init(
        figure: String, goal: String, ours: Double?, peer: Double?, unit: String, isReached: Bool?
    ) {
        self.figure = figure
        self.goal = goal
        self.ours = ours
        self.peer = peer
        self.unit = unit
        self.isReached = isReached
    }

    /// Ours to the peer's, nil where one of them never came.
    package var ratio: Double? {
        guard let ours, let peer, ours > 0 else { return nil }
        return peer / ours
    }

    /// The names of the columns.
    package static let header = row("figure", "goal", "ours", "peer", "ratio", "verdict")

    /// It in columns.
    package var line: String {
        func text(_ value: Double?) -> String {
            value.map { String(format: $0 < 100 ? "%.2f " : "%.0f ", $0) + unit } ?? "never"
        }
        return Self.row(
            figure, goal, text(ours), text(peer), ratio.map { String(format: "1/%.1f", $0) } ?? "",
            isReached.map { $0 ? "reached" : "MISSED" } ?? "")
    }

    private static func row(_ cells: String...) -> String {
        zip(cells, [39, 10, 10, 10, 6, 7])
            .map { $0.padding(toLength: max($1, $0.count), withPad: " ", startingAt: 0) }
            .joined(separator: "  ")
    }
}
