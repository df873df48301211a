import Testing

@testable import Uplink

@Suite struct EntryVerdictTests {
    typealias Case = (status: Int, diagnostics: String, verdict: EntryVerdict)

    static let rows: [Case] = [
        (201, "", .stored),
        (409, "Identifier already exists: system=https://x value=4a8b", .storedBefore),
        (409, "duplicate key value violates unique constraint \"core_obs\"", .storedBefore),
        (
            403,
            "Observation data with coding_system=s coding_code=c has not been consented for any "
                + "studies by this Patient.", .held(.noConsent)
        ),
        (
            403, "The Subject Patient does not match the current user.", .held(.wrongPatient)
        ),
        (403, "Current user doesn't have access to the Patient.", .held(.wrongPatient)),
        (400, "Patient id=99999 can not be found.", .held(.patientUnknown)),
        (
            400, "Subject is required and must be a reference to a Patient ID",
            .held(.patientUnknown)
        ),
        (422, "Field 'id' expected a number but got '4OOO1'.", .held(.patientUnknown)),
        (400, "Device Data Source id=70006 can not be found.", .held(.deviceUnknown)),
        (400, "Device is required and must be a reference", .held(.deviceUnknown)),
        (400, "Code not found: system=s code=omh:heart-rate:1.0", .held(.codeUnknown)),
        (400, "A FhirSource is required to write this resource", .held(.codeUnknown)),
        (400, "valueAttachment.data must be Base 64 Encoded Binary JSON.", .refused),
        (400, "Exactly one Code must be provided.", .refused),
        (422, "{'omh_data': [\"'uuid' is a required property\"]}", .refused),
        (422, "72 is not of type 'string'\n\nFailed validating 'type' in schema", .refused),
        (422, "server closed the connection unexpectedly", .unclear),
        (422, "connection already closed", .unclear),
        (422, "text before {'omh_data': …", .unclear),
        (422, "", .unclear),
        (400, "something new", .unclear),
        (403, "something new", .unclear),
        (409, "something new", .unclear),
        (200, "", .unclear), (202, "", .unclear), (0, "", .unclear), (500, "", .unclear),
        (503, "Identifier already exists", .unclear),
    ]

    @Test("a bundle's entry means what the table says", arguments: rows)
    func bundle(row: Case) {
        #expect(
            EntryVerdict.judge(status: row.status, diagnostics: row.diagnostics, endpoint: .bundle)
                == row.verdict)
    }

    @Test("alone the same, except that a 400 is honest about the entry", arguments: rows)
    func single(row: Case) {
        let verdict = EntryVerdict.judge(
            status: row.status, diagnostics: row.diagnostics, endpoint: .single)
        #expect(verdict == (row.status == 400 && row.verdict == .unclear ? .refused : row.verdict))
    }

    @Test func everyRowOfTheTableIsReachedByACase() {
        for row in EntryVerdict.table {
            #expect(
                Self.rows.contains {
                    $0.status == row.status
                        && (row.text.isEmpty || $0.diagnostics.contains(row.text))
                }, "\(row)")
        }
    }
}
