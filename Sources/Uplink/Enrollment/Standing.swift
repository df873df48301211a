/// What the exchange currently lets this gateway deliver for one patient.
public struct Standing: Sendable, Hashable {
    /// The patient's identifier at the exchange.
    public var patient: String
    /// The heart-rate code its studies collect.
    public var code: ObservationCode
    /// Whether the patient has consented to that code.
    public var isConsented: Bool
    /// The devices the data may be attributed to. More than one leaves the choice to a person.
    public var devices: [DeviceCandidate]
}

/// A code an exchange registers observations under.
public struct ObservationCode: Sendable, Hashable, Codable {
    /// The coding system, for Open mHealth `https://w3id.org/openmhealth`.
    public var system: String
    /// The code, for instance `omh:heart-rate:2.0`.
    public var code: String

    /// A code.
    public init(system: String, code: String) {
        self.system = system
        self.code = code
    }

    /// The name of the heart-rate schema within Open mHealth codes.
    static let heartRate = "omh:heart-rate"

    /// Whether this is a heart-rate code, with a schema version or without.
    public var isHeartRate: Bool {
        code == Self.heartRate || code.hasPrefix(Self.heartRate + ":")
    }

    /// The schema version in the code, as numbers; empty for a code without one.
    var version: [Int] {
        code.dropFirst(Self.heartRate.count + 1).split(separator: ".").map { Int($0) ?? 0 }
    }
}

/// A device the exchange would take heart rate from.
public struct DeviceCandidate: Sendable, Hashable, Codable {
    /// The device's identifier at the exchange.
    public var id: String
    /// What the exchange calls it.
    public var name: String

    /// A candidate.
    public init(id: String, name: String) {
        self.id = id
        self.name = name
    }
}

extension Standing {
    /// Reads a patient's consents; nil when no study of theirs asks for heart rate.
    init?(patient: String, consents: ConsentsDocument) {
        let studies = consents.studies ?? []
        let pending = consents.studiesPendingConsent ?? []
        let consented = (consents.consolidatedConsentedScopes ?? []).compactMap(\.heartRate)
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
        self.init(patient: patient, code: code, isConsented: isConsented, devices: devices)
    }

    private static func newest(_ codes: [ObservationCode]) -> ObservationCode? {
        codes.max { $0.version.lexicographicallyPrecedes($1.version) }
    }
}

extension ConsentsDocument.Study {
    fileprivate var asked: [ScopeDocument] { (scopeConsents ?? []) + (pendingScopeConsents ?? []) }
}

extension ScopeDocument {
    fileprivate var heartRate: ObservationCode? {
        guard let system, let value else { return nil }
        let code = ObservationCode(system: system, code: value)
        return code.isHeartRate ? code : nil
    }
}

extension DataSourceDocument {
    /// Uploads are taken for personal devices only, whatever else a study lists.
    fileprivate func takes(_ code: ObservationCode) -> Bool {
        type == "personal_device" && (supportedScopes ?? []).contains { $0.heartRate == code }
    }
}
