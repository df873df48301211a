import HTTPTypes
import OfflineQueue

/// The faults of a request: the stable names of ``ProblemReport/code``, each with its HTTP status.
///
/// docs/api.yaml lists the same names (`ProblemCode`) and says what the statuses mean.
enum ProblemCode: String, CaseIterable, Sendable {
    // The request itself.
    case badRequest = "bad-request"
    case badAddress = "bad-address"
    case badLink = "bad-link"
    case invalidArgument = "invalid-argument"
    case invalidFile = "invalid-file"
    case unknownSensor = "unknown-sensor"
    case unknownEnrollment = "unknown-enrollment"
    case unknownPatient = "unknown-patient"
    case unknownReference = "unknown-reference"
    case notFound = "not-found"
    case wrongMethod = "wrong-method"
    case wrongType = "wrong-type"
    case tooLarge = "too-large"
    case tooSlow = "too-slow"
    case headersTooLarge = "headers-too-large"
    // The rights of the client.
    case badToken = "bad-token"
    case tokenNeeded = "token-needed"
    case notPermitted = "not-permitted"
    case tooManyViewers = "too-many-viewers"
    // The radio and the sensor.
    case busAbsent = "bus-absent"
    case bluetoothdAbsent = "bluetoothd-absent"
    case bluetoothdHung = "bluetoothd-hung"
    case bluetoothdRefuses = "bluetoothd-refuses"
    case noAdapter = "no-adapter"
    case radioOff = "radio-off"
    case radioLost = "radio-lost"
    case adapterFull = "adapter-full"
    case sensorNotHeard = "sensor-not-heard"
    case sensorNotReached = "sensor-not-reached"
    case sensorRefuses = "sensor-refuses"
    case sensorNotAnswering = "sensor-not-answering"
    case sensorTaken = "sensor-taken"
    case sensorIsClassic = "sensor-is-classic"
    case noHeartRate = "no-heart-rate"
    case bondRefused = "bond-refused"
    case addressChanges = "address-changes"
    case passkeyNeeded = "passkey-needed"
    case nothingAsked = "nothing-asked"
    // Enrollments, patients and the exchange.
    case chooseEnrollment = "choose-enrollment"
    case choosePatient = "choose-patient"
    case chooseDevice = "choose-device"
    case deviceFixed = "device-fixed"
    case enrollAgain = "enroll-again"
    case notEnrolled = "not-enrolled"
    case nameTaken = "name-taken"
    case exchangeUnreachable = "exchange-unreachable"
    case exchangeTrouble = "exchange-trouble"
    case noHeartRateStudy = "no-heart-rate-study"
    case patientRefused = "patient-refused"
    case patientChanged = "patient-changed"
    case tokensNotStored = "tokens-not-stored"
    case tokensNotErased = "tokens-not-erased"
    case strapRecords = "strap-records"
    case strapChanged = "strap-changed"
    case badDestination = "bad-destination"
    case destinationRefuses = "destination-refuses"
    case ownDestination = "own-destination"
    case samplesWait = "samples-wait"
    case samplesMayCome = "samples-may-come"
    // Alerts.
    case badAlert = "bad-alert"
    case unknownAlert = "unknown-alert"
    case alertRefused = "alert-refused"
    case tooManyAlerts = "too-many-alerts"
    // The page.
    case noPage = "no-page"
    case tooManyShares = "too-many-shares"
    case stateUnwritable = "state-unwritable"
    // The store.
    case clockUntrusted = "clock-untrusted"
    case importing
    case unknownUpload = "unknown-upload"
    case notStored = "not-stored"
    case diskFull = "disk-full"
    case readOnly = "read-only"
    case otherVersion = "other-version"
    case inUse = "in-use"
    case corrupt
    case cannotOpen = "cannot-open"
    case inputOutput = "input-output"
    case closed
    case notContiguous = "not-contiguous"
    case alreadySet = "already-set"
    // The gateway.
    case internalFault = "internal-fault"

    /// A fault of the store, under the store's own name for it.
    init(_ code: QueueError.Code) {
        self = ProblemCode(rawValue: code.rawValue) ?? .internalFault
    }

    /// 400: the request is wrong; 409: the gateway is in no state to do it; the others as in RFC 9110.
    var status: HTTPResponse.Status {
        switch self {
        case .badRequest, .badAddress, .badLink, .invalidArgument, .invalidFile, .unknownSensor,
            .unknownEnrollment, .unknownPatient, .badDestination, .chooseEnrollment, .choosePatient,
            .badAlert, .unknownAlert:
            .badRequest
        case .badToken, .tokenNeeded: .unauthorized
        case .notPermitted: .forbidden
        case .notFound, .unknownReference: .notFound
        case .wrongMethod: .methodNotAllowed
        case .tooSlow: .requestTimeout
        case .tooLarge: .contentTooLarge
        case .wrongType: .unsupportedMediaType
        case .headersTooLarge: .requestHeaderFieldsTooLarge
        case .internalFault: .internalServerError
        case .tooManyViewers: .serviceUnavailable
        case .busAbsent, .bluetoothdAbsent, .bluetoothdHung, .bluetoothdRefuses, .noAdapter,
            .radioOff, .radioLost, .adapterFull, .sensorNotHeard, .sensorNotReached, .sensorRefuses,
            .sensorNotAnswering,
            .sensorTaken, .sensorIsClassic, .noHeartRate,
            .bondRefused, .addressChanges, .passkeyNeeded, .nothingAsked, .chooseDevice,
            .deviceFixed, .enrollAgain, .notEnrolled, .nameTaken, .exchangeUnreachable,
            .exchangeTrouble, .noHeartRateStudy, .patientRefused, .patientChanged, .tokensNotStored,
            .tokensNotErased, .strapRecords, .strapChanged, .destinationRefuses,
            .ownDestination, .samplesWait, .samplesMayCome, .alertRefused, .tooManyAlerts, .noPage,
            .tooManyShares, .stateUnwritable, .clockUntrusted, .importing, .unknownUpload,
            .notStored, .diskFull, .readOnly, .otherVersion, .inUse, .corrupt,
            .cannotOpen, .inputOutput, .closed, .notContiguous, .alreadySet:
            .conflict
        }
    }
}
