import Basics
import GATTHeartRate

/// One sample as a line of an export file.
struct ExportLine: Sendable {
    static let formatName = "edge-gateway-samples"
    static let formatVersion = 1
    static let header = "{\"format\":\"\(formatName)\",\"version\":\(formatVersion)}"

    /// The last line: without it, the file is not whole.
    static func trailer(_ summary: ExportSummary) -> String {
        "{\"samples\":\(summary.samples),\"damaged\":\(summary.damaged)}"
    }

    private let sample: SampleRow
    private let segment: ExportedSegment
    private let state: SampleState
    /// The states at further destinations, by their names.
    private let further: [(name: String, state: SampleState)]

    /// `letters` tells of each destination at which the sample has died whether it was put back since.
    init(
        _ sample: SampleRow, _ segment: ExportedSegment, letters: [ExportedLetters.Place: Bool]
    ) {
        self.sample = sample
        self.segment = segment
        state = segment.own.state(of: sample.id, letters[.own])
        further = segment.further.map { id, books in
            (books.name ?? "", books.state(of: sample.id, letters[.further(id)]))
        }
    }

    /// Whether it waits anywhere.
    var isUnsent: Bool { state.isUnsent || further.contains { $0.state.isUnsent } }

    /// Its state at the destination of this name; nil if it does not go there.
    func state(at destination: String) -> SampleState? {
        if segment.own.name == destination { return state }
        return further.first { $0.name == destination }?.state
    }

    /// The same as a line that is read.
    var asRead: ImportLine {
        ImportLine(
            nonce: segment.nonce, number: sample.id &- segment.identityShift,
            time: sample.time(segment.wallOffset),
            timeUncertainty: sample.timeUncertainty(segment.clock), bootID: segment.bootID,
            uptime: sample.uptime,
            sensor: segment.sensor, assignment: segment.assignmentID, patient: segment.patient,
            flags: UInt32(truncatingIfNeeded: sample.flags), frame: sample.frame, state: state,
            further: Dictionary(
                further.map { ($0.name, $0.state) }, uniquingKeysWith: { first, _ in first }))
    }

    private var uuid: String {
        SampleIdentity(
            runNonce: segment.nonce, sample: sample.id &- segment.identityShift
        ).description
    }

    private var time: String? {
        sample.time(segment.wallOffset).flatMap(UTCText.text)
    }

    /// Whole milliseconds, rounded up.
    private var uncertainty: String? {
        guard time != nil, let bound = sample.timeUncertainty(segment.clock) else { return nil }
        return String(bound.millisecondsAtMost)
    }

    private var measurement: HeartRateMeasurement? {
        try? HeartRateMeasurement(frame: sample.frame)
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(
            decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 0xF)]] },
            as: UTF8.self)
    }

    var json: String {
        var line = "{\"uuid\":\"\(uuid)\""
        func add(_ name: String, _ value: String?) {
            if let value { line += ",\"\(name)\":\(value)" }
        }
        add("time", time.map(Self.quoted))
        add("time_uncertainty_ms", uncertainty)
        add("boot", Self.quoted(segment.bootID))
        add("uptime_us", String(sample.uptime.microseconds))
        add("sensor", Self.quoted(segment.sensor))
        add("assignment", String(segment.assignmentID))
        add("enrollment", segment.own.name.map(Self.quoted))
        add("patient", segment.patient.map(Self.quoted))
        if let measurement {
            add("bpm", String(measurement.bpm))
            if !measurement.rrIntervals.isEmpty {
                let ticks = measurement.rrIntervals.map(String.init).joined(separator: ",")
                add("rr_1024", "[\(ticks)]")
            }
        }
        add("flags", String(UInt32(truncatingIfNeeded: sample.flags)))
        add("frame", Self.quoted(Self.hex(sample.frame)))
        add("state", Self.quoted(state.rawValue))
        if !further.isEmpty {
            let states = further.map { "\(Self.quoted($0.name)):\(Self.quoted($0.state.rawValue))" }
            add("further", "{\(states.joined(separator: ","))}")
        }
        return line + "}"
    }

    var csv: String {
        let measurement = measurement
        let fields: [String] = [
            uuid, time ?? "", uncertainty ?? "", segment.bootID, String(sample.uptime.microseconds),
            segment.sensor,
            String(segment.assignmentID), segment.own.name ?? "", segment.patient ?? "",
            measurement.map { String($0.bpm) } ?? "",
            measurement?.rrIntervals.map(String.init).joined(separator: " ") ?? "",
            Plausibility(rawValue: UInt16(truncatingIfNeeded: sample.flags)).names
                .joined(separator: " "), Self.hex(sample.frame), state.rawValue,
            further.map { "\($0.name)=\($0.state.rawValue)" }.joined(separator: " "),
        ]
        return ExportColumn.line(fields)
    }

    /// A JSON string in ASCII.
    private static func quoted(_ text: String) -> String {
        var result = "\""
        for unit in text.utf16 {
            switch unit {
            case 0x22: result += "\\\""
            case 0x5C: result += "\\\\"
            case 0x20..<0x7F: result.unicodeScalars.append(Unicode.Scalar(UInt8(unit)))
            default:
                let digits = String(unit, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
        return result + "\""
    }
}

/// Where a sample stands at one of its destinations.
public enum SampleState: String, Sendable, Hashable, Codable, CaseIterable {
    /// It waits for its turn.
    case pending
    /// It waits for a person.
    case held
    /// The destination refused it for good.
    case dead
    /// The destination has it.
    case delivered
    /// A policy or a person has withheld it.
    case dropped

    /// Whether it is still to be delivered.
    var isUnsent: Bool { self == .pending || self == .held }
}
