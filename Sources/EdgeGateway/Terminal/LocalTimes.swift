import ArgumentParser
import Basics
import Foundation
import OfflineQueue
import Uplink

/// The zone in which a command prints times and reads those that a person types.
struct LocalTimes: Sendable {
    static let utc = LocalTimes(zone: .gmt)
    private static let namesOfUTC: Set = [
        "GMT", "UTC", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu",
    ]

    let zone: TimeZone

    /// This machine's zone, or UTC where somebody asked for it.
    static func of(isUTC: Bool) -> LocalTimes { isUTC ? utc : LocalTimes(zone: .current) }

    private var isUTC: Bool { Self.namesOfUTC.contains(zone.identifier) }

    /// `2026-03-01 12:00:00`; in the hour that a clock shows twice, with the offset.
    func text(_ date: Date) -> String {
        let text = civil(date)
        let isTwice = [-3_600.0, 3_600].contains { civil(date + $0) == text }
        return isTwice ? "\(text) \(offset(date))" : text
    }

    /// The same to the minute.
    func minute(_ date: Date) -> String { String(civil(date).prefix(16)) }

    /// The same within a sentence: `2026-03-01 12:00:00 UTC+1`.
    func sentence(_ date: Date) -> String { "\(civil(date)) \(offset(date))" }

    /// The header of a column of times: `TIME (UTC)`, `TIME (Europe/Berlin)`.
    func header(_ word: String) -> String {
        "\(word) (\(isUTC ? "UTC" : Printable.line(zone.identifier)))"
    }

    /// The instant at which a clock of this zone shows so many seconds after 1970: the first one, where it shows that
    /// twice; where it never does, as if it had not been set.
    func instant(civilSeconds: Int64) -> Date {
        let asUTC = Date(timeIntervalSince1970: Double(civilSeconds))
        let offsets = [-86_400.0, 86_400].map { zone.secondsFromGMT(for: asUTC + $0) }
        let candidates = offsets.map { asUTC - Double($0) }
        return candidates.filter { civilSecond($0) == civilSeconds }.min() ?? candidates[0]
    }

    /// The time that a clock of this zone shows, in seconds after 1970.
    func civilSecond(_ date: Date) -> Int64 {
        Int64(date.timeIntervalSince1970.rounded(.down)) + Int64(zone.secondsFromGMT(for: date))
    }

    private func civil(_ date: Date) -> String {
        Terminal.time(date + Double(zone.secondsFromGMT(for: date)))
    }

    private func offset(_ date: Date) -> String {
        let minutes = zone.secondsFromGMT(for: date) / 60
        guard minutes != 0 else { return "UTC" }
        let (hours, rest) = abs(minutes).quotientAndRemainder(dividingBy: 60)
        return "UTC\(minutes < 0 ? "-" : "+")\(hours)"
            + (rest == 0 ? "" : rest < 10 ? ":0\(rest)" : ":\(rest)")
    }
}

/// A time as a person types it: `2026-12-01`, `2026-12-01 08:30`, `yesterday 08:00`, `08:00`; with `Z` or an offset
/// behind it as ``LocalTimes`` prints it, or in the zone in which the command prints.
struct WrittenTime: ExpressibleByArgument, Hashable {
    static let examples =
        "2026-12-01, \"2026-12-01 08:30\", \"2026-10-25 02:30 UTC+1\", \"yesterday 08:00\" or 08:00"
    static let help = "such as \(examples)"
    private static let dayLength: Int64 = 86_400

    private enum Day: Hashable {
        /// Days since 1970.
        case date(Int64)
        /// Days before the day that it is.
        case ago(Int64)
    }

    private let day: Day
    private let secondOfDay: Int64
    /// Seconds that its clock is ahead of UTC, if that stands behind it.
    private let offset: Int64?
    /// Whether it is a day and nothing else.
    fileprivate let isDay: Bool

    init?(argument: String) {
        let text = argument.trimmingCharacters(in: .whitespaces).lowercased()
        let pattern =
            #/(?:(\d{4}-\d{2}-\d{2})|(today|yesterday)|)(?:(?:^|[ t]+)(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)? ?(z|(?:utc)?[+-]\d{1,2}(?::?\d{2})?|utc)?/#
            .asciiOnlyDigits()
        guard !text.isEmpty, let match = text.wholeMatch(of: pattern) else { return nil }
        switch (match.1, match.2) {
        case (let date?, _):
            guard let days = Self.days(date) else { return nil }
            day = .date(days)
        case (_, let word?): day = .ago(word == "today" ? 0 : 1)
        default:
            guard match.3 != nil else { return nil }
            day = .ago(0)
        }
        let parts = [match.3, match.4, match.5].map { $0.flatMap { Int64($0) } ?? 0 }
        guard parts[0] < 24, parts[1] < 60, parts[2] < 60 else { return nil }
        secondOfDay = parts[0] * 3_600 + parts[1] * 60 + parts[2]
        offset = match.6.flatMap { Self.offset($0) }
        guard match.6 == nil || offset != nil else { return nil }
        isDay = match.3 == nil && match.6 == nil
    }

    /// Whether only a time of this day is given.
    var isOfToday: Bool { day == .ago(0) }

    /// When that is, at `now`; or so many days later by the same clock.
    func date(now: Date = Date(), _ times: LocalTimes, daysLater: Int64 = 0) -> Date {
        func civil(_ today: Int64) -> Int64 {
            let days =
                switch day {
                case .date(let days): days
                case .ago(let days): today - days
                }
            return (days + daysLater) * Self.dayLength + secondOfDay
        }
        guard let offset else {
            return times.instant(civilSeconds: civil(times.civilSecond(now) / Self.dayLength))
        }
        let here = Int64(now.timeIntervalSince1970) + offset
        return Date(timeIntervalSince1970: Double(civil(here / Self.dayLength) - offset))
    }

    private static func days(_ text: Substring) -> Int64? {
        let parts = text.split(separator: "-").compactMap { Int64($0) }
        guard parts.count == 3, 1_970...9_999 ~= parts[0] else { return nil }
        let date = CivilDate(year: parts[0], month: parts[1], day: parts[2])
        guard 1...12 ~= date.month, date.day >= 1,
            CivilDate(daysSince1970: date.daysSince1970) == date
        else { return nil }
        return date.daysSince1970
    }

    private static func offset(_ text: Substring) -> Int64? {
        guard text.contains(where: { "+-".contains($0) }) else { return 0 }
        let digits = text.filter(\.isNumber)
        guard let number = Int64(digits) else { return nil }
        let (hours, minutes) = digits.count > 2 ? (number / 100, number % 100) : (number, 0)
        guard hours < 24, minutes < 60 else { return nil }
        return (hours * 3_600 + minutes * 60) * (text.contains("-") ? -1 : 1)
    }
}

/// A day as a person types it: `2026-12-01`, `yesterday`; from midnight to midnight of the zone in which the command
/// prints, which may be 23 or 25 hours.
struct WrittenDay: ExpressibleByArgument, Hashable {
    private let begin: WrittenTime

    init?(argument: String) {
        guard let time = WrittenTime(argument: argument), time.isDay else { return nil }
        begin = time
    }

    func bounds(now: Date, _ times: LocalTimes) -> (since: Date, until: Date) {
        (begin.date(now: now, times), begin.date(now: now, times, daysLater: 1))
    }
}

/// A length of time as a person types it: `90s`, `10m`, `6h`, `2d`.
struct WrittenSpan: ExpressibleByArgument, Hashable {
    let seconds: Int

    init?(argument: String) {
        // Of a number alone nobody knows whether hours or days were meant.
        guard argument.last?.isNumber == false, let time = Duration(written: argument),
            time > .zero
        else { return nil }
        seconds = Int(time.inSeconds)
    }

    /// In hours.
    ///
    /// - Throws: `ValidationError` if they are not whole: no other length is meant than the one that was typed.
    func hours(of option: String) throws -> Int {
        guard seconds % 3_600 == 0 else {
            throw ValidationError("\(option) takes whole hours, such as 6h or 2d")
        }
        return seconds / 3_600
    }

    /// In days, the last of them begun.
    var days: Int { (seconds + 86_399) / 86_400 }
}

/// Which stretch of time a command is about: `--last 2d`, `--day yesterday`, or `--since` and `--until`.
struct TimeRange: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Only the time from so long ago until now, such as 30m, 6h or 2d.", valueName: "span"))
    var last: WrittenSpan?
    @Option(
        help: ArgumentHelp(
            "Only this day, such as 2026-12-01 or yesterday; with --utc a day of UTC.",
            valueName: "date"))
    var day: WrittenDay?
    @Option(
        help: ArgumentHelp("Only from this time on, \(WrittenTime.help).", valueName: "time"))
    var since: WrittenTime?
    @Option(help: ArgumentHelp("Only before this time.", valueName: "time"))
    var until: WrittenTime?

    func validate() throws {
        let ways = [last != nil, day != nil, since != nil || until != nil]
        guard ways.count(where: { $0 }) <= 1 else {
            throw ValidationError("give --last, or --day, or --since and --until")
        }
    }

    /// Whether it ends before now.
    var hasEnd: Bool { day != nil || until != nil }

    /// The instants that it stands for at `now`.
    ///
    /// - Throws: ``CommandFailure`` for a time of this day that is to come, and for an end before the beginning.
    func instants(
        now: Date = Date(), _ times: LocalTimes
    ) throws -> (since: Date?, until: Date?) {
        if let day { return day.bounds(now: now, times) }
        let begin = try Self.begin(last: last, since: since, now: now, times)
        let end = until?.date(now: now, times)
        if let begin, let end, begin >= end {
            throw CommandFailure(
                exitCode: .wrongUsage, message: "--since must be before --until")
        }
        return (begin, end)
    }

    /// The instant that `--last` or `--since` stands for at `now`.
    ///
    /// - Throws: ``CommandFailure`` for a time of this day that is to come.
    static func begin(
        last: WrittenSpan?, since: WrittenTime?, now: Date = Date(), _ times: LocalTimes
    ) throws -> Date? {
        let begin = last.map { now - Double($0.seconds) } ?? since?.date(now: now, times)
        // A date that is given may be right, and this machine's clock wrong.
        if let begin, begin > now, since?.isOfToday == true {
            throw CommandFailure(
                exitCode: .wrongUsage,
                message: "--since \(times.sentence(begin)) is in the future; give the day as well, "
                    + "such as \"yesterday 08:00\"")
        }
        return begin
    }

    /// The same as parameters of a request, each with `&` before it.
    func query(now: Date = Date(), _ times: LocalTimes) throws -> String {
        let (since, until) = try instants(now: now, times)
        func parameter(_ field: String, _ date: Date?) -> String {
            date.map { "&\(field)=\(Int64($0.timeIntervalSince1970))" } ?? ""
        }
        return parameter("since", since) + parameter("until", until)
    }
}
