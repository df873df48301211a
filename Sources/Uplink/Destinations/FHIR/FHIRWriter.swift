import Basics
import OfflineQueue

/// Writes heart rates and entries of the gap ledger as Observations of FHIR R4, in a batch in which each is
/// created unless the server has it already.
struct FHIRWriter {
    /// How an Observation names the patient.
    enum Patient: Sendable {
        /// Not at all.
        case none
        /// By the identifier of a resource at the server.
        case reference
        /// By an identifier of this system.
        case identifier(system: String)
    }

    let patient: Patient
    /// The Device at the server that all straps are; nil: each strap is named by an identifier.
    let device: String?
    let gateway: String
    private var json = JSONBytes()
    private var isFirst = true
    /// Whether a time that is not known is said to be so. The exchange gives an element with `_` another name.
    private var saysUnknownTimes = true

    /// The system of the codes that no terminology has.
    static let codes = "urn:x-edge-gateway:code"
    private static let causes = "urn:x-edge-gateway:gap-cause"
    /// The system of identifiers that are UUIDs.
    private static let uuids: StaticString = "urn:ietf:rfc:3986"
    private static let straps = "urn:x-edge-gateway:strap"

    init(patient: Patient, device: String?, gateway: String) {
        self.patient = patient
        self.device = device
        self.gateway = gateway
        json.raw(#"{"resourceType":"Bundle","type":"batch","entry":["#)
    }

    /// The bundle, when all is written.
    var bundle: [UInt8] {
        var bundle = json
        bundle.raw("]}")
        return bundle.bytes
    }

    // MARK: - Observations

    mutating func write(_ point: OutgoingPoint, patient: String?) {
        let id = begin(point.point.uuid)
        json.raw(Self.heartRate)
        subject(patient)
        switch point.point.content {
        case .heartRate(let bpm, let time):
            json.raw(#","effectiveDateTime":""#)
            Timestamp(time).write(to: &json)
            json.raw(#"","valueQuantity":{"value":"#)
            json.integer(bpm)
            json.raw(Self.perMinute)
        case .averageHeartRate(let tenths, let count, let window):
            period(window.lowerBound, window.upperBound)
            json.raw(#","valueQuantity":{"value":"#)
            json.decimal(tenths, places: 1)
            json.raw(Self.perMinute)
            json.raw(Self.count)
            json.integer(count)
            json.raw("}]")
        // They are not offered (``HTTPKind/takesIntervals``).
        case .interval(_, let end): period(point.point.span.lowerBound, end)
        }
        device(point.sensorID, model: point.strap.model)
        end(id)
    }

    mutating func write(_ entry: LedgerEntry, patient: String?) {
        let id = begin(entry.id)
        content(entry, patient: patient)
        end(id)
    }

    /// An entry as a resource by itself, with an id of the sender's: a server that keeps that knows a repetition.
    static func resource(_ entry: LedgerEntry, patient: String, device: String) -> [UInt8] {
        var writer = FHIRWriter(patient: .reference, device: device, gateway: "")
        writer.json = JSONBytes()
        writer.saysUnknownTimes = false
        _ = writer.resource(entry.id, hasID: true)
        writer.content(entry, patient: patient)
        writer.json.raw("}")
        return writer.json.bytes
    }

    private mutating func content(_ entry: LedgerEntry, patient: String?) {
        switch entry.content {
        case .gap(let cause, let from, let until, _):
            json.raw(Self.heartRate)
            subject(patient)
            period(from, until)
            json.raw(Self.unknown)
            json.string(cause.rawValue)
            json.raw(#"}],"text":"#)
            json.string(cause.meaning)
            json.raw("}")
        case .coverage(let day, let coverage):
            json.raw(#","code":"#)
            concept("coverage", Self.codes)
            subject(patient)
            period(UTC(day: day), UTC(day: day) + Coverage.day)
            json.raw(#","valueQuantity":{"value":"#)
            seconds(coverage.coveredSeconds)
            json.raw(#","component":[{"code":"#)
            concept("expected", Self.codes)
            json.raw(#","valueQuantity":{"value":"#)
            seconds(coverage.expectedSeconds)
            json.raw("}")
            for (cause, length) in coverage.sortedCauses {
                json.raw(#",{"code":"#)
                concept(cause.rawValue, Self.causes)
                json.raw(#","valueQuantity":{"value":"#)
                seconds(length)
                json.raw("}")
            }
            json.raw("]")
        }
        device(entry.sensorID, model: nil)
    }

    /// Vital signs have LOINC's code; the other one is that of ISO/IEEE 11073, by which devices know it.
    private static let heartRate: StaticString = #"""
        ,"category":[{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/\#
        observation-category","code":"vital-signs"}]}],"code":{"coding":[\#
        {"system":"http://loinc.org","code":"8867-4","display":"Heart rate"},\#
        {"system":"urn:iso:std:iso:11073:10101","code":"147842","display":"MDC_ECG_HEART_RATE"}]}
        """#
    private static let perMinute: StaticString =
        #","unit":"beats/minute","system":"http://unitsofmeasure.org","code":"/min"}"#
    /// How many rates an average is of.
    private static let count: StaticString = #"""
        ,"component":[{"code":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/\#
        observation-statistics","code":"count"}]},"valueInteger":
        """#
    /// There was a heart rate, and it is not known: the cause follows.
    private static let unknown: StaticString = #"""
        ,"dataAbsentReason":{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/\#
        data-absent-reason","code":"unknown"},{"system":"urn:x-edge-gateway:gap-cause","code":
        """#

    // MARK: - Parts

    /// Begins an entry; returns where the identifier is written.
    private mutating func begin(_ identity: String) -> Range<Int> {
        json.raw(isFirst ? "{" : ",{")
        isFirst = false
        json.raw(#""resource":"#)
        return resource(identity, hasID: false)
    }

    /// Begins an Observation; returns where the identifier is written.
    private mutating func resource(_ identity: String, hasID: Bool) -> Range<Int> {
        json.raw(#"{"resourceType":"Observation","#)
        if hasID {
            json.raw(#""id":""#)
            json.digest(of: identity)
            json.raw(#"","#)
        }
        json.raw(#""identifier":[{"system":""#)
        json.raw(Self.uuids)
        json.raw(#"","value":""#)
        let start = json.count
        json.raw("urn:uuid:")
        json.digest(of: identity)
        let id = start..<json.count
        json.raw(#""}],"status":"final""#)
        return id
    }

    private mutating func end(_ id: Range<Int>) {
        json.raw(#"},"request":{"method":"POST","url":"Observation","ifNoneExist":"identifier="#)
        json.raw(Self.uuids)
        json.raw("|")
        json.again(from: id.lowerBound, to: id.upperBound)
        json.raw(#""}}"#)
    }

    private mutating func subject(_ id: String?) {
        guard let id else { return }
        switch patient {
        case .none: break
        case .reference:
            json.raw(#","subject":{"reference":"#)
            json.string(id, after: "Patient/")
            json.raw("}")
        case .identifier(let system):
            json.raw(#","subject":{"type":"Patient","identifier":{"system":"#)
            json.string(system)
            json.raw(#","value":"#)
            json.string(id)
            json.raw("}}")
        }
    }

    private mutating func device(_ sensorID: Int64, model: String?) {
        if let device {
            json.raw(#","device":{"reference":"#)
            json.string(device)
        } else {
            json.raw(#","device":{"type":"Device","identifier":{"system":"#)
            json.string(Self.straps)
            json.raw(#","value":"#)
            json.string("\(gateway)-\(sensorID)")
            json.raw("}")
        }
        if let model, !model.isEmpty {
            json.raw(#","display":"#)
            json.string(String(model.prefix(DataPointWriter.datasheetLengthMax)))
        }
        json.raw("}")
    }

    /// Vital signs must have a time; of one that is not known they say so.
    private mutating func period(_ start: UTC?, _ end: UTC?) {
        guard start != nil || end != nil else {
            guard saysUnknownTimes else { return }
            json.raw(
                #"""
                ,"_effectiveDateTime":{"extension":[{"url":"http://hl7.org/fhir/\#
                StructureDefinition/data-absent-reason","valueCode":"unknown"}]}
                """#)
            return
        }
        json.raw(#","effectivePeriod":{"#)
        if let start {
            json.raw(#""start":""#)
            Timestamp(start).write(to: &json)
            json.raw(end == nil ? #"""# : #"","#)
        }
        if let end {
            json.raw(#""end":""#)
            Timestamp(end).write(to: &json)
            json.raw(#"""#)
        }
        json.raw("}")
    }

    private mutating func concept(_ code: String, _ system: String) {
        json.raw(#"{"coding":[{"system":"#)
        json.string(system)
        json.raw(#","code":"#)
        json.string(code)
        json.raw("}]}")
    }

    private mutating func seconds(_ seconds: Double) {
        json.seconds(seconds)
        json.raw(#","unit":"s","system":"http://unitsofmeasure.org","code":"s"}"#)
    }
}
