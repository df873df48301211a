import Basics
import OfflineQueue

/// What a gateway asks of a relay: to deliver data points (docs/relay.md has the form).
///
/// It holds values and no documents: what the exchange gets is written by the relay, under the code and
/// device that the exchange wants.
struct RelayRequest: Sendable, Hashable {
    /// The data points, each with its patient.
    var points: [OutgoingPoint]
    /// Whether the single point is to be sent by itself, for an honest reason.
    var isAlone = false
    /// How long the gateway waits for the answer, to the millisecond.
    var patience = RelayPatience.answer

    /// Why a request is not taken.
    enum Fault: Error, Hashable {
        /// It is no JSON, or too large.
        case unreadable
        /// It is of another version of this form.
        case version
        /// A value is missing or out of its range.
        case value
    }

    /// The version of the form.
    static let version: Int64 = 1
    /// Most data points: what a bundle has.
    static let pointsMax = 100
    /// Largest request read: a hundred points have some 12 KB.
    static let bytesMax = 256 << 10
    /// Values of GATT strings have up to 512 bytes.
    private static let textBytesMax = 512
    /// The longest window of an average.
    private static let windowMax = Duration.seconds(3_600)
    private static let countMax: Int64 = 1_000_000

    // MARK: - Writing

    /// The request as JSON; the same bytes for the same request. Nil when a point has no patient.
    var bytes: [UInt8]? {
        var json = JSONBytes()
        json.reserve(points.count * 160 + 256)
        json.raw(#"{"v":1,"patience_ms":"#)
        json.integer(Int(patience.microseconds / 1000))
        if isAlone { json.raw(#","alone":true"#) }
        var straps: [StrapDatasheet] = []
        json.raw(#","points":["#)
        for (index, point) in points.enumerated() {
            guard let patient = point.patient else { return nil }
            if index > 0 { json.raw(",") }
            let strap =
                straps.firstIndex(of: point.strap)
                ?? {
                    straps.append(point.strap)
                    return straps.count - 1
                }()
            write(point, patient, strap, to: &json)
        }
        json.raw(#"],"straps":["#)
        for (index, strap) in straps.enumerated() {
            if index > 0 { json.raw(",") }
            write(strap, to: &json)
        }
        json.raw("]}")
        return json.bytes
    }

    private func write(
        _ point: OutgoingPoint, _ patient: String, _ strap: Int, to json: inout JSONBytes
    ) {
        json.raw(#"{"id":""#)
        json.identity(point.point.uuid)
        json.raw(#"","patient":"#)
        json.string(patient)
        json.raw(#","strap":"#)
        json.integer(strap)
        func number(_ name: StaticString, _ value: Int) {
            json.raw(name)
            json.integer(value)
        }
        switch point.point.content {
        case .heartRate(let bpm, let time):
            number(#","bpm":"#, bpm)
            number(#","at_us":"#, Int(time.microseconds))
        case .averageHeartRate(let tenths, let count, let window):
            number(#","bpm_tenths":"#, tenths)
            number(#","count":"#, count)
            number(#","from_us":"#, Int(window.lowerBound.microseconds))
            number(#","to_us":"#, Int(window.upperBound.microseconds))
        case .interval(let ticks, let end):
            number(#","rr_ticks":"#, Int(ticks))
            number(#","at_us":"#, Int(end.microseconds))
        }
        json.raw("}")
    }

    private func write(_ strap: StrapDatasheet, to json: inout JSONBytes) {
        let details: [(StaticString, String?)] = [
            (#""manufacturer":"#, strap.manufacturer), (#""model":"#, strap.model),
            (#""firmware":"#, strap.firmware),
        ]
        json.raw("{")
        var isFirst = true
        for (name, value) in details {
            guard let value else { continue }
            if !isFirst { json.raw(",") }
            isFirst = false
            json.raw(name)
            json.string(value)
        }
        json.raw("}")
    }

    // MARK: - Reading

    /// A request of these data points.
    init(
        _ points: [OutgoingPoint], isAlone: Bool = false, patience: Duration = RelayPatience.answer
    ) {
        self.points = points
        self.isAlone = isAlone
        self.patience = patience
    }

    /// Reads what came from a gateway, which may be anybody's.
    init(reading bytes: [UInt8]) throws(Fault) {
        guard bytes.count <= Self.bytesMax else { throw .unreadable }
        let document: Document
        do {
            document = try JSONReader.read(bytes, Document.init(reading:))
        } catch {
            throw .unreadable
        }
        guard document.version == Self.version else { throw .version }
        let patience = Duration.milliseconds(document.patience ?? 0)
        guard RelayPatience.answerRange.contains(patience),
            document.points.count <= Self.pointsMax, document.straps.count <= Self.pointsMax,
            !document.isAlone || document.points.count == 1
        else { throw .value }
        self.init(
            try document.points.map { point throws(Fault) in
                try Self.point(point, document.straps)
            }, isAlone: document.isAlone, patience: patience)
    }

    private static func point(
        _ document: Document.Point, _ straps: [StrapDatasheet]
    ) throws(Fault) -> OutgoingPoint {
        guard let id = document.id, isIdentity(id), let patient = document.patient,
            PatientAccess.isPatientID(patient), let content = content(document),
            let index = document.strap, straps.indices.contains(Int(clamping: index))
        else { throw .value }
        let strap = straps[Int(clamping: index)]
        let texts = [strap.manufacturer, strap.model, strap.firmware]
        guard texts.allSatisfy({ ($0 ?? "").utf8.count <= textBytesMax }) else { throw .value }
        return OutgoingPoint(
            DataPoint(uuid: id, content), patient: patient, sensorID: index, strap: strap)
    }

    private static func content(_ document: Document.Point) -> DataPoint.Content? {
        func time(_ microseconds: Int64?) -> UTC? {
            microseconds.map { UTC(microseconds: $0) }.flatMap {
                Timestamp.range.contains($0) ? $0 : nil
            }
        }
        switch (document.bpm, document.tenths, document.ticks) {
        case (let bpm?, nil, nil):
            guard 0...Int64(UInt16.max) ~= bpm, let at = time(document.at) else { return nil }
            return .heartRate(bpm: Int(bpm), at: at)
        case (nil, let tenths?, nil):
            guard 0...Int64(UInt16.max) * 10 ~= tenths, let count = document.count,
                1...countMax ~= count, let from = time(document.from), let to = time(document.to),
                from < to, to - from <= windowMax
            else { return nil }
            return .averageHeartRate(tenths: Int(tenths), count: Int(count), window: from..<to)
        case (nil, nil, let ticks?):
            guard 1...Int64(UInt16.max) ~= ticks, let at = time(document.at) else { return nil }
            return .interval(ticks: UInt16(ticks), end: at)
        default: return nil
        }
    }

    /// Whether `text` is a UUID of version 8 as gateways make them: it becomes part of a document.
    private static func isIdentity(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36, bytes[14] == UInt8(ascii: "8") else { return false }
        return bytes.indices.allSatisfy { index in
            [8, 13, 18, 23].contains(index)
                ? bytes[index] == UInt8(ascii: "-")
                : 0x30...0x39 ~= bytes[index] || 0x61...0x66 ~= bytes[index]
        }
    }
}

/// What is of interest in a request. Of members with the same name the last one counts.
private struct Document {
    struct Point {
        var id, patient: String?
        var strap, bpm, tenths, count, ticks, at, from, to: Int64?
    }

    var version, patience: Int64?
    var isAlone = false
    var points: [Point] = []
    var straps: [StrapDatasheet] = []
    /// One more than anybody sends, which shows that there are too many.
    private static let countMax = RelayRequest.pointsMax + 1

    init(reading reader: inout JSONReader) throws(JSONReader.Fault) {
        try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
            switch name {
            case "v": version = try reader.integerIfAny()
            case "patience_ms": patience = try reader.integerIfAny()
            case "alone": isAlone = try reader.truthIfAny() ?? false
            case "points":
                points = try reader.listIfAny(atMost: Self.countMax, Self.point) ?? []
            case "straps":
                straps = try reader.listIfAny(atMost: Self.countMax, Self.strap) ?? []
            default: try reader.skip()
            }
        }
    }

    private static func point(_ reader: inout JSONReader) throws(JSONReader.Fault) -> Point {
        var point = Point()
        try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
            switch name {
            case "id": point.id = try reader.stringIfAny()
            case "patient": point.patient = try reader.stringIfAny()
            case "strap": point.strap = try reader.integerIfAny()
            case "bpm": point.bpm = try reader.integerIfAny()
            case "bpm_tenths": point.tenths = try reader.integerIfAny()
            case "count": point.count = try reader.integerIfAny()
            case "rr_ticks": point.ticks = try reader.integerIfAny()
            case "at_us": point.at = try reader.integerIfAny()
            case "from_us": point.from = try reader.integerIfAny()
            case "to_us": point.to = try reader.integerIfAny()
            default: try reader.skip()
            }
        }
        return point
    }

    private static func strap(
        _ reader: inout JSONReader
    ) throws(JSONReader.Fault) -> StrapDatasheet {
        var strap = StrapDatasheet()
        try reader.objectIfAny { reader, name throws(JSONReader.Fault) in
            switch name {
            case "manufacturer": strap.manufacturer = try reader.stringIfAny()
            case "model": strap.model = try reader.stringIfAny()
            case "firmware": strap.firmware = try reader.stringIfAny()
            default: try reader.skip()
            }
        }
        return strap
    }
}
