import Foundation

/// The output of the commands: the only place that writes to standard output and standard error, and the only one
/// from which an escape sequence comes.
enum Terminal {
    /// A command's result, or a part of it, on standard output.
    static func print(_ text: String) {
        printRaw(Printable.lines(text))
    }

    /// Whether standard output still takes what is printed. A command that would print for ever ends when it does
    /// not.
    static var isRead: Bool { StandardStream.outputFailure == nil }

    private static func printRaw(_ text: String) { StandardStream.output.write(text + "\n") }

    /// A line of the result that should be seen: red on a terminal that did not ask for no colour
    /// (no-color.org).
    static func printAlarm(_ line: String) {
        let text = Printable.line(line)
        let isPlain =
            isatty(STDOUT_FILENO) == 0 || ProcessInfo.processInfo.environment["NO_COLOR"] != nil
        printRaw(isPlain ? text : "\u{1B}[31m\(text)\u{1B}[0m")
    }

    /// A whole screen instead of the one before: home, each line cleared to its end, and what was below. It
    /// does not flicker.
    static func redraw(_ lines: [String]) {
        let screen = lines.map { Printable.line($0) + "\u{1B}[K" }.joined(separator: "\n")
        StandardStream.output.write("\u{1B}[H" + screen + "\n\u{1B}[J")
    }

    /// Erases the screen.
    static func clear() { StandardStream.output.write("\u{1B}[2J") }

    /// One message on standard error, prefixed with the program's name.
    static func complain(_ message: String) {
        write("edge-gateway: \(message)\n")
    }

    /// Something for the person at the terminal that is not the command's result.
    static func write(_ text: String) {
        StandardStream.error.write(Printable.lines(text))
    }

    /// Writes the line on standard error anew; an empty one goes.
    static func rewriteLine(_ text: String) {
        StandardStream.error.write("\r\u{1B}[K\(Printable.line(text))")
    }

    /// Puts a question to the person at the terminal; an empty line is an answer.
    ///
    /// - Parameter isHidden: what they type is not shown.
    /// - Throws: ``Left`` if they want no more; `CancellationError` if the question is no longer open.
    static func ask(_ question: String, isHidden: Bool = false) async throws -> String {
        let line: String?
        do {
            line =
                try await isHidden
                ? TypedLine.hiddenAnswer(to: question) : TypedLine.answer(to: question)
        } catch {
            write("\n")
            throw error
        }
        guard let text = line?.trimmingCharacters(in: .whitespaces),
            !["q", "quit"].contains(text.lowercased())
        else { throw Left() }
        return text
    }

    /// Puts a question that is answered with yes or no, until it is; an empty line is no.
    ///
    /// - Throws: as ``ask(_:isHidden:)``.
    static func askWhether(_ question: String) async throws -> Bool {
        while true {
            switch try await ask("\(question) [y/N] ").lowercased() {
            case "y", "yes": return true
            case "", "n", "no": return false
            default: write("type y or n, or q to leave\n")
            }
        }
    }

    /// Asks before something that cannot be undone; `yes` answers in advance.
    ///
    /// - Throws: ``Left`` if the answer is no; ``CommandFailure`` if there is no terminal to ask on.
    static func confirm(_ question: String, _ yes: Bool) async throws {
        if yes { return }
        guard isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "nothing was done: this needs --yes, or a terminal to ask on")
        }
        guard try await askWhether(question) else { throw Left() }
    }

    /// A report as JSON on standard output.
    static func printJSON(_ report: some Encodable) throws {
        let data = try ReportCoding.encoder(pretty: true).encode(report)
        printRaw(Printable.json(String(decoding: data, as: UTF8.self)))
    }

    /// A report as JSON on one line of standard output.
    static func printJSONLine(_ report: some Encodable) throws {
        let data = try ReportCoding.encoder().encode(report)
        printRaw(Printable.json(String(decoding: data, as: UTF8.self)))
    }

    /// The columns of the terminal at standard output; nil in a pipe or a file, where nothing is cut.
    static var columns: Int? {
        isatty(STDOUT_FILENO) == 1
            ? DisplayWidth.terminal(ProcessInfo.processInfo.environment).columns : nil
    }

    /// A column that is cut keeps this many cells: enough to tell most names apart.
    private static let cutColumnMin = 8

    /// A table with each column as wide as its widest cell.
    ///
    /// - Parameters:
    ///   - free: the headers of the columns that are cut, the widest first and with `…`, where the table is wider than
    ///     the terminal: names, places, words of others. The other columns never are.
    ///   - columns: how wide it may be; nil: nothing is cut.
    static func table(
        _ header: [String], _ rows: [[String]], free: Set<String> = [],
        columns: Int? = Terminal.columns
    ) -> String {
        let cells = ([header] + rows).map { $0.map(Printable.line) }
        var widths = header.indices.map { column in
            cells.map { column < $0.count ? DisplayWidth.of($0[column]) : 0 }.max() ?? 0
        }
        let gap = "  "
        while let columns, widths.reduce(0, +) + gap.count * (widths.count - 1) > columns,
            let widest = header.indices.filter({
                free.contains(header[$0]) && widths[$0] > cutColumnMin
            }).max(by: { widths[$0] < widths[$1] })
        {
            widths[widest] -= 1
        }
        return cells.map { row in
            zip(row, widths).enumerated().map { column, cell in
                column == row.count - 1
                    ? DisplayWidth.cut(cell.0, to: cell.1) : DisplayWidth.fit(cell.0, to: cell.1)
            }.joined(separator: gap)
        }.joined(separator: "\n")
    }

    /// Prints a table whose marked rows begin with `!`, and are red as ``printAlarm(_:)`` has it.
    static func printTable(
        _ header: [String], _ rows: [[String]], free: Set<String>, alarms: [Bool]
    ) {
        let text = table(header, rows, free: free, columns: columns.map { $0 - 2 })
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        for (line, isAlarm) in zip(lines, [false] + alarms) {
            if isAlarm { printAlarm("! \(line)") } else { print("  \(line)") }
        }
    }

    /// `2026-03-01 12:00:00`, in UTC.
    static func time(_ date: Date) -> String {
        date.formatted(
            .iso8601.year().month().day().dateTimeSeparator(.space).time(
                includingFractionalSeconds: false))
    }

    /// How long ago something was, for people; `?` where that is so long that one of the two clocks is not set.
    static func age(since date: Date, now: Date = Date()) -> String {
        let seconds = now.timeIntervalSince(date)
        // Ten years; and clocks of two machines may differ.
        guard -86_400...315_360_000 ~= seconds else { return "?" }
        return age(max(0, seconds))
    }

    /// `3 s`, `5 min`, `2 h`, `4 d`: an age for people.
    static func age(_ seconds: Double) -> String {
        switch seconds {
        case ..<0: "in the future"
        case ..<120: "\(Int(bounding: seconds)) s"
        case ..<7200: "\(Int(bounding: seconds / 60)) min"
        case ..<172_800: "\(Int(bounding: seconds / 3600)) h"
        default: "\(Int(bounding: min(seconds / 86400, 99999))) d"
        }
    }
}

extension Int {
    /// The whole part of a number from another program, clamped to the range of `Int`; 0 for NaN.
    init(bounding value: Double) {
        self = Int(exactly: value.rounded(.towardZero)) ?? (value > 0 ? .max : value < 0 ? .min : 0)
    }
}
