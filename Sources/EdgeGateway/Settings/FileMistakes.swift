import Yams

/// Everything that is wrong with a file that a person wrote, with its lines: so that nobody corrects one mistake after
/// the other.
struct FileMistakes {
    /// More do not fit a screen.
    private static let shownMax = 50

    let path: String
    private var found: [(line: Int, text: String)] = []

    init(path: String) { self.path = path }

    /// - Parameter node: where; nil: in the whole file.
    mutating func add(_ node: Node?, _ what: String, _ advice: String) {
        add(line: node?.mark?.line, what, advice)
    }

    mutating func add(line: Int?, _ what: String, _ advice: String) {
        let place = line.map { " line \($0)" } ?? ""
        found.append((line ?? 0, "\(path)\(place): \(Printable.line(what))\n  \(advice)"))
    }

    /// A file that it names cannot be used: `failure` says which and why.
    mutating func add(line: Int?, _ failure: any Error) {
        found.append((line ?? 0, (failure as? CommandFailure)?.message ?? "\(failure)"))
    }

    /// The messages in the order of their lines.
    var messages: [String] {
        let sorted = found.enumerated()
            .sorted { ($0.element.line, $0.offset) < ($1.element.line, $1.offset) }
            .map(\.element.text)
        guard sorted.count > Self.shownMax else { return sorted }
        return sorted.prefix(Self.shownMax) + [
            "… and \(sorted.count - Self.shownMax) more mistakes"
        ]
    }

    /// - Throws: ``CommandFailure`` with all of them, if there are any.
    func check() throws {
        guard !found.isEmpty else { return }
        throw CommandFailure(
            exitCode: .wrongUsage, message: messages.joined(separator: "\n"))
    }
}
