/// The data points that the exchange currently lets this gateway deliver for one patient.
public struct PatientAccess: Sendable, Hashable {
    /// The patient's identifier at the exchange.
    public var patient: String
    /// The heart-rate code its studies collect.
    public var code: ObservationCode
    /// Whether the patient has consented to that code.
    public var isConsented: Bool
    /// The devices the data may be attributed to. More than one leaves the choice to a person.
    public var devices: [DeviceCandidate]
    /// Whose number it is.
    public var person: PatientAccount?
}

/// A code an exchange registers observations under.
public struct ObservationCode: Sendable, Hashable, Codable {
    /// The coding system, for Open mHealth `https://w3id.org/openmhealth`.
    public var system: String
    /// The code, for instance `omh:heart-rate:2.0`.
    public var code: String

    /// A code of a system.
    public init(system: String, code: String) {
        self.system = system
        self.code = code
    }

    /// The code of heart rates on every exchange there is.
    public static let omhHeartRate = ObservationCode(
        system: "https://w3id.org/openmhealth", code: "omh:heart-rate:2.0")
    /// The code of RR intervals on every exchange there is.
    public static let omhRRInterval = ObservationCode(
        system: "https://w3id.org/openmhealth", code: "omh:rr-interval:1.0")

    /// Whether this is a heart-rate code, with a schema version or without.
    public var isHeartRate: Bool { names("omh:heart-rate") }

    /// Whether this is a code for RR intervals, with a schema version or without.
    public var isRRInterval: Bool { names("omh:rr-interval") }

    private func names(_ schema: String) -> Bool {
        code == schema || code.hasPrefix(schema + ":")
    }

    /// The schema version in the code, as numbers; empty for a code without one.
    var version: [Int] {
        guard let version = code.split(separator: ":").dropFirst(2).first else { return [] }
        return version.split(separator: ".").map { Int($0) ?? 0 }
    }
}

/// A device the exchange would take heart rate from.
public struct DeviceCandidate: Sendable, Hashable, Codable {
    /// The device's identifier at the exchange.
    public var id: String
    /// Its name at the exchange.
    public var name: String

    /// A patient by id and name.
    public init(id: String, name: String) {
        self.id = id
        self.name = name
    }
}

/// The device that data are attributed to, and whether a person chose it.
public struct DeviceChoice: Sendable, Hashable {
    /// The exchange's identifier of the device.
    public var id: String
    /// Then it is never replaced by another.
    public var isByPerson: Bool

    /// A choice.
    public init(id: String, isByPerson: Bool) {
        self.id = id
        self.isByPerson = isByPerson
    }
}

extension PatientAccess {
    /// The device for a patient who enrolls: the one that is `asked` for, or the `earlier` one while the exchange takes
    /// it, or the only one. Nil: a person has to choose among ``devices``.
    public func device(asked: String?, earlier: DeviceChoice?) -> DeviceChoice? {
        func isOffered(_ id: String) -> Bool { devices.contains { $0.id == id } }
        if let asked {
            return isOffered(asked) ? DeviceChoice(id: asked, isByPerson: true) : nil
        }
        if let earlier, earlier.isByPerson || isOffered(earlier.id) {
            return isOffered(earlier.id) ? earlier : nil
        }
        return devices.count == 1 ? DeviceChoice(id: devices[0].id, isByPerson: false) : nil
    }

    /// Whether an exchange can have a patient with this identifier: its own are numbers of its database
    /// (docs/develop/exchange.md).
    public static func isExchangeID(_ text: String) -> Bool {
        Int64(text).map { $0 > 0 && "\($0)" == text } ?? false
    }

    /// Whether `text` can be a patient's identifier at some destination: it becomes part of a path and of a FHIR reference
    /// (R5 §2.1.28.0.1: id, without the names that mean folders).
    public static func isPatientID(_ text: String) -> Bool {
        let isID = text.utf8.allSatisfy { $0.isAlphanumeric || $0 == 0x2D || $0 == 0x2E }
        return isID && 1...64 ~= text.utf8.count && !text.utf8.allSatisfy { $0 == 0x2E }
    }

    /// Reads a patient's consents; nil when no study of theirs asks for heart rate.
    init?(patient: String, consents: ConsentsDocument) {
        let studies = consents.studies ?? []
        let pending = consents.studiesPendingConsent ?? []
        let scopes = consents.consolidatedConsentedScopes ?? []
        let consented = scopes.compactMap(\.heartRate)
        let asked = (studies + pending).flatMap { $0.asked.compactMap(\.heartRate) }
        guard let code = Self.newest(consented) ?? Self.newest(asked) else { return nil }
        let isConsented = !consented.isEmpty
        let fitting = (studies + pending).filter { study in
            study.asked.contains { $0.heartRate == code && (!isConsented || $0.consented == true) }
        }
        var devices: [DeviceCandidate] = []
        for source in fitting.flatMap({ $0.dataSources ?? [] }) where source.takes(code) {
            let device = DeviceCandidate(id: source.id.text, name: source.name ?? "")
            if !devices.contains(where: { $0.id == device.id }) { devices.append(device) }
        }
        self.init(
            patient: patient, code: code, isConsented: isConsented, devices: devices,
            person: PatientAccount(patient: patient, consents))
    }

    fileprivate static func newest(_ codes: [ObservationCode]) -> ObservationCode? {
        codes.max { $0.version.lexicographicallyPrecedes($1.version) }
    }
}

/// The exchange's statement on a patient's RR intervals.
enum IntervalAccess: Hashable {
    /// The patient has consented to sending them under this code.
    case consented(ObservationCode)
    /// A study asks for them, and the patient has not consented.
    case asked
    case notAsked

    init(_ consents: ConsentsDocument) {
        func intervals(_ scopes: [ScopeDocument]) -> [ObservationCode] {
            scopes.compactMap(\.observation).filter(\.isRRInterval)
        }
        let studies = (consents.studies ?? []) + (consents.studiesPendingConsent ?? [])
        if let code = PatientAccess.newest(intervals(consents.consolidatedConsentedScopes ?? [])) {
            self = .consented(code)
        } else {
            self = studies.contains { !intervals($0.asked).isEmpty } ? .asked : .notAsked
        }
    }
}

extension ConsentsDocument.Study {
    fileprivate var asked: [ScopeDocument] { (scopeConsents ?? []) + (pendingScopeConsents ?? []) }
}

extension ScopeDocument {
    fileprivate var observation: ObservationCode? {
        guard let system, let value else { return nil }
        return ObservationCode(system: system, code: value)
    }

    fileprivate var heartRate: ObservationCode? {
        observation.flatMap { $0.isHeartRate ? $0 : nil }
    }
}

extension DataSourceDocument {
    /// Uploads are taken for personal devices only, whatever else a study lists.
    fileprivate func takes(_ code: ObservationCode) -> Bool {
        type == "personal_device" && (supportedScopes ?? []).contains { $0.heartRate == code }
    }
}
