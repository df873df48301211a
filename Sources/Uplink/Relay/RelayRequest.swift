import Basics
import OfflineQueue

/// A gateway's request to a relay: to deliver data points (docs/operate/relay.md has the form).
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
        json.raw(#"],"straps":"#)
        json.array(straps) { write($0, to: &$1) }
        json.raw("}")
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
            (#""firmware":"#, strap.firmware), (#""alias":"#, strap.alias),
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
        let document: Document?
        do {
            document = try IfAny<Document>(json: bytes).wrappedValue
        } catch {
            throw .unreadable
        }
        guard let document, document.v == Self.version else { throw .version }
        let patience = Duration.milliseconds(document.patienceMs ?? 0)
        guard RelayPatience.answerRange.contains(patience),
            let points = document.points?.elements, points.count <= Self.pointsMax,
            let straps = document.straps?.elements, straps.count <= Self.pointsMax
        else { throw .value }
        let isAlone = document.alone ?? false
        guard !isAlone || points.count == 1 else { throw .value }
        self.init(
            try points.map { point throws(Fault) in try Self.point(point, straps) },
            isAlone: isAlone, patience: patience)
    }

    private static func point(
        _ document: Document.Point, _ straps: [Document.Strap]
    ) throws(Fault) -> OutgoingPoint {
        guard let id = document.id, isIdentity(id), let patient = document.patient,
            PatientAccess.isPatientID(patient), let content = content(document),
            let index = document.strap, straps.indices.contains(Int(clamping: index))
        else { throw .value }
        let described = straps[Int(clamping: index)]
        let strap = StrapDatasheet(
            manufacturer: described.manufacturer, model: described.model,
            firmware: described.firmware, alias: described.alias)
        let texts = [strap.manufacturer, strap.model, strap.firmware, strap.alias]
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
        switch (document.bpm, document.bpmTenths, document.rrTicks) {
        case (let bpm?, nil, nil):
            guard 0...Int64(UInt16.max) ~= bpm, let at = time(document.atUs) else { return nil }
            return .heartRate(bpm: Int(bpm), at: at)
        case (nil, let tenths?, nil):
            guard 0...Int64(UInt16.max) * 10 ~= tenths, let count = document.count,
                1...countMax ~= count, let from = time(document.fromUs),
                let to = time(document.toUs),
                from < to, to - from <= windowMax
            else { return nil }
            return .averageHeartRate(tenths: Int(tenths), count: Int(count), window: from..<to)
        case (nil, nil, let ticks?):
            guard 1...Int64(UInt16.max) ~= ticks, let at = time(document.atUs) else { return nil }
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

/// The members of a request that are read.
private struct Document: Decodable {
    struct Point: Decodable, Sendable {
        @IfAny var id: String?
        @IfAny var patient: String?
        @IfAny var strap: Int64?
        @IfAny var bpm: Int64?
        @IfAny var bpmTenths: Int64?
        @IfAny var count: Int64?
        @IfAny var rrTicks: Int64?
        @IfAny var atUs: Int64?
        @IfAny var fromUs: Int64?
        @IfAny var toUs: Int64?
    }

    struct Strap: Decodable, Sendable {
        @IfAny var manufacturer: String?
        @IfAny var model: String?
        @IfAny var firmware: String?
        @IfAny var alias: String?
    }

    @IfAny var v: Int64?
    @IfAny var patienceMs: Int64?
    @IfAny var alone: Bool?
    @IfAny var points: FirstOf<Point>?
    @IfAny var straps: FirstOf<Strap>?
}

/// The first elements of an array. One more than a gateway sends is enough to see that there are too many, so that an
/// array of a hundred thousand costs no more.
private struct FirstOf<Element: Decodable & Sendable>: Decodable, Sendable {
    private(set) var elements: [Element] = []

    init(from decoder: any Decoder) throws {
        var list = try decoder.unkeyedContainer()
        while !list.isAtEnd, elements.count <= RelayRequest.pointsMax {
            elements.append(try list.decode(Element.self))
        }
    }
}
