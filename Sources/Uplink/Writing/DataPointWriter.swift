/// What a strap says about itself in its Device Information Service, as far as it is known.
public struct StrapDatasheet: Sendable, Hashable {
    /// Who made it (0x2A29).
    public var manufacturer: String?
    /// Its model (0x2A24).
    public var model: String?
    /// Its firmware (0x2A26).
    public var firmware: String?

    /// What is known of a strap; nothing, by default.
    public init(manufacturer: String? = nil, model: String? = nil, firmware: String? = nil) {
        self.manufacturer = manufacturer
        self.model = model
        self.firmware = firmware
    }
}

/// One heart rate, measured.
public struct HeartRatePoint: Sendable, Hashable {
    /// The identity of the sample, a UUID. The same on every attempt to deliver it.
    public var uuid: String
    /// When it was measured, UTC microseconds since 1970.
    public var timeMicroseconds: Int64
    /// Beats per minute.
    public var bpm: Int

    /// A heart rate.
    public init(uuid: String, timeMicroseconds: Int64, bpm: Int) {
        self.uuid = uuid
        self.timeMicroseconds = timeMicroseconds
        self.bpm = bpm
    }
}

/// Writes Open mHealth data points for one strap: IEEE 1752.1 header, `heart-rate` 2.0 body.
///
/// Everything that is the same for all of a strap's data points is written down once, here.
public struct DataPointWriter: Sendable {
    private let afterIdentity: [UInt8]
    private let afterCreation: [UInt8]

    /// The schema version written when the exchange's code names none.
    static let schemaVersion = "2.0"
    /// Longest name kept of a datasheet member, in characters; GATT strings may run to 512 bytes.
    static let datasheetLengthMax = 64

    /// A writer for data points of `code` from a strap.
    public init(
        code: ObservationCode = ObservationCode(
            system: "https://w3id.org/openmhealth", code: "omh:heart-rate:2.0"),
        strap: StrapDatasheet = StrapDatasheet()
    ) {
        let named = code.code.split(separator: ":").dropFirst(2).first.map(String.init)
        var json = JSONBytes()
        json.raw(#"","schema_id":{"namespace":"omh","name":"heart-rate","version":"#)
        json.string(named ?? Self.schemaVersion)
        json.raw(#"},"source_creation_date_time":""#)
        afterIdentity = json.bytes

        json.removeAll()
        json.raw(#"","modality":"sensed""#)
        let sheets = [
            ("manufacturer", strap.manufacturer), ("model", strap.model),
            ("firmware", strap.firmware),
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
        json.raw(#"},"body":{"heart_rate":{"value":"#)
        afterCreation = json.bytes
    }

    /// The data point as JSON, ASCII only.
    public func dataPoint(_ point: HeartRatePoint) -> [UInt8] {
        var json = JSONBytes()
        write(point, to: &json)
        return json.bytes
    }

    func write(_ point: HeartRatePoint, to json: inout JSONBytes) {
        json.raw(#"{"header":{"uuid":""#)
        json.identity(point.uuid)
        json.raw(afterIdentity)
        let timeStart = json.count
        Timestamp(microseconds: point.timeMicroseconds).write(to: &json)
        let timeEnd = json.count
        json.raw(afterCreation)
        json.integer(point.bpm)
        json.raw(#","unit":"beats/min"},"effective_time_frame":{"date_time":""#)
        json.again(from: timeStart, to: timeEnd)
        json.raw(#""}}}"#)
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
}
