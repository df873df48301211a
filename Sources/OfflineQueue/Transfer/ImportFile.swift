import Basics
import Foundation

/// The part that may be read of one line of an export file; the rest of its fields is for people.
struct ImportLine: Sendable {
    /// Its number in the file, from 1.
    var line = 0
    var nonce: UInt64
    var number: Int64
    var time: UTC?
    var timeUncertainty: Duration?
    var bootID: String
    var uptime: Uptime
    var sensor: String
    var assignment: Int64
    var patient: String?
    var flags: UInt32
    var frame: [UInt8]
    var state: SampleState
    /// The states at further destinations, by their names.
    var further: [String: SampleState]
}

extension ImportLine {
    private struct Fields: Decodable {
        var uuid: String
        var time: String?
        var timeUncertainty: Int64?
        var boot: String
        var uptime: Uptime
        var sensor: String
        var assignment: Int64
        var patient: String?
        var flags: UInt32
        var frame: String
        var state: SampleState
        var further: [String: SampleState]?

        enum CodingKeys: String, CodingKey {
            case uuid, time, boot, sensor, assignment, patient, flags, frame, state, further
            case timeUncertainty = "time_uncertainty_ms"
            case uptime = "uptime_us"
        }
    }

    /// The run and the minute in which it was measured; of whole minutes windows are made.
    var minute: ImportMinute {
        ImportMinute(
            nonce: nonce,
            minute: (time?.microseconds ?? uptime.microseconds) / ImportMinute.length)
    }
    /// It waits for the assignment's own destination where it comes from.
    var isWaiting: Bool { state.isUnsent }
    /// The names of further destinations that it waits for.
    var waitsFor: [String] { further.filter { $0.value.isUnsent }.keys.sorted() }
    /// More than any gateway has.
    private static let furtherMax = 64
    /// Eight thousand years: longer than any machine runs.
    private static let uptimeMax = Uptime(microseconds: UTCText.latest.microseconds)

    /// A century, in milliseconds.
    private static let uncertaintyMax: Int64 = 100 * 366 * 86_400_000

    /// Reads one line; throws what is wrong with it.
    init(_ bytes: [UInt8], _ decoder: JSONDecoder) throws(ImportFault) {
        let fields: Fields
        do {
            fields = try decoder.decode(Fields.self, from: Data(bytes))
        } catch {
            throw ImportFault(reason: Self.reason(error))
        }
        guard let identity = SampleIdentity(text: fields.uuid), identity.kind == .heartRate,
            identity.sample > 0,
            SampleIdentity.isNonce(Int64(bitPattern: identity.runNonce))
        else { throw ImportFault(reason: "uuid is not a sample's") }
        let texts = [fields.boot, fields.sensor] + (fields.patient.map { [$0] } ?? [])
        guard texts.allSatisfy({ (1...SampleQueue.textCharactersMax).contains($0.count) }) else {
            throw ImportFault(reason: "boot, sensor or patient is empty or too long")
        }
        let further = fields.further ?? [:]
        guard further.count <= Self.furtherMax,
            further.keys.allSatisfy({ (1...SampleQueue.textCharactersMax).contains($0.count) })
        else { throw ImportFault(reason: "further names too many destinations, or one wrongly") }
        guard (.zero...Self.uptimeMax).contains(fields.uptime) else {
            throw ImportFault(reason: "uptime_us is out of range")
        }
        var time: UTC?
        if let text = fields.time {
            guard let read = UTCText.time(text) else {
                throw ImportFault(reason: "time is not of the form 2026-12-01T00:00:00.000000Z")
            }
            time = read
        }
        guard (0...Self.uncertaintyMax).contains(fields.timeUncertainty ?? 0) else {
            throw ImportFault(reason: "time_uncertainty_ms is out of range")
        }
        guard let frame = Self.bytes(hex: fields.frame), frame.count <= Arrival.frameBytesMax else {
            throw ImportFault(reason: "frame is not the hex of at most 512 octets")
        }
        self.init(
            nonce: identity.runNonce, number: identity.sample, time: time,
            timeUncertainty: fields.timeUncertainty.map { .milliseconds($0) }, bootID: fields.boot,
            uptime: fields.uptime, sensor: fields.sensor.uppercased(),
            assignment: fields.assignment, patient: fields.patient, flags: fields.flags,
            frame: frame, state: fields.state, further: further)
    }

    private static func reason(_ error: any Error) -> String {
        switch error as? DecodingError {
        case .keyNotFound(let key, _)?: "\(key.stringValue) is missing"
        case .typeMismatch(_, let context)?, .valueNotFound(_, let context)?,
            .dataCorrupted(let context)?:
            context.codingPath.last.map { "\($0.stringValue) has a value that cannot be" }
                ?? "it is no JSON object"
        default: "it is no JSON object"
        }
    }

    private static func bytes(hex: String) -> [UInt8]? {
        let digits = Array(hex.utf8)
        guard digits.count % 2 == 0 else { return nil }
        func value(_ digit: UInt8) -> UInt8? {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
            default: nil
            }
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = value(digits[index]), let low = value(digits[index + 1]) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }
}

/// A minute of a run.
struct ImportMinute: Hashable, Sendable {
    /// µs.
    static let length: Int64 = 60_000_000

    var nonce: UInt64
    var minute: Int64
}

/// The fault of a line.
struct ImportFault: Error {
    var reason: String
}

extension SampleIdentity {
    /// The nonce it is made of.
    var runNonce: UInt64 { (high >> 16) << 12 | (high & 0xFFF) }
    /// The sample's number in the store where it was recorded.
    var sample: Int64 { Int64(bitPattern: low >> 8) & Self.sampleMax }
    /// The kind of data point.
    var kind: DataPointKind { DataPointKind(rawValue: UInt8(truncatingIfNeeded: low)) }
}
