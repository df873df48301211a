import Basics
import OfflineQueue
import Uplink

/// The patient of a strap that is being paired, as far as the enrollment leaves it open.
struct PairedPatient {
    /// The exchange's answer about the patient; nil if it was not asked.
    var access: PatientAccess?
    /// The device to attribute data to, for an enrollment that has none yet.
    var device: String?
    /// Advice for a technician.
    var notes: [String] = []
}

/// Sees to it that a strap's destinations can deliver for its patient, and asks the exchange where it can be asked.
struct PatientCheck: Sendable {
    let deliveries: Deliveries

    /// Asks the exchange about the patient of a practitioner's enrollment, before anything is done.
    ///
    /// - Parameters:
    ///   - patient: the exchange's id of the patient; nil where the enrollment names one, or nobody does.
    ///   - device: the exchange's id of the device to attribute data to; nil for the one that fits.
    ///   - further: where the strap's samples go beside the enrollment.
    /// - Throws: ``ProblemReport`` when nothing could be delivered for this patient.
    func patient(
        _ patient: String?, device: String?, _ enrollment: Enrollment?, further: [Enrollment]
    ) async throws -> PairedPatient {
        if let patient, !PatientAccess.isPatientID(patient) {
            throw ProblemReport(
                code: .badRequest, message: "this is not a patient's identifier",
                advice: "up to 64 letters, digits, - and ., such as 40001")
        }
        if let patient, !PatientAccess.isExchangeID(patient),
            let exchange = (further + [enrollment].compactMap { $0 })
                .first(where: { Self.isAtExchange($0.terms) })
        {
            throw ProblemReport(
                code: .patientRefused,
                message: "\(exchange.terms.name): a patient's id at an exchange is a number",
                advice: "such as 40001; the exchange shows the patient's")
        }
        try Self.checkIsNamed(
            patient ?? enrollment?.terms.patient,
            for: ([enrollment].compactMap { $0 } + further).map(\.terms))
        guard let enrollment, enrollment.terms.kind == .practitionerKey, let patient else {
            guard device == nil else {
                throw ProblemReport(
                    code: .badRequest,
                    message: "only a practitioner's enrollment lets you choose a device",
                    advice: "leave --device out, or enroll again with it")
            }
            return PairedPatient()
        }
        let answer = await deliveries.access(of: patient, enrollment: enrollment.id)
        let access = try Self.usable(answer, enrollment)
        if let person = access.person, enrollment.terms.knows(person) == false {
            throw ProblemReport(
                code: .patientChanged,
                message: "at the exchange the patient's number was another person's when "
                    + "\(enrollment.terms.name) delivered for it before",
                advice:
                    "ask the study's staff who has the number. Somebody else: enroll the key once more "
                    + "with another --name, and pair for that one. The same person, whose record was "
                    + "corrected: edge-gateway confirm patient \(enrollment.terms.name.shellWord) --patient ID"
            )
        }
        var paired = try Self.choose(device, access, enrollment.terms)
        if !access.isConsented {
            paired.notes.append(
                "the patient has not consented to heart rate: samples are held until then")
        }
        return paired
    }

    /// Gives the enrollment what it does not have yet.
    func adopt(_ patient: PairedPatient, for enrollment: Enrollment) async {
        guard let access = patient.access, let device = patient.device else { return }
        await deliveries.adopt(access, device: device, enrollment: enrollment.id)
    }

    /// Checks that samples for an exchange name a patient: those that do not would be held.
    ///
    /// - Throws: ``ProblemReport`` with the first of `all` that would hold them.
    static func checkIsNamed(
        _ patient: String?, for all: [EnrollmentTerms],
        advice: String = "name the patient by the exchange's id: --patient ID"
    ) throws {
        guard patient == nil,
            let one = all.first(where: { isAtExchange($0) && $0.settingValues["patient"] == nil })
        else { return }
        throw ProblemReport(
            code: .choosePatient, message: "\(one.name) serves many patients", advice: advice)
    }

    /// Whether the patients that a person names there are an exchange's.
    private static func isAtExchange(_ terms: EnrollmentTerms) -> Bool {
        let kind = terms.system.flatMap { try? DestinationRegistry.kind($0) }
        return terms.kind == .practitionerKey || kind?.leadsToExchange == true
    }

    private static func usable(
        _ answer: Result<PatientAccess?, ExchangeReader.Fault>?, _ enrollment: Enrollment
    ) throws -> PatientAccess {
        let name = enrollment.terms.name
        switch answer {
        case nil where enrollment.state == .active:
            throw ProblemReport(
                code: .exchangeUnreachable,
                message:
                    "the exchange cannot be asked about the patient: the delivery does not run",
                advice: "edge-gateway status says why; "
                    + "if it is paused: edge-gateway destination resume \(name.shellWord)")
        case .failure(.noToken(.notNow)):
            throw ProblemReport(
                code: .exchangeTrouble,
                message:
                    "the exchange cannot be asked about the patient: there is no access token now",
                advice: "try again in a few minutes; if it goes on, edge-gateway status says why")
        case nil, .failure(.noToken(.enrollAgain)), .failure(.unauthorized):
            throw ProblemReport(
                code: .enrollAgain,
                message: "\(name): the exchange refuses this gateway's credentials",
                advice: "edge-gateway enroll --practitioner-key-file FILE --name \(name.shellWord)")
        case .failure(.status(400)), .failure(.status(403)), .failure(.status(404)):
            throw ProblemReport(
                code: .patientRefused,
                message: "the exchange knows no such patient, or not for this practitioner",
                advice: "check the number; patient and practitioner must share an organization")
        case .failure(.transport(let fault)):
            throw ProblemReport(
                code: .exchangeUnreachable,
                message: "the exchange cannot be asked about the patient: \(fault)",
                advice: "fix the network, then try again; paired straps go on recording")
        case .failure(.redirect(let redirect)):
            throw ProblemReport(
                code: .exchangeTrouble,
                message: "the exchange \(redirect)",
                advice: redirect.enrollAdvice)
        case .failure(.status(let status)), .failure(.page(let status)):
            throw ProblemReport(
                code: .exchangeTrouble,
                message: "the exchange answers \(status) to a question about the patient",
                advice: "try again in a few minutes; if it goes on, tell the exchange's operator")
        case .failure(.unreadable):
            throw ProblemReport(
                code: .exchangeTrouble,
                message: "the exchange's answer about the patient cannot be read",
                advice: "look for a proxy between here and the exchange, then try again")
        case .success(nil):
            throw ProblemReport(
                code: .noHeartRateStudy,
                message: "no study of this patient collects heart rate",
                advice: "ask the study's staff to add it, or choose another patient")
        case .success(let access?): return access
        }
    }

    private static func choose(
        _ wanted: String?, _ access: PatientAccess, _ terms: EnrollmentTerms
    ) throws -> PairedPatient {
        let list = access.devices.map { "\($0.id) (\($0.name))" }.joined(separator: ", ")
        if let known = terms.device {
            guard wanted == nil || wanted == known else {
                throw ProblemReport(
                    code: .deviceFixed,
                    message: "\(terms.name) attributes its data to device \(known)",
                    advice: "leave --device out, or enroll the key again with another --name")
            }
            let isListed = access.devices.contains { $0.id == known }
            return PairedPatient(
                access: access, device: known,
                notes: isListed
                    ? [] : ["device \(known) is in none of this patient's heart-rate studies"])
        }
        guard !access.devices.isEmpty else {
            throw ProblemReport(
                code: .chooseDevice,
                message: "the patient's studies take heart rate from no personal device",
                advice: "ask the study's staff to add a data source of type personal device")
        }
        if let wanted {
            guard access.devices.contains(where: { $0.id == wanted }) else {
                throw ProblemReport(
                    code: .chooseDevice,
                    message: "the patient's studies do not take heart rate from device \(wanted)",
                    advice: "they take it from: \(list)")
            }
            return PairedPatient(access: access, device: wanted)
        }
        guard access.devices.count == 1 else {
            throw ProblemReport(
                code: .chooseDevice,
                message: "the patient's studies take heart rate from several devices: \(list)",
                advice: "choose one with --device ID")
        }
        return PairedPatient(access: access, device: access.devices[0].id)
    }
}
