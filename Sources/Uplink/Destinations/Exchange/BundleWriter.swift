/// Writes FHIR R5 `batch` bundles of Open mHealth observations, byte for byte the same on every
/// attempt.
///
/// An entry is about 870 bytes: the Open mHealth data point goes into it as base64.
public struct BundleWriter: Sendable {
    /// One observation to be.
    public struct Entry: Sendable {
        /// The content.
        public var point: DataPoint
        /// The patient's identifier at the exchange.
        public var patient: String
        /// The writer for the strap it came from.
        public var writer: DataPointWriter
        /// The device's identifier at the exchange; nil for the bundle writer's own.
        public var device: String?

        /// An entry; without `device` it is attributed to the bundle writer's own.
        public init(
            point: DataPoint, patient: String, writer: DataPointWriter, device: String? = nil
        ) {
            self.point = point
            self.patient = patient
            self.writer = writer
            self.device = device
        }
    }

    private let beforeIdentity: [UInt8]
    private let device: String

    /// Bytes set aside for each entry before writing, to spare growing in steps.
    private static let entryBytesTypical = 1200

    /// A writer for observations that name `device`. Sample identifiers are unique over a whole
    /// exchange, so `identifierSystem`, a URI, is the gateway's own.
    public init(device: String, identifierSystem: String) {
        var json = JSONBytes()
        json.raw(#"{"resourceType":"Observation","status":"final","identifier":[{"system":"#)
        json.string(identifierSystem)
        json.raw(#","value":""#)
        beforeIdentity = json.bytes
        self.device = device
    }

    /// A bundle that creates one observation per entry, in order.
    public func bundle(_ entries: [Entry]) -> [UInt8] {
        var json = JSONBytes()
        var scratch = JSONBytes()
        json.reserve(entries.count * Self.entryBytesTypical)
        json.raw(#"{"resourceType":"Bundle","type":"batch","entry":"#)
        json.array(entries) { entry, json in
            json.raw(#"{"resource":"#)
            write(entry, to: &json, &scratch)
            json.raw(#","request":{"method":"POST","url":"Observation"}}"#)
        }
        json.raw("}")
        return json.bytes
    }

    /// One observation by itself, for the single endpoint.
    public func observation(_ entry: Entry) -> [UInt8] {
        var json = JSONBytes()
        var scratch = JSONBytes()
        write(entry, to: &json, &scratch)
        return json.bytes
    }

    private func write(_ entry: Entry, to json: inout JSONBytes, _ scratch: inout JSONBytes) {
        scratch.removeAll()
        entry.writer.write(entry.point, to: &scratch)
        json.raw(beforeIdentity)
        json.identity(entry.point.uuid)
        // Exactly one coding: with a second one, say LOINC's, the exchange refuses the entry.
        json.raw(#""}],"code":{"coding":["#)
        json.raw(entry.writer.coding(of: entry.point))
        json.raw(#"]},"subject":{"reference":"#)
        json.string(entry.patient, after: "Patient/")
        json.raw(#"},"device":{"reference":"#)
        json.string(entry.device ?? device, after: "Device/")
        json.raw(#"},"valueAttachment":{"contentType":"application/json","data":""#)
        json.base64(scratch.bytes)
        json.raw(#""}}"#)
    }
}
