/// Why a delivery keeps its samples back until a person has acted.
///
/// Raw values are stored, and part of the JSON contract. The words below are the only ones:
/// `status` and `enroll` print them, and `DocumentTableTests` writes them into docs/operations.md.
public enum HoldReason: String, Sendable, Hashable, CaseIterable {
    case noConsent = "no-consent"
    /// The authorization is lost.
    case enrollAgain = "enroll-again"
    case wrongPatient = "wrong-patient"
    case patientUnknown = "patient-unknown"
    /// Also: no device was found yet.
    case deviceUnknown = "device-unknown"
    case deviceNotChosen = "device-not-chosen"
    case heartRateNotAsked = "heart-rate-not-asked"
    /// Also: no code was found yet.
    case codeUnknown = "code-unknown"
    case baseUnknown = "fhir-base-unknown"
    case requestRefused = "request-refused"
    case exchangeFault = "exchange-fault"

    /// What it means, one line.
    public var meaning: String { words.meaning }
    /// What a person does about it, one line. Delivery resumes by itself.
    public var remedy: String { words.remedy }

    // One switch, so that the compiler asks for the words of a new reason.
    private var words: (meaning: String, remedy: String) {
        switch self {
        case .noConsent:
            (
                "the patient has not consented to heart rate, or withdrew",
                "the patient consents at the exchange"
            )
        case .enrollAgain:
            (
                "the authorization is lost for good",
                "edge-gateway enroll LINK with a new invitation of the same patient"
            )
        case .wrongPatient:
            (
                "the tokens belong to another patient than the samples",
                "enroll again with an invitation of the right patient"
            )
        case .patientUnknown:
            ("the exchange no longer knows the patient", "ask the exchange's operator")
        case .deviceUnknown:
            (
                "the exchange does not know the device as a data source of type personal device",
                "the exchange's operator restores it, or enroll again with --device ID: a device "
                    + "that a person chose is never replaced by another"
            )
        case .deviceNotChosen:
            (
                "the patient's studies take heart rate from several personal devices, or from none",
                "enroll the key again with --device ID, or ask the study's staff"
            )
        case .heartRateNotAsked:
            ("no study of the patient collects heart rate", "ask the study's staff to add it")
        case .codeUnknown:
            ("the exchange does not know the heart-rate code", "ask the exchange's operator")
        case .baseUnknown:
            (
                "the exchange has neither /FHIR/R5/ nor /fhir/r5/",
                "the exchange is another server now, or behind a broken proxy: ask its operator"
            )
        case .requestRefused:
            (
                "the exchange refuses every request of this form",
                "look for a proxy that changes requests; otherwise report it"
            )
        case .exchangeFault:
            (
                "the exchange says that it is well and yet takes nothing",
                "ask the exchange's operator; report it"
            )
        }
    }
}
