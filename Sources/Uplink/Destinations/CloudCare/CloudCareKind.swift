import Basics
import Foundation
import OfflineQueue

/// CloudCare, to which CloudSync's phones deliver what Apple Health has.
///
/// A strap is a device there, which belongs to the patient whose phone scanned its code. Its identifier is
/// made of a key of this gateway's, the strap and the patient: who knows it may write for that patient, and a
/// strap that goes to the next patient is another device. One sample after another is imported; the call that
/// takes batches keeps only their average.
public struct CloudCareKind: HTTPKind {
    let url: BaseURL
    let gateway: String
    let token: Secret?
    let deviceKey: Secret

    public static let name = "cloudcare"
    public static let summary = "CloudCare (CloudSync): straps are paired there by a QR code"
    public static let fields = [
        SettingField("url", "CloudCare's API, such as https://cloudcare.example/api/v1"),
        SettingField("gateway", "this gateway's name there: letters, digits, '-', '_' and '.'"),
        SettingField(
            "token", .optional, isSecret: true,
            "the operator's key, where a proxy before CloudCare asks for one"),
        SettingField(
            "device-key", .made, isSecret: true,
            "what the straps' identifiers there are made of; without it they are paired anew"),
    ]
    public static let promise = DeliveryPromise(
        level: .accepted, mayRepeat: false, mayRace: false,
        words:
            "CloudCare counted the sample as stored or known; it is known by strap and millisecond")

    /// Requests that it works off in a second or two; it writes one sample after the other.
    public static let pace = DestinationPace(batch: 300)

    public static func remedy(_ reason: HoldReason) -> String? {
        switch reason {
        case .pairingLost:
            "scan the code that edge-gateway destination code NAME shows with the patient's phone"
        case .patientUnknown: "the patient's account at CloudCare is gone: pair for another one"
        default: nil
        }
    }

    public init(_ values: SettingValues) throws(DestinationProblem) {
        url = try values.url("url")
        gateway = try values.name("gateway", and: "-_.")
        token = values.secret("token")
        guard let key = values.secret("device-key"), key.revealed.utf8.count >= 16 else {
            throw DestinationProblem(
                "device-key is too short", "leave it out: the gateway makes one")
        }
        deviceKey = key
    }

    public var origin: Origin { url.origin }

    /// The patient's phone says whose the strap is.
    public var patientIdentity: PatientIdentity { .none }

    /// CloudCare has no type for them.
    public var takesIntervals: Bool { false }

    public func tokens(_ parts: DestinationParts) -> (any TokenSource)? {
        token.map { FixedToken(secret: $0) }
    }

    // MARK: - Pairing

    /// The code for a strap and patient: CloudSync's JSON, to which the phone adds whose it is.
    public func pairingCode(sensorID: Int64, patient: String?, now: UTC) -> PairingCode? {
        let expires = now + Self.codeLifetime
        let device = deviceID(sensorID, patient)
        var json = JSONBytes()
        json.raw(#"{"userId":"#)
        json.string(gateway)
        json.raw(#","deviceId":"#)
        json.string(device)
        json.raw(#","deviceName":"#)
        json.string("Chest strap \(sensorID)")
        json.raw(#","deviceType":"ble_heart_rate","generatedAt":""#)
        Timestamp(now).write(to: &json)
        json.raw(#"","expiresAt":""#)
        Timestamp(expires).write(to: &json)
        json.raw(#"","pairingCode":"#)
        json.string(Self.shortCode(device))
        json.raw("}")
        return PairingCode(
            text: String(decoding: json.bytes, as: UTF8.self),
            expires: expires)
    }

    /// How long a code may be scanned, as CloudSync's own.
    static let codeLifetime = Duration.seconds(15 * 60)

    /// A UUID of version 8 (RFC 9562 §5.8) that only this gateway can make.
    func deviceID(_ sensorID: Int64, _ patient: String?) -> String {
        var digest = Digests.hmacSHA256(
            key: Array(deviceKey.revealed.utf8), Array("\(sensorID)\n\(patient ?? "")".utf8))
        digest[6] = digest[6] & 0x0F | 0x80
        digest[8] = digest[8] & 0x3F | 0x80
        var id = ""
        for (index, byte) in digest.prefix(16).enumerated() {
            if [4, 6, 8, 10].contains(index) { id += "-" }
            id += Digests.hex([byte])
        }
        return id
    }

    /// Eight characters that a person could compare, as CloudSync shows them.
    private static func shortCode(_ device: String) -> String {
        let letters = device.filter { $0 != "-" }.suffix(8).uppercased()
        return "\(letters.prefix(4))-\(letters.suffix(4))"
    }

    // MARK: - Importing

    /// An import is of one device.
    public func batches(of points: [OutgoingPoint], _ context: RequestContext) -> [[OutgoingPoint]]
    {
        /// The facts that a device's identifier is made of.
        struct Device: Hashable {
            var sensorID: Int64
            var patient: String?
        }
        var order: [Device] = []
        var byDevice: [Device: [OutgoingPoint]] = [:]
        for point in points {
            let device = Device(
                sensorID: point.sensorID, patient: point.patient ?? context.patient)
            if byDevice[device] == nil { order.append(device) }
            byDevice[device, default: []].append(point)
        }
        return order.compactMap { byDevice[$0] }
    }

    public func request(_ points: [OutgoingPoint], _ context: RequestContext) -> HTTPRequest {
        guard let first = points.first, let last = points.last else {
            return HTTPRequest(.get, origin, "/health")
        }
        var json = JSONBytes()
        json.reserve(points.count * 260)
        json.raw(#"{"deviceId":"#)
        json.string(deviceID(first.sensorID, first.patient ?? context.patient))
        json.raw(#","userId":"#)
        json.string(gateway)
        json.raw(#","exportTimestamp":""#)
        Timestamp(UTC(microseconds: context.seconds * 1_000_000)).write(to: &json)
        json.raw(#"","dataRange":{"startDate":""#)
        Timestamp(first.point.span.lowerBound).write(to: &json)
        json.raw(#"","endDate":""#)
        Timestamp(last.point.span.upperBound).write(to: &json)
        json.raw(#""},"metrics":"#)
        json.array(points) { $1.metric($0) }
        json.raw("}")
        return HTTPRequest(
            .post, origin, "\(url.path)/wearables/import/apple-health",
            contentType: "application/json", body: json.bytes)
    }

    // MARK: - Answers

    public static let answers = [
        AnswerRow(403, contains: "not paired", .held(.pairingLost)),
        AnswerRow(404, contains: "patient account not found", .held(.patientUnknown)),
        AnswerRow(400, .refused),
        AnswerRow(422, .refused),
        AnswerRow(500, .suspect),
    ]

    /// The counts that an import answers with.
    private struct Counts: Decodable {
        var totalMetrics: Int
        var storedCount: Int
        var duplicateCount: Int
        var errorCount: Int

        init?(_ answer: HTTPAnswer) {
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            guard let counts = try? decoder.decode(Self.self, from: Data(answer.body)) else {
                return nil
            }
            self = counts
        }

        /// Whether all of `count` samples are there, now or before.
        func isAll(_ count: Int) -> Bool {
            let (known, isTooMany) = storedCount.addingReportingOverflow(duplicateCount)
            return totalMetrics == count && errorCount == 0 && !isTooMany && known == count
                && min(storedCount, duplicateCount) >= 0
        }
    }

    /// Of a 201 its counts are the verdict: a sample that it cannot read is left out or counted as an error, and
    /// which one it was is not said. Its database's failures are counted in the same way, so a count is no word
    /// against the sample.
    public func meaning(of answer: HTTPAnswer, to count: Int) -> AnswerMeaning {
        guard answer.status == 201 || count == 0 && answer.status == 200 else {
            return meaning(of: answer)
        }
        // A page is a captive portal's, or another server's.
        guard answer.content == .document else { return .unclear }
        if answer.status == 200 { return .stored }
        guard let counts = Counts(answer) else { return .unclear }
        return counts.isAll(count) ? .stored : .suspect
    }

    public func probe(
        _ parts: DestinationParts
    ) async throws(DestinationProblem) -> ProbeReport {
        let destination = HTTPDestination(self, tokens: tokens(parts), parts)
        try await destination.probe()
        return ProbeReport(
            checked: ["\(origin) reports that it works"],
            unchecked: [
                "whether a strap is paired there: edge-gateway destination code NAME shows the codes"
            ])
    }
}

extension JSONBytes {
    /// Appends a data point as a metric of Apple Health:
    ///
    ///     {"type":"HKQuantityTypeIdentifierHeartRate","value":72,"unit":"bpm","startDate":"2026-11-22T08:00:00.121Z",
    ///      "endDate":"2026-11-22T08:00:00.121Z","sourceApp":"H10","metadata":{"measuredAt":"2026-11-22T08:00:00.123456Z"}}
    fileprivate mutating func metric(_ point: OutgoingPoint) {
        let span = point.point.span
        raw(#"{"type":"HKQuantityTypeIdentifierHeartRate","value":"#)
        switch point.point.content {
        case .heartRate(let bpm, _): integer(bpm)
        case .averageHeartRate(let tenths, _, _): decimal(tenths, places: 1)
        case .interval: integer(0)
        }
        raw(#","unit":"bpm","startDate":""#)
        let end = UTC(microseconds: point.point.ownMillisecond * 1000)
        let start = span.lowerBound == span.upperBound ? end : span.lowerBound
        Timestamp(start).write(to: &self)
        raw(#"","endDate":""#)
        Timestamp(end).write(to: &self)
        raw(#"","sourceApp":"#)
        string(
            String((point.strap.model ?? "EdgeGateway").prefix(DataPointWriter.datasheetLengthMax)))
        raw(#","metadata":{"measuredAt":""#)
        Timestamp(span.lowerBound).writeMicroseconds(to: &self)
        raw(#""}}"#)
    }
}
