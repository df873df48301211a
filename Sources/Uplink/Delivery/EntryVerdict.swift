/// What an exchange's word on one entry means for the sample (docs/exchange.md).
public enum EntryVerdict: Hashable, Sendable {
    /// Stored now.
    case stored
    /// Stored by an earlier attempt: nobody else can own the identifier.
    case storedBefore
    /// Not taken for a reason a person can mend, which concerns the whole delivery.
    case held(HoldReason)
    /// Refused for good: sending the same bytes again cannot help.
    case refused
    /// Not taken, and not to be offered: RR intervals without a consent to them.
    case notWanted
    /// Says nothing about the sample; send it again, later.
    case unclear
}

extension EntryVerdict {
    /// Whether a person can mend the reason.
    var isHeld: Bool { if case .held = self { true } else { false } }
}

/// Why a delivery keeps its samples back. The raw values are part of the JSON contract.
public enum HoldReason: String, Sendable, Hashable, CaseIterable {
    /// The patient has not consented, or no longer does.
    case noConsent = "no-consent"
    /// The tokens belong to another patient than the samples.
    case wrongPatient = "wrong-patient"
    /// The exchange does not know the patient.
    case patientUnknown = "patient-unknown"
    /// The exchange does not know the device, or takes no data from it; or none was chosen yet.
    case deviceUnknown = "device-unknown"
    /// The patient's studies take heart rate from several devices, or from none: a person has to choose.
    case deviceNotChosen = "device-not-chosen"
    /// No study of the patient asks for heart rate.
    case heartRateNotAsked = "heart-rate-not-asked"
    /// The exchange does not know the code; or none was found yet.
    case codeUnknown = "code-unknown"
    /// The authorization is lost; a person has to enroll again.
    case enrollAgain = "enroll-again"
    /// No FHIR base was found at the exchange.
    case baseUnknown = "fhir-base-unknown"
    /// The exchange does not take requests of this form at all.
    case requestRefused = "request-refused"
    /// The exchange says that it is well and yet takes nothing.
    case exchangeFault = "exchange-fault"
}

extension EntryVerdict {
    /// Where an entry was sent.
    public enum Endpoint: Sendable {
        /// In a bundle, `POST <base>/`.
        case bundle
        /// By itself, `POST <base>/Observation`.
        case single
    }

    /// One row of the table.
    struct Row: Sendable {
        var status: Int
        /// What the diagnostics contain; empty matches all.
        var text: String
        /// Whether `text` must stand at the beginning.
        var isPrefix = false
        /// Nil matches both endpoints.
        var endpoint: Endpoint?
        var verdict: EntryVerdict
    }

    /// The verdicts, first match wins; what matches no row is unclear.
    static let table: [Row] = [
        Row(status: 201, text: "", verdict: .stored),
        Row(status: 409, text: "Identifier already exists", verdict: .storedBefore),
        Row(status: 409, text: "duplicate key value", verdict: .storedBefore),
        Row(status: 403, text: "has not been consented", verdict: .held(.noConsent)),
        Row(status: 403, text: "The Subject Patient does not match", verdict: .held(.wrongPatient)),
        Row(status: 403, text: "doesn't have access to the Patient", verdict: .held(.wrongPatient)),
        Row(status: 400, text: "Device Data Source id=", verdict: .held(.deviceUnknown)),
        Row(status: 400, text: "Device is required", verdict: .held(.deviceUnknown)),
        Row(status: 400, text: "Patient id=", verdict: .held(.patientUnknown)),
        Row(status: 400, text: "Subject is required", verdict: .held(.patientUnknown)),
        Row(status: 400, text: "Code not found", verdict: .held(.codeUnknown)),
        Row(status: 400, text: "A FhirSource is required", verdict: .held(.codeUnknown)),
        Row(status: 400, text: "valueAttachment.data must be", verdict: .refused),
        Row(status: 400, text: "Exactly one Code", verdict: .refused),
        // In a bundle a parse error takes the whole request down; alone it is told honestly.
        Row(status: 400, text: "", endpoint: .single, verdict: .refused),
        Row(status: 422, text: "{'omh_data':", isPrefix: true, verdict: .refused),
        Row(status: 422, text: "Failed validating", verdict: .refused),
        // A 422 with anything else is how a lost database looks.
    ]

    /// The verdict on an entry answered with `status` and `diagnostics`, the whole of them.
    public static func judge(
        status: Int, diagnostics: String, endpoint: Endpoint
    ) -> EntryVerdict {
        for row in table where row.status == status {
            if let only = row.endpoint, only != endpoint { continue }
            let matches =
                row.text.isEmpty
                || (row.isPrefix
                    ? diagnostics.hasPrefix(row.text) : diagnostics.contains(row.text))
            if matches { return row.verdict }
        }
        return .unclear
    }
}
