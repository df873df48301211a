/// Why a delivery keeps its samples back until a person has acted.
///
/// Raw values are stored, and part of the JSON contract. The words below hold for every destination;
/// a kind may have better ones (``DestinationKind/remedy(_:)``). `status` and `enroll` print them, and
/// `DocumentTableTests` writes them into docs/operate/operations.md.
public enum HoldReason: String, Sendable, Hashable, CaseIterable {
    case noConsent = "no-consent"
    /// The authorization is lost.
    case enrollAgain = "enroll-again"
    case wrongPatient = "wrong-patient"
    /// The patient's number means another person than when it was enrolled.
    case patientChanged = "patient-changed"
    case patientUnknown = "patient-unknown"
    /// Also: no device was found yet.
    case deviceUnknown = "device-unknown"
    case deviceNotChosen = "device-not-chosen"
    case heartRateNotAsked = "heart-rate-not-asked"
    /// The patient is in no study at all.
    case studyGone = "study-gone"
    /// Also: no code was found yet.
    case codeUnknown = "code-unknown"
    case baseUnknown = "fhir-base-unknown"
    case requestRefused = "request-refused"
    /// The server redirects.
    case moved
    case exchangeFault = "exchange-fault"
    /// A person has paused it.
    case paused
    // Of destinations other than an exchange.
    case credentialsRefused = "credentials-refused"
    case forbidden
    case notFound = "not-found"
    case schema
    case tooOld = "too-old"
    case planExceeded = "plan-exceeded"
    case pairingLost = "pairing-lost"
    case nameTaken = "name-taken"

    /// Whether an exchange can give it, and so a relay for it. A pause, for one, is only a person's: a delivery
    /// that is paused is not started.
    var isOfExchange: Bool {
        switch self {
        case .noConsent, .enrollAgain, .wrongPatient, .patientChanged, .patientUnknown,
            .deviceUnknown, .deviceNotChosen, .heartRateNotAsked, .studyGone, .codeUnknown,
            .baseUnknown, .requestRefused, .moved:
            true
        case .exchangeFault, .paused, .credentialsRefused, .forbidden, .notFound, .schema, .tooOld,
            .planExceeded, .pairingLost, .nameTaken:
            false
        }
    }

    /// The meaning, one line.
    public var meaning: String { words.meaning }
    /// The remedy, for a person, one line. Delivery resumes by itself.
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
        case .patientChanged:
            (
                "the exchange gives the patient's number to another person than before",
                "ask the study's staff who has the number; if only the patient's record was corrected: "
                    + "edge-gateway confirm patient NAME, with --patient ID for a practitioner's"
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
        case .studyGone:
            (
                "the patient is in no study any more: it was deleted, or the patient taken out of it",
                "ask the study's staff to add the patient to a study that collects heart rate; a consent "
                    + "alone does not help"
            )
        case .codeUnknown:
            ("the exchange does not know the heart-rate code", "ask the exchange's operator")
        case .baseUnknown:
            (
                "the exchange has neither /FHIR/R5/ nor /fhir/r5/",
                "the exchange is another server now, or behind a broken proxy: ask its operator"
            )
        case .requestRefused:
            (
                "the destination refuses every request of this form",
                "look for a proxy that changes requests; otherwise report it"
            )
        case .moved:
            (
                "the server redirects to another address, and nothing is sent there",
                "if it has moved: edge-gateway enroll LINK --moved NAME, or add the destination again, with "
                    + "its new address; a portal of the network that wants a sign-in redirects, too"
            )
        case .exchangeFault:
            (
                "the destination reports itself well, but takes nothing",
                "ask the destination's operator; report it"
            )
        case .paused:
            ("a person paused the delivery", "edge-gateway destination resume NAME")
        case .credentialsRefused:
            (
                "the destination does not take the key, the password or the token",
                "add the destination again with a key that is valid"
            )
        case .forbidden:
            (
                "the destination knows the key, but does not let it write",
                "the destination's operator gives the key the right to add data"
            )
        case .notFound:
            (
                "the destination has no such database, bucket, table or path",
                "the destination's operator restores it, or add the destination again"
            )
        case .schema:
            (
                "the destination's table or field has another form than the data",
                "the destination's operator corrects it as docs/use/destinations.md says"
            )
        case .tooOld:
            (
                "the destination keeps no data as old as these",
                "the destination's operator lengthens its retention; or export the samples and "
                    + "remove the destination"
            )
        case .planExceeded:
            (
                "the destination takes no more data under its plan",
                "the destination's owner makes room or extends the plan"
            )
        case .nameTaken:
            (
                "another gateway has this one's name there, as after a memory card was copied",
                "give one of the two a name of its own: add the destination again with another gateway=NAME and --replace"
            )
        case .pairingLost:
            (
                "the destination no longer knows the pairing of this sensor and patient",
                "pair again at the destination"
            )
        }
    }
}
