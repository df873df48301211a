import Foundation

/// The outcome of one entry.
enum EntryResult {
    case stored(StoredObservation)
    case refused(Int, String)
}

/// The checks of one Observation, in the server's order (docs/develop/exchange.md, "One observation").
extension StandInExchange {
    func store(
        _ resource: ExchangeJSON, for caller: ExchangeCaller, _ work: inout ExchangeWork
    ) async -> EntryResult {
        if case .databaseLost(let limit)? = work.fault, work.entriesDone >= limit {
            return .refused(
                422,
                work.entriesDone == limit
                    ? "server closed the connection unexpectedly\n\tThis probably means the server "
                        + "terminated abnormally\n\tbefore or while processing the request.\n"
                    : "connection already closed")
        }
        if let refusal = routingRefusal(of: resource) { return refusal }
        do throws(EntryRefusal) {
            let patient = try subject(of: resource, for: caller)
            let device = try device(of: resource)
            let identifiers = Self.identifiers(of: resource)
            for identifier in identifiers where identifierOwners[identifier] != nil {
                throw EntryRefusal(409, "Identifier already exists: " + Self.describe(identifier))
            }
            let code = try consentedCode(of: resource, patient: patient)
            let dataPoint = try dataPoint(of: resource, code: code)
            if identifiers.contains(where: { refused.contains($0.value ?? "") }) {
                throw invalid("'value' is a required property", dataPoint)
            }
            if work.fault == .databaseReadOnly {
                return .refused(422, "cannot execute INSERT in a read-only transaction\n")
            }
            // Between this look and the writing, another worker may write the same identifier.
            if pacePerEntry > .zero { await time.sleep(pacePerEntry) }
            return insert(
                StoredObservation(
                    id: nextRowID, patient: patient, device: device, code: code,
                    identifiers: identifiers, dataPoint: dataPoint, storedAt: now, isOrphan: false))
        } catch {
            return .refused(error.status, error.diagnostics)
        }
    }

    /// Only Observations with an Open mHealth code are the gateway's; others want a source header.
    func routingRefusal(of resource: ExchangeJSON) -> EntryResult? {
        let codings = resource["code"]?["coding"]?.array ?? []
        if codings.contains(where: { $0["system"]?.string == ExchangeCode.openMHealth }) {
            return nil
        }
        return .refused(
            400,
            "A FhirSource is required to write this resource: send the 'X-JHE-FHIR-Source-ID' "
                + "header or set the resource's meta.source.")
    }

    private func subject(
        of resource: ExchangeJSON, for caller: ExchangeCaller
    ) throws(EntryRefusal) -> Int {
        guard let reference = resource["subject"]?["reference"]?.string,
            reference.hasPrefix("Patient/")
        else {
            throw EntryRefusal(
                400,
                "Subject is required and must be a reference to a Patient ID and start with "
                    + "'Patient/'")
        }
        let id = try Self.id(in: reference)
        guard patient(id) != nil else {
            throw EntryRefusal(400, "Patient id=\(id) can not be found.")
        }
        guard mayServe(caller, patient: id) else {
            if case .patient = caller {
                throw EntryRefusal(403, "The Subject Patient does not match the current user.")
            }
            throw EntryRefusal(403, "Current user doesn't have access to the Patient.")
        }
        return id
    }

    private func device(of resource: ExchangeJSON) throws(EntryRefusal) -> Int {
        guard let reference = resource["device"]?["reference"]?.string,
            reference.hasPrefix("Device/")
        else {
            throw EntryRefusal(
                400,
                "Device is required and must be a reference to a Data Source ID and start with "
                    + "'Device/'")
        }
        let id = try Self.id(in: reference)
        // Study, client and supported codes are not asked about here.
        guard seed.devices.contains(where: { $0.id == id && $0.type == "personal_device" }) else {
            throw EntryRefusal(400, "Device Data Source id=\(id) can not be found.")
        }
        return id
    }

    private static func id(in reference: String) throws(EntryRefusal) -> Int {
        let parts = reference.split(separator: "/", omittingEmptySubsequences: false)
        let text = parts.count > 1 ? String(parts[1]) : ""
        guard let id = Int(text) else {
            throw EntryRefusal(422, "Field 'id' expected a number but got '\(text)'.")
        }
        return id
    }

    private func consentedCode(
        of resource: ExchangeJSON, patient: Int
    ) throws(EntryRefusal) -> String {
        let codings = resource["code"]?["coding"]?.array ?? []
        guard codings.count == 1 else {
            throw EntryRefusal(400, "Exactly one Code must be provided.")
        }
        let system = codings[0]["system"]?.string ?? "None"
        let name = codings[0]["code"]?.string ?? "None"
        guard !forgottenCodes.contains(name),
            seed.codes.contains(where: { $0.system == system && $0.code == name })
        else {
            throw EntryRefusal(400, "Code not found: system=\(system) code=\(name)")
        }
        guard consentedCodes(of: patient).contains(name) else {
            throw EntryRefusal(
                403,
                "Observation data with coding_system=\(system) coding_code=\(name) has not been "
                    + "consented for any studies by this Patient.")
        }
        return name
    }

    private func dataPoint(
        of resource: ExchangeJSON, code: String
    ) throws(EntryRefusal) -> ExchangeJSON {
        guard let text = resource["valueAttachment"]?["data"]?.string,
            let bytes = Self.base64(text), bytes.allSatisfy({ $0 < 0x80 }),
            let document = try? ExchangeJSON.parse(bytes, allowingNaN: true)
        else {
            throw EntryRefusal(400, "valueAttachment.data must be Base 64 Encoded Binary JSON.")
        }
        if document == .null { return document }
        guard document.object != nil else {
            throw EntryRefusal(422, "object has no attribute 'get'")
        }
        guard let schema = OMHSchema.body(of: code) else {
            throw invalid("the stand-in has no schema for \(code)", document)
        }
        if let error = OMHSchema.header.firstError(in: document["header"] ?? .null) {
            throw invalid(error, document["header"] ?? .null)
        }
        if let error = schema.firstError(in: document["body"] ?? .null) {
            throw invalid(error, document["body"] ?? .null)
        }
        if let token = document.firstUnstorable {
            throw EntryRefusal(422, token)
        }
        return document
    }

    private func invalid(_ error: String, _ instance: ExchangeJSON) -> EntryRefusal {
        guard version == .v0010 else {
            return EntryRefusal(422, "{'omh_data': [\(ExchangeJSON.pythonQuote(error))]}")
        }
        return EntryRefusal(
            422,
            "\(error)\n\nFailed validating in schema:\n    {…}\n\nOn instance:\n    "
                + instance.pythonRepresentation)
    }

    /// Standard base64, wrapped or not, and the URL-safe alphabet; padding is required.
    private static func base64(_ text: String) -> [UInt8]? {
        if let data = Data(base64Encoded: text) { return Array(data) }
        let plain = text.filter { !$0.isWhitespace }
            .replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: plain).map(Array.init)
    }

    /// Writes the row, then its identifiers one by one, each committed on its own.
    private func insert(_ row: StoredObservation) -> EntryResult {
        var row = row
        let wanted = row.identifiers
        row.identifiers = []
        row.id = nextRowID
        row.storedAt = now
        let index = observations.count
        observations.append(row)
        for identifier in wanted {
            if identifierOwners[identifier] != nil {
                // The row stays, without this identifier: an orphan.
                observations[index].isOrphan = true
                return .refused(
                    409,
                    "duplicate key value violates unique constraint "
                        + "\"core_observationidentifier_unique_system_value\"\nDETAIL:  Key "
                        + "(system, value)=(\(identifier.system ?? ""), \(identifier.value ?? "")) "
                        + "already exists.\n")
            }
            identifierOwners[identifier] = row.id
            observations[index].identifiers.append(identifier)
        }
        return .stored(observations[index])
    }

    static func identifiers(of resource: ExchangeJSON) -> [ExchangeIdentifier] {
        (resource["identifier"]?.array ?? []).map {
            ExchangeIdentifier(system: $0["system"]?.string, value: $0["value"]?.string)
        }
    }

    private static func describe(_ identifier: ExchangeIdentifier) -> String {
        "system=\(identifier.system ?? "None") value=\(identifier.value ?? "None")"
    }
}

/// Why one entry is refused.
struct EntryRefusal: Error {
    let status: Int
    let diagnostics: String

    init(_ status: Int, _ diagnostics: String) {
        self.status = status
        self.diagnostics = diagnostics
    }
}

extension ExchangeJSON {
    /// The fault that the database's JSON type finds, in its words; nil when it can hold this value.
    var firstUnstorable: String? {
        switch self {
        case .number(let value) where !value.isFinite:
            "invalid input syntax for type json\nDETAIL:  Token \"NaN\" is invalid."
        case .string(let text) where text.unicodeScalars.contains("\0"):
            "unsupported Unicode escape sequence\nDETAIL:  \\u0000 cannot be converted to text."
        case .array(let values): values.lazy.compactMap(\.firstUnstorable).first
        case .object(let members):
            members.lazy.compactMap { member in
                ExchangeJSON.string(member.name).firstUnstorable ?? member.value.firstUnstorable
            }.first
        default: nil
        }
    }
}
