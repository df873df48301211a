/// The meaning of the exchange's words on one entry (docs/develop/exchange.md).
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
        /// The words that the diagnostics contain; empty matches all.
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
        // The first that is looked up is the patient.
        Row(
            status: 422, text: "Field 'id' expected a number", isPrefix: true,
            verdict: .held(.patientUnknown)),
        Row(status: 400, text: "Code not found", verdict: .held(.codeUnknown)),
        Row(status: 400, text: "A FhirSource is required", verdict: .held(.codeUnknown)),
        Row(status: 400, text: "valueAttachment.data must be", verdict: .refused),
        Row(status: 400, text: "Exactly one Code", verdict: .refused),
        // In a bundle a parse error takes the whole request down; alone it is reported as what it is.
        Row(status: 400, text: "", endpoint: .single, verdict: .refused),
        Row(status: 422, text: "{'omh_data':", isPrefix: true, verdict: .refused),
        Row(status: 422, text: "Failed validating", verdict: .refused),
        // A 422 with anything else is how a lost database looks.
    ]

    /// The verdict on an entry answered with `status` and `diagnostics`, the whole of them.
    public static func judge(
        status: Int, diagnostics: String, endpoint: Endpoint
    ) -> EntryVerdict {
        judge(status: status, diagnostics: diagnostics, endpoint: endpoint, by: table)
    }

    static func judge(
        status: Int, diagnostics: String, endpoint: Endpoint, by table: [Row]
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

extension EntryAnswer {
    /// The exchange's answer, judged by its status and whole diagnostics.
    init(status: Int, diagnostics: String, endpoint: EntryVerdict.Endpoint) {
        self.init(
            .judge(status: status, diagnostics: diagnostics, endpoint: endpoint), status: status,
            diagnostics: diagnostics)
    }
}
