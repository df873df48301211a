import Basics
import GATTHeartRate
import OfflineQueue

/// Writes Open mHealth data points for one strap: IEEE 1752.1 header, `heart-rate` 2.0 or
/// `rr-interval` 1.0 body.
///
/// Everything that is the same for all of a strap's data points is written down once, here.
public struct DataPointWriter: Sendable {
    /// The part that is the same for all data points of a code.
    private struct Schema: Sendable {
        /// The FHIR coding.
        let coding: [UInt8]
        /// From after the identity to before the time of creation.
        let afterIdentity: [UInt8]

        init(_ code: ObservationCode) {
            let parts = code.code.split(separator: ":").dropFirst().map(String.init)
            let name = parts.first ?? ""
            var json = JSONBytes()
            json.raw(#"{"system":"#)
            json.string(code.system)
            json.raw(#","code":"#)
            json.string(code.code)
            json.raw("}")
            coding = json.bytes
            json.removeAll()
            json.raw(#"","schema_id":{"namespace":"omh","name":"#)
            json.string(name)
            json.raw(#","version":"#)
            json.string(parts.dropFirst().first ?? (name == "rr-interval" ? "1.0" : "2.0"))
            json.raw(#"},"source_creation_date_time":""#)
            afterIdentity = json.bytes
        }
    }

    private let heartRate: Schema
    private let interval: Schema
    /// From after the time of creation on, as far as it is the same for all.
    private let afterCreation: [UInt8]

    /// Longest name kept of a datasheet member, in characters; GATT strings may run to 512 bytes.
    static let datasheetLengthMax = 64

    /// A writer for data points from a strap, heart rates under `code` and RR intervals under
    /// `intervalCode`. For a code that names no schema version, it writes the one it knows.
    public init(
        code: ObservationCode = .omhHeartRate, intervalCode: ObservationCode = .omhRRInterval,
        strap: StrapDatasheet = StrapDatasheet()
    ) {
        heartRate = Schema(code)
        interval = Schema(intervalCode)
        var json = JSONBytes()
        json.raw(#"","modality":"sensed""#)
        let sheets = [
            ("manufacturer", strap.manufacturer), ("model", strap.model),
            ("firmware", strap.firmware), ("strap", strap.alias),
        ]
        var separator: StaticString = #","external_datasheets":["#
        for (type, value) in sheets {
            guard let value, !value.isEmpty else { continue }
            json.raw(separator)
            json.raw(#"{"datasheet_type":"#)
            json.string(type)
            json.raw(#","datasheet_reference":"#)
            json.string("urn:x-edge-gateway:\(type):\(Self.iri(value))")
            json.raw("}")
            separator = ","
        }
        if separator.utf8CodeUnitCount == 1 { json.raw("]") }
        afterCreation = json.bytes
    }

    /// The data point as JSON, ASCII only.
    public func dataPoint(_ point: DataPoint) -> [UInt8] {
        var json = JSONBytes()
        write(point, to: &json)
        return json.bytes
    }

    /// The FHIR coding a data point goes out under.
    func coding(of point: DataPoint) -> [UInt8] {
        point.isInterval ? interval.coding : heartRate.coding
    }

    func write(_ point: DataPoint, to json: inout JSONBytes) {
        json.raw(#"{"header":{"uuid":""#)
        json.identity(point.uuid)
        json.raw(point.isInterval ? interval.afterIdentity : heartRate.afterIdentity)
        switch point.content {
        case .heartRate(let bpm, let time):
            let timeStart = json.count
            Timestamp(time).write(to: &json)
            let timeEnd = json.count
            writeAfterCreation(of: point, to: &json)
            json.raw(#"},"body":{"heart_rate":{"value":"#)
            json.integer(bpm)
            json.raw(#","unit":"beats/min"},"effective_time_frame":{"date_time":""#)
            json.again(from: timeStart, to: timeEnd)
            json.raw(#""}}}"#)
        case .averageHeartRate(let tenths, let count, let window):
            Timestamp(window.upperBound).write(to: &json)
            writeAfterCreation(of: point, to: &json)
            // How many measurements the average is of: readers weigh a full window otherwise.
            json.raw(#","acquisition_rate":{"number_of_times":"#)
            json.integer(count)
            json.raw(#","time_window":{"value":"#)
            json.integer(
                Int(window.upperBound.microseconds - window.lowerBound.microseconds) / 1_000_000)
            json.raw(#","unit":"sec"}}},"body":{"heart_rate":{"value":"#)
            json.decimal(tenths, places: 1)
            json.raw(#","unit":"beats/min"},"effective_time_frame":"#)
            json.timeInterval(window.lowerBound, window.upperBound)
            json.raw(#","descriptive_statistic":"average"}}"#)
        case .interval(let ticks, let end):
            Timestamp(end).write(to: &json)
            writeAfterCreation(of: point, to: &json)
            json.raw(#"},"body":{"rr_interval":{"value":"#)
            // Exact: a tick is 1000/1024 ms, 9,765,625 ten-millionths.
            json.decimal(Int(ticks) * 9_765_625, places: 7)
            json.raw(#","unit":"ms"},"effective_time_frame":"#)
            json.timeInterval(DataPoint.start(of: ticks, end: end), end)
            json.raw("}}")
        }
    }

    /// The rest of the header. `time_uncertainty` is a member of ours: the header's schema leaves room for more.
    private func writeAfterCreation(of point: DataPoint, to json: inout JSONBytes) {
        json.raw(afterCreation)
        guard let uncertainty = point.timeUncertainty else { return }
        json.raw(#","time_uncertainty":{"value":"#)
        json.decimal(Int(clamping: uncertainty.millisecondsAtMost), places: 3)
        json.raw(#","unit":"sec"}"#)
    }

    /// A datasheet reference must be an IRI (IEEE 1752.1 header): what an IRI's path may not hold is
    /// percent-encoded (RFC 3987 §2.2); letters of other scripts may stay.
    static func iri(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(datasheetLengthMax) {
            let stays =
                switch scalar.value {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
                case 0xA0...0xD7FF, 0xF900...0xFDCF, 0xFDF0...0xFFEF: true
                // All other planes but their last two code points and the private ones.
                case 0x10000...0xDFFFF: scalar.value & 0xFFFF <= 0xFFFD
                default: false
                }
            if stays {
                result.unicodeScalars.append(scalar)
            } else {
                result += String(scalar).utf8.map { byte in
                    "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
                }.joined()
            }
        }
        return result
    }
}

extension JSONBytes {
    /// Appends a UUID without quotes. It is hexadecimal and hyphens by construction; anything else
    /// is left out rather than written unescaped.
    mutating func identity(_ uuid: String) {
        _ = appendPlain(uuid) {
            0x30...0x39 ~= $0 || 0x61...0x66 ~= $0 || 0x41...0x46 ~= $0 || $0 == 0x2D
        }
    }

    /// Appends an Open mHealth time frame from one time to another.
    fileprivate mutating func timeInterval(_ start: UTC, _ end: UTC) {
        raw(#"{"time_interval":{"start_date_time":""#)
        Timestamp(start).write(to: &self)
        raw(#"","end_date_time":""#)
        Timestamp(end).write(to: &self)
        raw(#""}}"#)
    }
}
