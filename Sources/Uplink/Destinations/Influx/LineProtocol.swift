import Basics
import OfflineQueue

/// Writes InfluxDB's line protocol, ASCII and UTF-8, times in nanoseconds:
///
///     heart_rate,sensor=1,patient=40001 bpm=72 1763798400123456017
///
/// A point is known by its tags and its time. Two samples of one sensor may share a microsecond, so the
/// digits below it are the sample's number, modulo 1000: the same at every attempt, and different for
/// neighbours. What comes late makes another average of the same window, so an average is as many nanoseconds
/// behind the window's start as its number says. Two assignments of one sensor on one day differ by theirs.
struct LineProtocol {
    private var json = JSONBytes()

    var bytes: [UInt8] { json.bytes }

    mutating func reserve(_ count: Int) { json.reserve(count) }

    mutating func write(_ point: OutgoingPoint, _ gatewayTag: [UInt8], patient: String?) {
        switch point.point.content {
        case .heartRate: json.raw("heart_rate")
        case .averageHeartRate(_, _, let window):
            json.raw("heart_rate_")
            json.integer(
                Int(window.upperBound.microseconds - window.lowerBound.microseconds) / 1_000_000)
            json.raw("s")
        case .interval: json.raw("rr_interval")
        }
        json.raw(",sensor=")
        json.integer(Int(point.sensorID))
        json.raw(gatewayTag)
        if let patient { tag("patient", patient) }
        let time: UTC
        var nanoseconds = point.point.number % 1000
        // Numbers without a suffix are floats: the first write fixes a field's type.
        switch point.point.content {
        case .heartRate(let bpm, let at):
            json.raw(" bpm=")
            json.integer(bpm)
            time = at
        case .averageHeartRate(let tenths, let count, let window):
            json.raw(" bpm=")
            json.decimal(tenths, places: 1)
            json.raw(",count=")
            json.integer(count)
            time = window.lowerBound
            let length = (window.upperBound - window.lowerBound).microseconds * 1000
            nanoseconds = point.point.number % max(Int(length), 1)
        case .interval(let ticks, let end):
            json.raw(" ms=")
            json.decimal(Int(ticks) * 9_765_625, places: 7)
            time = end
        }
        end(time, nanoseconds)
    }

    /// Appends an entry of the gap ledger. A gap whose time is unknown has no place in such a database.
    ///
    ///     heart_rate_gap,sensor=1,cause=out-of-range seconds=72.5 1763798400000000000
    ///     heart_rate_coverage,sensor=1 expected=86400,covered=86327.5,out_of_range=72.5 1763769600000000000
    mutating func write(_ entry: LedgerEntry, _ gatewayTag: [UInt8], patient: String?) {
        let time: UTC
        var nanoseconds = 0
        switch entry.content {
        case .gap(let cause, let from, _, let length):
            guard let from, let length else { return }
            head("heart_rate_gap", entry, gatewayTag, patient: patient)
            tag("cause", cause.rawValue)
            json.raw(" seconds=")
            json.decimal(Int(length.microseconds), places: 6)
            time = from
        case .coverage(let day, let coverage):
            head("heart_rate_coverage", entry, gatewayTag, patient: patient)
            json.raw(" expected=")
            json.seconds(coverage.expectedSeconds)
            json.raw(",covered=")
            json.seconds(coverage.coveredSeconds)
            for (cause, seconds) in coverage.sortedCauses {
                json.raw(",")
                json.raw(cause.rawValue.replacing("-", with: "_").utf8)
                json.raw("=")
                json.seconds(seconds)
            }
            time = UTC(day: day)
            nanoseconds = Int(entry.assignmentID % 1000)
        }
        end(time, nanoseconds)
    }

    private mutating func end(_ time: UTC, _ nanoseconds: Int) {
        let start = min(max(time.microseconds, 0), Self.microsecondsMax)
        json.raw(" ")
        json.integer(Int(min(start + Int64(nanoseconds / 1000), Self.microsecondsMax)))
        json.digits(nanoseconds % 1000, 3)
        json.raw("\n")
    }

    private mutating func head(
        _ measurement: StaticString, _ entry: LedgerEntry, _ gatewayTag: [UInt8], patient: String?
    ) {
        json.raw(measurement)
        json.raw(",sensor=")
        json.integer(Int(entry.sensorID))
        json.raw(gatewayTag)
        if let patient { tag("patient", patient) }
    }

    /// Appends `,name=value`, with what has a meaning in the protocol escaped. Nothing for an empty value,
    /// which a tag cannot have.
    mutating func tag(_ name: StaticString, _ value: String) {
        guard !value.isEmpty else { return }
        json.raw(",")
        json.raw(name)
        json.raw("=")
        var escaped: [UInt8] = []
        for byte in value.utf8 where byte >= 0x20 && byte != 0x7F {
            if [0x2C, 0x3D, 0x20].contains(byte) { escaped.append(0x5C) }
            // Servers disagree about what a backslash of the value's own is.
            escaped.append(byte == 0x5C ? UInt8(ascii: "_") : byte)
        }
        json.raw(escaped)
    }

    /// The last time that nanoseconds in 64 bits can say, in the year 2262, less what is appended.
    private static let microsecondsMax: Int64 = .max / 1000 - 1
}
