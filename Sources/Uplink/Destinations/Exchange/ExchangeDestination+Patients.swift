import OfflineQueue

/// The device and code under which a patient's samples go out.
struct Attribution: Sendable, Hashable {
    var device: String
    var code: ObservationCode
}

/// The known state of one patient's attribution.
enum PatientAttribution: Sendable {
    case known(Attribution)
    /// Only a person can mend what is missing.
    case held(HoldReason)
}

/// The attributions of a request's patients, or the answer that stands for the whole attempt.
enum FoundAttributions: Sendable {
    case found([String: PatientAttribution])
    case stopped(DeliveryAnswer)
}

/// The result of confirming the person behind a patient's number.
public enum PersonConfirmation: Sendable, Hashable {
    /// It is known now.
    case confirmed
    /// The tokens are for another number than the enrollment's.
    case otherNumber
    /// The exchange could not be asked.
    case notAsked(String)
}

/// A practitioner's enrollment serves many patients, each with studies and consents of their own.
extension ExchangeDestination {
    /// As many patients as are remembered at a time.
    private static let attributionsMax = 1000

    /// Whether the exchange is asked whose number each of a practitioner's patients has.
    var isPersonAsked: Bool { terms.kind == .practitionerKey && termsChanged != nil }

    /// The device and code for each patient of these data points, or why theirs are held. Of each of a
    /// practitioner's patients the exchange is asked whose number it is, and what the enrollment does not say.
    func attributions(
        of points: [OutgoingPoint]
    ) async -> FoundAttributions {
        let own = own
        if !isPersonAsked, let device = own.device, let code = own.code {
            let patients = Set(points.compactMap { $0.patient ?? terms.patient })
            let attribution = Attribution(device: device, code: code)
            return .found(
                Dictionary(uniqueKeysWithValues: patients.map { ($0, .known(attribution)) }))
        }
        guard terms.kind == .practitionerKey else {
            let reason = own.device == nil ? HoldReason.deviceUnknown : .codeUnknown
            return .stopped(.held(reason, retryAt: nil))
        }
        var found: [String: PatientAttribution] = [:]
        for case let patient? in points.map(\.patient) where found[patient] == nil {
            if let known = knownAttributions[patient] {
                found[patient] = .known(known)
                continue
            }
            switch await access(of: patient) {
            case .success(let access):
                let attribution = await attribution(access)
                found[patient] = attribution
                if knownAttributions.count >= Self.attributionsMax { knownAttributions = [:] }
                if case .known(let known) = attribution { knownAttributions[patient] = known }
            case .failure(.status(403)): found[patient] = .held(.wrongPatient)
            case .failure(.status(404)): found[patient] = .held(.patientUnknown)
            case .failure(.noToken(let fault)):
                lastFault = .noToken(fault.cause)
                return .stopped(fault.answer())
            case .failure(.unauthorized):
                lastFault = .noToken("")
                return .stopped(.notSent(retryAt: nil))
            // The others do not wait for one whom the exchange cannot tell about while it works.
            case .failure(let fault) where await isOfOnePatient(fault, patient):
                found[patient] = .held(.patientUnknown)
            case .failure(let fault):
                lastFault = self.fault(fault)
                return .stopped(.notSent(retryAt: nil))
            }
        }
        return .found(found)
    }

    /// Whether a question about a patient failed for that patient's sake: the exchange answered it with an
    /// error, works otherwise, and answers it so again.
    private func isOfOnePatient(_ fault: ExchangeReader.Fault, _ patient: String) async -> Bool {
        guard Self.isAnswer(fault), await isHealthy(),
            case .failure(let again) = await access(of: patient)
        else { return false }
        return Self.isAnswer(again)
    }

    /// Whether the exchange's own program answered. What stands before it has 502, 503 and 504.
    static func isAnswer(_ fault: ExchangeReader.Fault) -> Bool {
        switch fault {
        case .unauthorized, .noToken, .transport, .redirect: false
        case .status(let status), .page(let status): status != 429 && !(502...504).contains(status)
        case .unreadable: true
        }
    }

    /// The answers to these data points. A device or code that the exchange does not take and that was found out
    /// for one patient is a matter of that patient alone, about whom it is asked anew.
    ///
    /// - Parameter own: those of the enrollment, when the data points were sent.
    func byPatient(
        _ answers: [EntryAnswer], to points: [OutgoingPoint],
        own: (device: String?, code: ObservationCode?)
    ) -> [EntryAnswer] {
        zip(answers, points).map { answer, point in
            let reason: HoldReason
            switch answer.verdict {
            case .held(.deviceUnknown) where own.device == nil: reason = .deviceNotChosen
            case .held(.codeUnknown) where own.code == nil: reason = .heartRateNotAsked
            default: return answer
            }
            if let patient = point.patient { forgetAttributions(of: [patient]) }
            return EntryAnswer(
                .held(reason), status: answer.status, diagnostics: answer.diagnostics)
        }
    }

    /// The answers with what stands behind a consent that is missing: the exchange says the same of a patient who has
    /// not consented and of one who is in no study any more. It is asked once a patient.
    func withReasons(
        _ answers: [EntryAnswer], to points: [OutgoingPoint]
    ) async -> [EntryAnswer] {
        var reasons: [String: HoldReason] = [:]
        for (answer, point) in zip(answers, points) where answer.verdict == .held(.noConsent) {
            guard let patient = point.patient ?? terms.patient, reasons[patient] == nil,
                let token = try? await tokens.token()
            else { continue }
            let found = try? await reader.missingConsent(of: patient, token: token.secret)
            reasons[patient] = found ?? .noConsent
        }
        return zip(answers, points).map { answer, point in
            guard answer.verdict == .held(.noConsent),
                let reason = (point.patient ?? terms.patient).flatMap({ reasons[$0] })
            else { return answer }
            return EntryAnswer(
                .held(reason), status: answer.status, diagnostics: answer.diagnostics)
        }
    }

    /// The exchange is asked about these patients anew.
    func forgetAttributions(of patients: Set<String>) {
        for patient in patients { knownAttributions[patient] = nil }
    }

    /// The part that is clear without a person's choice. From its first sample on, a number stands for one person.
    private func attribution(_ access: PatientAccess?) async -> PatientAttribution {
        guard let access else { return .held(.heartRateNotAsked) }
        if termsChanged != nil, let person = access.person {
            switch terms.knows(person) {
            case true?: break
            case false?: return .held(.patientChanged)
            case nil: await keep(person)
            }
        }
        let only = access.devices.count == 1 ? access.devices[0].id : nil
        guard let device = own.device ?? only else { return .held(.deviceNotChosen) }
        return .known(Attribution(device: device, code: own.code ?? access.code))
    }

    /// The access that the exchange gives this enrollment for one patient; nil inside when no study of
    /// theirs collects heart rate.
    ///
    /// - Parameter patient: as ``PatientAccess/isPatientID(_:)`` has it.
    public func access(of patient: String) async -> Result<PatientAccess?, ExchangeReader.Fault> {
        let (reader, clientID) = (reader, await tokens.clientID)
        return await ask { token throws(ExchangeReader.Fault) in
            try await reader.access(patient: patient, clientID: clientID, token: token)
        }
    }

    // MARK: - Whose number it is

    /// The answer that stands for an attempt while it is not known that the number of the enrollment's patient means the
    /// person who was enrolled; nil when it does. The exchange is asked once after a start, a hold or a refused token.
    func doubtOfPerson() async -> DeliveryAnswer? {
        guard terms.kind == .invitation, !terms.patientFingerprints.isEmpty, !isPersonKnown else {
            return nil
        }
        let answer = await account()
        if case .success = answer { lastFault = nil }
        switch answer {
        case .success(let account?) where account.patient != terms.patient:
            return .held(.wrongPatient, retryAt: nil)
        case .success(let account?) where terms.knows(account) ?? true:
            isPersonKnown = true
            return nil
        case .success: return .held(.patientChanged, retryAt: nil)
        case .failure(.noToken(let fault)):
            lastFault = .noToken(fault.cause)
            return fault.answer()
        case .failure(.redirect(let redirect)):
            lastFault = .redirect(redirect)
            return .held(.moved, retryAt: nil)
        case .failure(let fault):
            lastFault = self.fault(fault)
            return .notSent(retryAt: nil)
        }
    }

    /// Takes a person for the one whom the number means.
    private func keep(_ person: PatientAccount) async {
        terms.patientFingerprints[person.patient] = person.fingerprint()
        await termsChanged?(terms)
    }

    /// The patient's account behind the token; nil inside when it is no patient's.
    private func account() async -> Result<PatientAccount?, ExchangeReader.Fault> {
        let reader = reader
        return await ask { token throws(ExchangeReader.Fault) in
            try await reader.account(token: token)
        }
    }

    /// Takes the person whom the exchange names now for the one whom the number meant before, after somebody has said so.
    ///
    /// - Parameter patient: one of a practitioner's patients; nil for the patient of an invitation.
    public func confirmPerson(_ patient: String?) async -> PersonConfirmation {
        let answer: Result<PatientAccount?, ExchangeReader.Fault> =
            if let patient { await access(of: patient).map { $0?.person } } else { await account() }
        switch answer {
        case .success(let person?) where person.patient == patient ?? terms.patient:
            await keep(person)
            isPersonKnown = true
            return .confirmed
        case .success: return .otherNumber
        case .failure(let fault): return .notAsked(self.fault(fault).description)
        }
    }

    /// Takes the device and the code that the enrollment does not have yet, and the person. What it has stays: it
    /// stands for every patient's samples.
    public func adopt(_ access: PatientAccess, device: String) async {
        var changed = terms
        if changed.device == nil { changed.device = device }
        if let person = access.person, terms.knows(person) == nil {
            changed.patientFingerprints[person.patient] = person.fingerprint()
        }
        if changed.code == nil {
            changed.codeSystem = access.code.system
            changed.code = access.code.code
        }
        guard changed != terms else { return }
        update(changed)
        await termsChanged?(changed)
    }

    /// Whether the exchange lets this patient's samples in, as far as it tells. After a lost access
    /// only a sample shows whether the consent is there too.
    public func isMended(_ reason: HoldReason, of patient: String?) async -> Bool {
        // A sample that names none costs no request, and tells nothing of the others.
        guard let patient else { return true }
        knownAttributions[patient] = nil
        guard case .success(let access?) = await access(of: patient) else { return false }
        if case .held(let now) = await attribution(access), now == reason { return false }
        return access.isConsented || reason != .noConsent
    }
}
