import Foundation

/// One figure beside its goal and the peer's.
struct Verdict: Codable {
    var figure: String
    var goal: String
    var ours: Double?
    var peer: Double?
    var unit: String
    /// Nil for a figure without a goal.
    var isReached: Bool?

    /// Ours to the peer's, nil where one of them never came.
    var ratio: Double? {
        guard let ours, let peer, ours > 0 else { return nil }
        return peer / ours
    }

    static let header = row("figure", "goal", "ours", "peer", "ratio", "verdict")

    var line: String {
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
