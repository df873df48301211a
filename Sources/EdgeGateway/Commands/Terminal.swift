import Foundation

/// What the commands write to.
enum Terminal {
    /// One message on standard error, prefixed with the program's name.
    static func complain(_ message: String) {
        FileHandle.standardError.write(Data("edge-gateway: \(message)\n".utf8))
    }

    /// Something for the person at the terminal that is not the command's result.
    static func write(_ text: String) {
        FileHandle.standardError.write(Data(text.utf8))
    }

    /// A line that should be seen: red on a terminal that did not ask for no colour (no-color.org).
    static func alarm(_ text: String) -> String {
        let isPlain =
            isatty(STDOUT_FILENO) == 0 || ProcessInfo.processInfo.environment["NO_COLOR"] != nil
        return isPlain ? text : "\u{1B}[31m\(text)\u{1B}[0m"
    }

    /// A line that a person types; nil at the end of input, or when nobody wants to know any more.
    static func ask(_ question: String) async -> String? {
        write(question)
        let (typed, typing) = AsyncStream.makeStream(of: String.self)
        // `readLine` cannot be interrupted: its thread ends with the command.
        Thread.detachNewThread {
            if let line = readLine() { typing.yield(line) }
            typing.finish()
        }
        for await line in typed { return line }
        return nil
    }

    /// Asks before something that cannot be undone; `yes` says that nobody wants to be asked.
    ///
    /// - Throws: ``CommandFailure`` if the answer is no, or nobody is there to ask.
    static func confirm(_ question: String, _ yes: Bool) throws {
        if yes { return }
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "nothing was done: it takes --yes, or a terminal")
        }
        write("\(question) [y/N] ")
        guard readLine()?.lowercased().hasPrefix("y") ?? false else {
            throw CommandFailure(exitCode: .notWell, message: "nothing was done")
        }
    }

    /// A report as JSON on standard output.
    static func printJSON(_ report: some Encodable) throws {
        let data = try ReportCoding.encoder(pretty: true).encode(report)
        print(String(decoding: data, as: UTF8.self))
    }

    /// A table that fits 80 columns: the last column is cut rather than wrapped.
    static func table(_ header: [String], _ rows: [[String]]) -> String {
        let columnsMax = 80
        let cells = [header] + rows.map { $0.map(printable) }
        var widths = header.map(\.count)
        for row in cells {
            for (column, cell) in row.enumerated() where column < widths.count {
                widths[column] = max(widths[column], cell.count)
            }
        }
        return cells.map { row in
            let line = row.enumerated().map { column, cell in
                column == row.count - 1
                    ? cell : cell.padding(toLength: widths[column], withPad: " ", startingAt: 0)
            }.joined(separator: "  ")
            return String(line.prefix(columnsMax))
        }.joined(separator: "\n")
    }

    /// Names come from radio advertisements: control characters in them must not reach a terminal.
    static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map {
                    $0.properties.generalCategory == .control
                        || $0.properties.generalCategory == .format ? "\u{FFFD}" : $0
                }))
    }

    /// `2026-03-01 12:00:00`, in UTC.
    static func time(_ date: Date) -> String {
        date.formatted(
            .iso8601.year().month().day().dateTimeSeparator(.space).time(
                includingFractionalSeconds: false))
    }

    /// `3 s`, `5 min`, `2 h`, `4 d`: an age for people.
    static func age(_ seconds: Double) -> String {
        switch seconds {
        case ..<0: "in the future"
        case ..<120: "\(Int(seconds)) s"
        case ..<7200: "\(Int(seconds / 60)) min"
        case ..<172_800: "\(Int(seconds / 3600)) h"
        default: "\(Int(min(seconds / 86400, 99999))) d"
        }
    }
}
