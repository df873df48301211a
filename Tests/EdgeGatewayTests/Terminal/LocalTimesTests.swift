import ArgumentParser
import Foundation
import Testing

@testable import EdgeGateway

/// People type and read the time of their own clock.
@Suite struct LocalTimesTests {
    private static let berlin = LocalTimes(zone: TimeZone(identifier: "Europe/Berlin") ?? .gmt)
    /// 2026-12-01 12:00 UTC.
    private static let noon = Date(timeIntervalSince1970: 1_796_126_400)

    private func date(_ text: String, _ times: LocalTimes = .utc) throws -> Double {
        try #require(WrittenTime(argument: text)).date(now: Self.noon, times).timeIntervalSince1970
    }

    @Test(arguments: [
        ("2026-12-01", 1_796_083_200), ("2026-12-01 12:00", 1_796_126_400),
        ("2026-12-01 12:00:01", 1_796_126_401), ("2026-12-01T12:00:00Z", 1_796_126_400),
        ("2026-12-01 12:00:00.25", 1_796_126_400), ("2026-12-01T13:00+01:00", 1_796_126_400),
        ("yesterday 08:00", 1_796_025_600), ("Yesterday", 1_795_996_800),
        ("2026-12-01 17:30 UTC+5:30", 1_796_126_400), ("2026-12-01 02:00 utc-10", 1_796_126_400),
        ("today 8:30", 1_796_113_800), ("08:30", 1_796_113_800), ("today", 1_796_083_200),
    ])
    func timesAreReadAsPeopleTypeThem(text: String, seconds: Double) throws {
        #expect(try date(text) == seconds)
    }

    @Test(arguments: [
        "", " ", "2026-13-01", "2026-02-30", "1969-12-31", "24:00", "12:60", "12", "noon",
        "2026-12-01 12", "2026-12-01 12:00 UTC+24", "2026-12-01 12:00 UTC+1:60", "tomorrow",
        "2026-12-01 12:00 +25:00", "yesterday yesterday", "Z",
        "today ٠٨:٣٠",
    ])
    func whatIsNoTimeIsRefused(text: String) {
        #expect(WrittenTime(argument: text) == nil)
    }

    @Test func timesAreThoseOfTheMachinesZone() throws {
        #expect(try date("2026-12-01 13:00", Self.berlin) == 1_796_126_400)
        #expect(try date("2026-12-01 12:00Z", Self.berlin) == 1_796_126_400)
        #expect(try date("yesterday 08:00", Self.berlin) == 1_796_025_600 - 3_600)
        #expect(Self.berlin.text(Self.noon) == "2026-12-01 13:00:00")
        #expect(Self.berlin.sentence(Self.noon) == "2026-12-01 13:00:00 UTC+1")
        #expect(Self.berlin.header("FROM") == "FROM (Europe/Berlin)")
        #expect(LocalTimes.utc.header("FROM") == "FROM (UTC)")
        #expect(LocalTimes.utc.sentence(Self.noon) == "2026-12-01 12:00:00 UTC")
    }

    /// In Berlin 2026-10-25 02:30 comes twice, and 2026-03-29 02:30 never.
    @Test func anHourThatComesTwiceOrNeverIsReadAndShown() throws {
        let first = try date("2026-10-25 02:30", Self.berlin)
        #expect(first == 1_792_888_200)
        let twice = [first, first + 3_600].map {
            Self.berlin.text(Date(timeIntervalSince1970: $0))
        }
        #expect(twice == ["2026-10-25 02:30:00 UTC+2", "2026-10-25 02:30:00 UTC+1"])
        // A time that was printed can be typed back.
        #expect(try twice.map { try date($0, Self.berlin) } == [first, first + 3_600])
        let never = try date("2026-03-29 02:30", Self.berlin)
        #expect(Self.berlin.text(Date(timeIntervalSince1970: never)) == "2026-03-29 03:30:00")
        let before = Date(timeIntervalSince1970: first - 3_600)
        #expect(Self.berlin.text(before) == "2026-10-25 01:30:00")
    }

    @Test(arguments: [("90s", 90), ("10m", 600), ("6h", 21_600), ("2d", 172_800)])
    func spansHaveAUnit(text: String, seconds: Int) {
        #expect(WrittenSpan(argument: text)?.seconds == seconds)
    }

    /// `--last 6` was six hours here and six days there.
    @Test(arguments: ["6", "", "0h", "-1h", "1x", "h", "99999999999d"])
    func aNumberAloneIsNoSpan(text: String) {
        #expect(WrittenSpan(argument: text) == nil)
    }

    @Test func aRangeIsTheLastStretchOrFromOneTimeToAnother() throws {
        func range(_ words: String...) throws -> (since: Date?, until: Date?) {
            try TimeRange.parse(words).instants(now: Self.noon, .utc)
        }
        #expect(try range("--last", "2d").since == Self.noon - 172_800)
        let both = try range("--since", "yesterday 08:00", "--until", "08:00")
        #expect(both.since == Self.noon - 100_800 && both.until == Self.noon - 14_400)
        #expect(throws: (any Error).self) { try range("--since", "23:00") }
        #expect(try range("--since", "2026-12-02").since == Self.noon + 43_200)
        #expect(throws: (any Error).self) { try range("--since", "today", "--until", "yesterday") }
        #expect(throws: (any Error).self) { try range("--last", "2d", "--since", "today") }
    }

    @Test func aDayIsThatOfTheMachinesZone() throws {
        func day(_ text: String, _ times: LocalTimes) throws -> [Double?] {
            let (since, until) = try TimeRange.parse(["--day", text]).instants(
                now: Self.noon, times)
            return [since?.timeIntervalSince1970, until?.timeIntervalSince1970]
        }
        #expect(try day("2026-12-01", .utc) == [1_796_083_200, 1_796_169_600])
        #expect(try day("2026-12-01", Self.berlin) == [1_796_079_600, 1_796_166_000])
        #expect(try day("yesterday", .utc) == [1_795_996_800, 1_796_083_200])
        // 25 and 23 hours, where the clock is set.
        for (text, hours) in [("2026-10-25", 25.0), ("2026-03-29", 23)] {
            let bounds = try day(text, Self.berlin).compactMap(\.self)
            #expect(bounds[1] - bounds[0] == hours * 3_600, "\(text)")
        }
    }

    @Test(arguments: ["", "08:00", "today 08:00", "2026-12-01 12:00", "2026-12-01Z", "2026-13-01"])
    func whatIsNoDayIsRefused(text: String) {
        #expect(WrittenDay(argument: text) == nil)
    }

    @Test func aDayStandsAlone() {
        for words in [["--last", "2d"], ["--since", "today"], ["--until", "today"]] {
            #expect(throws: (any Error).self) { try TimeRange.parse(["--day", "today"] + words) }
        }
        for line in ["history --hours --day today", "queue redeliver --day today"] {
            #expect(throws: (any Error).self, "\(line)") {
                try EdgeGatewayCommand.parseAsRoot(line.split(separator: " ").map(String.init))
            }
        }
    }
}
