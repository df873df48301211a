import Foundation
import Testbed

/// The visitor's view: a picture painted over itself on a terminal, lines elsewhere.
struct DemoView {
    let isTerminal = isatty(STDOUT_FILENO) == 1
    private var paintedLines = 0
    private var printedSecond = -10
    /// Between two lines where there is no terminal, in seconds.
    private static let secondsPerLine = 5

    /// A line of its own that stays.
    mutating func say(_ line: String) {
        write("\(line)\n")
        paintedLines = 0
    }

    /// Shows the state `second` seconds into the demo.
    mutating func show(
        _ status: GatewayStatus, _ books: [DestinationBooks], second: Int, of seconds: Int,
        isCut: Bool
    ) {
        if isTerminal {
            paint(picture(status, books, second: second, of: seconds, isCut: isCut))
        } else if second - printedSecond >= Self.secondsPerLine || second >= seconds {
            printedSecond = second
            say(line(status, books, second: second, isCut: isCut))
        }
    }

    private mutating func paint(_ lines: [String]) {
        let back = paintedLines > 0 ? "\u{1B}[\(paintedLines)A" : ""
        write(back + lines.map { "\u{1B}[2K\($0)\n" }.joined())
        paintedLines = lines.count
    }

    /// At once, also into a pipe. Without a reader the demo goes on to its end, and judges.
    private func write(_ text: String) {
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }

    private func picture(
        _ status: GatewayStatus, _ books: [DestinationBooks], second: Int, of seconds: Int,
        isCut: Bool
    ) -> [String] {
        let balance = status.balance
        var lines = [
            "", "  \(second) s of \(seconds) s   network: \(isCut ? "CUT" : "up")", "",
            "  strap      link          bpm    stored    unsent",
        ]
        for sensor in status.sensors {
            lines.append(
                "  " + column(sensor.name, 11) + column(sensor.link, 12)
                    + right(sensor.bpm.map(String.init) ?? "-", 5)
                    + right(String(sensor.stored), 10)
                    + right(String(sensor.pending), 10))
        }
        let bar = String(repeating: "#", count: min(balance.unsent / 2, 40))
        lines += [
            "", "  stored \(balance.stored)   delivered \(balance.delivered)",
            "  queued \(balance.unsent) \(bar)", "",
        ]
        if !books.isEmpty {
            lines.append("  destination   system       delivered    queued       has")
            for book in books {
                lines.append(
                    "  " + column(book.name, 14) + column(book.title, 12)
                        + right(String(book.delivered), 10)
                        + right(String(book.waiting + book.held), 10)
                        + right(String(book.has), 10))
            }
            lines.append("")
        }
        return lines
    }

    private func line(
        _ status: GatewayStatus, _ books: [DestinationBooks], second: Int, isCut: Bool
    ) -> String {
        let rates = status.sensors.map { "\($0.name) \($0.bpm.map(String.init) ?? "-") bpm" }
        let balance = status.balance
        return right("\(second) s", 6) + "  network \(isCut ? "CUT" : "up ")  "
            + rates.joined(separator: "  ")
            + "  stored \(balance.stored)  delivered \(balance.delivered)  queued \(balance.unsent)"
            + books.map { "  \($0.title) \($0.has)" }.joined()
    }

    private func column(_ text: String, _ width: Int) -> String {
        text.padding(toLength: width, withPad: " ", startingAt: 0)
    }

    private func right(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}
