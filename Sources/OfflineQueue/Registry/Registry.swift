/// A heart-rate sensor a technician made known.
public struct Sensor: Sendable, Hashable, Identifiable {
    /// The store's number for it.
    public let id: Int64
    /// Its Bluetooth address, upper case, colons: `A0:9E:1A:00:00:01`. Never logged in full.
    public let address: String
    /// The parts of it that may change.
    public var details: SensorDetails
    /// A forgotten sensor is not connected to; its samples and history stay.
    public let isForgotten: Bool
}

/// A sensor's facts about itself, and the name that people gave it. Texts are as received; all are optional.
public struct SensorDetails: Sendable, Hashable {
    /// The technician's or the sensor's own name for it.
    public var name: String?
    /// The address of the adapter that bonded with it, when bonding pins it to one.
    public var adapter: String?
    /// 0x2A38 Body Sensor Location, 0…6.
    public var bodyLocation: UInt8?
    /// 0x2A29.
    public var manufacturer: String?
    /// 0x2A24.
    public var model: String?
    /// 0x2A26.
    public var firmware: String?
    /// 0x2A25.
    public var serial: String?

    /// Details with whatever is known.
    public init(
        name: String? = nil, adapter: String? = nil, bodyLocation: UInt8? = nil,
        manufacturer: String? = nil, model: String? = nil, firmware: String? = nil,
        serial: String? = nil
    ) {
        self.name = name
        self.adapter = adapter
        self.bodyLocation = bodyLocation
        self.manufacturer = manufacturer
        self.model = model
        self.firmware = firmware
        self.serial = serial
    }
}

/// The authorization to deliver to one exchange. No tokens here: those are in files of their own.
public struct Enrollment: Sendable, Hashable, Identifiable {
    /// By what the gateway was let in.
    public enum Kind: String, Sendable, Hashable {
        /// An invitation link: one patient.
        case invitation
        /// A practitioner's API key: every patient who shares an organization.
        case practitionerKey = "practitioner-key"
        /// Another system or a file, for any patient: ``EnrollmentTerms/system`` says which.
        case destination
    }

    /// Whether the exchange still lets us in.
    public enum State: String, Sendable, Hashable {
        /// It does, as far as is known.
        case active
        /// The authorization is lost for good; all its samples are held until the gateway is enrolled again.
        case enrollAgain = "enroll-again"
    }

    /// The store's number for it, and for its delivery.
    public let id: Int64
    /// The terms that were agreed at enrollment.
    public var terms: EnrollmentTerms
    /// Whether it is in force.
    public let state: State
    /// Why the whole delivery is held, or nil.
    public let holdReason: String?
}

/// The terms that were agreed at enrollment, or found out since.
public struct EnrollmentTerms: Sendable, Hashable {
    /// A technician's name for it; unique.
    public var name: String
    /// By what the gateway was let in.
    public var kind: Enrollment.Kind
    /// The exchange's origin, `https://exchange.example`.
    public var origin: String
    /// Base of the FHIR API, `https://exchange.example/FHIR/R5`.
    public var fhirBase: String
    /// The OAuth client id.
    public var clientID: String?
    /// `Patient/` id of an invitation; nil for a practitioner key. Set once, never changed.
    public var patient: String?
    /// Which person each patient's number means: what a destination made of the exchange's account of the patient, to
    /// tell by whether the number has come to mean somebody else. Nothing of the account can be read from it.
    public var patientFingerprints: [String: String] = [:]
    /// `Device/` id at the exchange.
    public var device: String?
    /// Whether a person chose the device, which is then never replaced by another.
    public var isDeviceChosen = false
    /// System of the consented code.
    public var codeSystem: String?
    /// The consented code, `omh:heart-rate:2.0`.
    public var code: String?
    /// The system of the identifiers we give.
    public var identifierSystem: String
    /// `raw`, `10s` or `60s`.
    public var resolution: String
    /// The kind of system of a ``Enrollment/Kind/destination``.
    public var system: String?
    /// The settings that a person gave it, secrets excepted: text that the store does not read.
    public var settings: String?
    /// Whether the samples of every assignment that begins go there as well.
    public var takesEveryStrap = false
    /// How long samples wait for it where it is a further destination; nil: for ever. Then they are
    /// dropped for it, reason ``LossReason/maxAge``.
    public var keep: Duration?

    /// Terms; the unknown may be filled in later with ``SampleQueue/updateEnrollment(_:terms:)``.
    public init(
        name: String, kind: Enrollment.Kind = .invitation, origin: String, fhirBase: String,
        clientID: String? = nil, patient: String? = nil, device: String? = nil,
        codeSystem: String? = nil, code: String? = nil, identifierSystem: String,
        resolution: String = "raw"
    ) {
        self.name = name
        self.kind = kind
        self.origin = origin
        self.fhirBase = fhirBase
        self.clientID = clientID
        self.patient = patient
        self.device = device
        self.codeSystem = codeSystem
        self.code = code
        self.identifierSystem = identifierSystem
        self.resolution = resolution
    }
}

/// This sensor is worn by this patient and goes through this enrollment, from … until ….
///
/// Never edited, only ended. One that began without an enrollment may be bound to one, once.
public struct Assignment: Sendable, Hashable, Identifiable {
    /// The store's number for it; every sample names one.
    public let id: Int64
    /// The sensor worn.
    public let sensorID: Int64
    /// The delivery its samples take; nil: they are held as `not-enrolled`.
    public let enrollmentID: Int64?
    /// The patient of a practitioner's enrollment; nil: the enrollment's own patient.
    public let patient: String?
    /// Whether it goes on.
    public let isOpen: Bool

    /// The patient whom a further destination gets with the samples: the assignment's, or else that of its
    /// enrollment, which is one of `enrollments`.
    public func patient(among enrollments: [Enrollment]) -> String? {
        patient ?? enrollments.first { $0.id == enrollmentID }?.terms.patient
    }
}
