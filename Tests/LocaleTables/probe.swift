// What the program and its libraries may ask Foundation that ICU answers from its tables, each as one line.
import Foundation

setlocale(LC_ALL, "")
let instant = Date(timeIntervalSince1970: 1_795_566_546.73)
let berlin = TimeZone(identifier: "Europe/Berlin")

// The terminal, reports, file names.
print("iso", instant.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
print("description", instant.description)
print("format", String(format: "%.2f %% %5d %@ %02x", 1234.5, 42, "text", 255))
print(
    "bytes",
    ["strap 10", "Strap 9", "strap é", "strap f", "šumava", "10", "9"].sorted {
        $0.localizedStandardCompare($1) == .orderedAscending
    })

// GRDB: dates, and collations that a statement may name.
let formatter = DateFormatter()
formatter.calendar = Calendar(identifier: .gregorian)
formatter.locale = Locale(identifier: "en_US_POSIX")
formatter.timeZone = TimeZone(secondsFromGMT: 0)
formatter.dateFormat = "yyyy-MM-dd HH:mm:ss.SSS"
print(
    "grdb", formatter.string(from: instant), formatter.date(from: "2026-11-25 00:29:06.730") as Any)
for (one, other) in [("a", "B"), ("é", "f"), ("ß", "ss"), ("Å", "Z")] {
    print(
        "collation", one.compare(other).rawValue, one.localizedCompare(other).rawValue,
        one.localizedCaseInsensitiveCompare(other).rawValue,
        one.caseInsensitiveCompare(other).rawValue)
}

// Yams: a scalar's kind by regular expression.
for pattern in [
    "^([0-9]{4})-([0-9]{1,2})$", "^[-+]?(0|[1-9][0-9_]*)$", "\\p{Lu}\\w+", "\\bx\\b", "^\\X$",
] {
    let expression = try NSRegularExpression(pattern: pattern)
    let found = ["2026-11", "-12_000", "Ärzte", "a x b", "e\u{301}"].map {
        expression.firstMatch(in: $0, range: NSRange($0.startIndex..., in: $0)) != nil
    }
    print("regex", pattern, found)
}

// Times of day in a zone, over a change of the clocks.
var calendar = Calendar(identifier: .gregorian)
calendar.timeZone = berlin ?? .gmt
calendar.locale = Locale(identifier: "en_US_POSIX")
for day in stride(from: 1_792_800_000.0, through: 1_793_200_000, by: 100_000) {
    let date = Date(timeIntervalSince1970: day)
    let parts = calendar.dateComponents(
        [.year, .month, .day, .hour, .minute, .weekday, .weekOfYear], from: date)
    print(
        "calendar", parts.hour ?? -1, parts.day ?? -1, calendar.timeZone.secondsFromGMT(for: date))
}
print("zones", TimeZone(identifier: "America/St_Johns")?.secondsFromGMT(for: instant) as Any)

// Text and numbers.
print("case", "straße ıİ".uppercased(), "ÀÉ".lowercased(), "ada lovelace".capitalized)
print(
    "folding",
    "Crème Brûlée".folding(options: [.diacriticInsensitive, .caseInsensitive], locale: nil))
print(
    "normal", "ﬁ①".precomposedStringWithCompatibilityMapping,
    "e\u{301}".precomposedStringWithCanonicalMapping)
print("url", URL(string: "https://bücher.example/a b")?.absoluteString as Any)
let numbers = NumberFormatter()
numbers.locale = Locale(identifier: "en_US_POSIX")
numbers.numberStyle = .decimal
print("number", numbers.string(from: 1234567.891) as Any, numbers.number(from: "12.5") as Any)
let encoder = JSONEncoder()
encoder.dateEncodingStrategy = .iso8601
encoder.outputFormatting = [.sortedKeys]
print("json", String(decoding: try encoder.encode(["when": instant]), as: UTF8.self))
print("latin1", String(data: Data([0xE9, 0x74]), encoding: .isoLatin1) as Any)

// Of the person's locale nothing is shown, but it must do no harm.
_ = Locale.current.identifier
_ = Calendar.current.dateComponents([.day, .weekday], from: instant)
let local = DateFormatter()
local.dateStyle = .full
local.timeStyle = .full
local.timeZone = berlin
_ = local.string(from: instant)
_ = instant.formatted(date: .complete, time: .complete)
_ = 1234.5.formatted()
_ = Locale.current.currency?.identifier
_ = Locale(identifier: "de_DE").currencySymbol
_ = 1234.5.formatted(.currency(code: "EUR").presentation(.fullName))
let money = NumberFormatter()
money.numberStyle = .currency
_ = money.string(from: 1234.5)
_ = TimeZone.current.localizedName(for: .shortDaylightSaving, locale: .current)
_ = Locale.current.localizedString(forRegionCode: "DE")
print("well")
