import Basics
import Foundation
import Logging
import OfflineQueue

/// Delivery to one JupyterHealth Exchange (docs/develop/exchange.md).
public actor ExchangeDestination: Destination {
    /// The known state of the enrollment, kept current as the exchange changes.
    public internal(set) var terms: EnrollmentTerms
    /// Why the last attempt delivered nothing; nil after one that did.
    public internal(set) var lastFault: DeliveryFault?
    /// The same in words.
    public var fault: String? { lastFault?.description }
    public var faultAdvice: String? { lastFault?.advice }
    public private(set) var requestTook: Duration?

    private let origin: Origin
    let tokens: RenewingTokens
    private let transport: any HTTPTransport
    let clock: any GatewayClock
    let logger: Logger
    let termsChanged: (@Sendable (EnrollmentTerms) async -> Void)?
    private var writer: BundleWriter?
    var intervals = IntervalConsent.unknown
    private struct PointWriter {
        var strap: StrapDatasheet
        var code: ObservationCode
        var writer: DataPointWriter
    }
    private var pointWriters: [Int64: PointWriter] = [:]
    /// Under which device and code the samples of a practitioner's patients go out.
    var knownAttributions: [String: Attribution] = [:]
    /// Only a patient may tell the exchange of a source of such resources.
    public nonisolated let takesLedger: Bool
    var ledgerPlace = LedgerPlace.unknown
    /// Whether the exchange has taken entries of the gap ledger since the start.
    var hasTakenLedger = false
    /// Whether the exchange has confirmed that the patient's number means the person who was enrolled, since the last time
    /// that this may have changed.
    var isPersonKnown = false

    /// A gateway has a handful of straps; beyond this the writers are made anew.
    static let pointWritersMax = 64

    /// A destination for the enrollment with `terms`. `termsChanged` is called with what was found
    /// out anew and is to be kept; nil if nothing is kept. Nil when the terms name no server.
    public init?(
        terms: EnrollmentTerms, tokens: RenewingTokens, transport: any HTTPTransport,
        clock: any GatewayClock = SystemClock(), logger: Logger,
        termsChanged: (@Sendable (EnrollmentTerms) async -> Void)? = nil
    ) {
        guard let origin = Origin(terms.origin) else { return nil }
        self.origin = origin
        self.terms = terms
        takesLedger = terms.kind == .invitation
        self.tokens = tokens
        self.transport = transport
        self.clock = clock
        self.logger = logger
        self.termsChanged = termsChanged
    }

    /// The exchange's host, as messages name it.
    var host: String { origin.host }

    public func finish() async { await tokens.finish() }

    /// Takes terms that were changed by a person.
    public func update(_ terms: EnrollmentTerms) {
        self.terms = terms
        writer = nil
        knownAttributions = [:]
        forgetWriters()
        intervals = .unknown
        ledgerPlace = .unknown
        isPersonKnown = false
    }

    /// Notes that the exchange does not take the token: it may have been made anew, with other people.
    func refused(_ token: AccessToken) async {
        isPersonKnown = false
        knownAttributions = [:]
        await tokens.refused(token)
    }

    func forgetWriters() { pointWriters = [:] }

    // MARK: - Delivering

    /// Sends one bundle, or one observation to the single endpoint. RR intervals that the patient has
    /// not consented to are left out, and answered with ``EntryVerdict/notWanted(_:)``.
    public func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        // Without a limit it is never too late.
        await deliver(points, alone: alone, isInTime: nil) ?? .notSent(retryAt: nil)
    }

    /// The same, unless `isInTime` says no before the request is whole at the exchange
    /// (``HTTPRequest/isInTime``).
    ///
    /// - Returns: nil if it was too late: the exchange has nothing of it.
    func deliver(
        _ points: [OutgoingPoint], alone: Bool, isInTime: (@Sendable () -> Bool)?
    ) async -> DeliveryAnswer? {
        requestTook = nil
        if let answer = await doubtOfPerson() { return answer }
        if points.contains(where: \.point.isInterval), let answer = await learnIntervalCode() {
            return answer
        }
        let own = own
        let found: [String: PatientAttribution]
        switch await attributions(of: points) {
        case .found(let known): found = known
        case .stopped(let answer): return answer
        }
        var entries: [BundleWriter.Entry] = []
        // An entry that is not sent has its answer already.
        var known: [EntryAnswer?] = []
        for point in points {
            if let why = refusal(of: point) {
                known.append(EntryAnswer(.notWanted(why)))
                continue
            }
            guard let patient = point.patient ?? terms.patient, let whose = found[patient] else {
                known.append(EntryAnswer(.held(.patientUnknown)))
                continue
            }
            let attribution: Attribution
            switch whose {
            case .known(let one): attribution = one
            case .held(let reason):
                known.append(EntryAnswer(.held(reason)))
                continue
            }
            known.append(nil)
            entries.append(
                BundleWriter.Entry(
                    point: point.point, patient: patient,
                    writer: pointWriter(point, code: attribution.code),
                    device: attribution.device))
        }
        guard let first = entries.first else { return .entries(known.compactMap { $0 }) }
        let writer =
            writer
            ?? BundleWriter(
                device: first.device ?? "", identifierSystem: terms.identifierSystem)
        self.writer = writer
        let isSingle = alone && entries.count == 1
        let body = isSingle ? writer.observation(first) : writer.bundle(entries)
        let answer = await post(
            body, count: entries.count, isSingle: isSingle, isInTime: isInTime)
        guard case .entries(let answers)? = answer else { return answer }
        let spread = byPatient(spread(answers, over: points, known), to: points, own: own)
        return .entries(await withReasons(spread, to: points))
    }

    /// Puts the answers beside the data points they are of.
    private func spread(
        _ answers: [EntryAnswer], over points: [OutgoingPoint], _ known: [EntryAnswer?]
    ) -> [EntryAnswer] {
        var answers = answers.makeIterator()
        return zip(points, known).compactMap { point, known in
            if let known { return known }
            guard let answer = answers.next() else { return nil }
            // Withdrawn, or a code this server does not know: no reason to hold the heart rate.
            guard point.point.isInterval else { return answer }
            let why: IntervalRefusal
            switch answer.verdict {
            case .held(.noConsent): why = .noConsent
            case .held(.codeUnknown): why = .codeUnknown
            default: return answer
            }
            refuseIntervals(why)
            return EntryAnswer(
                .notWanted(why.reason), status: answer.status, diagnostics: answer.diagnostics)
        }
    }

    /// The device and code of the enrollment itself; one of them is missing where it serves many patients
    /// and nothing was chosen yet.
    var own: (device: String?, code: ObservationCode?) {
        guard let system = terms.codeSystem, let code = terms.code else {
            return (terms.device, nil)
        }
        return (terms.device, ObservationCode(system: system, code: code))
    }

    private func pointWriter(_ point: OutgoingPoint, code: ObservationCode) -> DataPointWriter {
        if let known = pointWriters[point.sensorID], known.strap == point.strap, known.code == code
        {
            return known.writer
        }
        if pointWriters.count >= Self.pointWritersMax { pointWriters = [:] }
        let writer = DataPointWriter(
            code: code, intervalCode: intervals.code ?? .omhRRInterval, strap: point.strap)
        pointWriters[point.sensorID] = PointWriter(strap: point.strap, code: code, writer: writer)
        return writer
    }

    private func post(
        _ body: [UInt8], count: Int, isSingle: Bool, isInTime: (@Sendable () -> Bool)?
    ) async -> DeliveryAnswer? {
        // Once as it is, once with a renewed token, once at another base: the exchange has examined
        // nothing when it says 401 or 404.
        for _ in 0..<3 {
            let token: AccessToken
            do {
                token = try await tokens.token()
            } catch {
                lastFault = .noToken(error.cause)
                return error.answer()
            }
            let base = fhirTarget
            var request = HTTPRequest(
                .post, origin, base + (isSingle ? "Observation" : ""),
                contentType: "application/json", body: body)
            request.isInTime = isInTime
            let answer: HTTPAnswer
            let began = clock.read().uptime
            do {
                defer { requestTook = clock.read().uptime - began }
                answer = try await transport.send(request.authorized(by: token.secret))
            } catch .tooLate {
                return nil
            } catch {
                // A refused certificate is a matter for a person, but may also be the clock's: it is
                // tried again like a missing connection.
                lastFault = .transport(error, host: host)
                return error.certainlyNotSent
                    ? .notSent(retryAt: nil) : .unanswered("\(error)")
            }
            if let redirect = Redirect(answer, of: origin) {
                lastFault = .redirect(redirect)
                return .held(.moved, retryAt: nil)
            }
            lastFault = .answer(status: answer.status, answer.content)
            switch answer.status {
            // A page with this status is a proxy's: no reason to give up a token.
            case 401 where answer.isDocument:
                await refused(token)
                lastFault = .noToken("")
                // Before samples are sent with another token, the exchange is asked who the patients are.
                if isPersonAsked { return .notSent(retryAt: nil) }
                if let answer = await doubtOfPerson() { return answer }
            case 404:
                switch await findBase() {
                case true?: break
                case false?: return .held(.baseUnknown, retryAt: nil)
                case nil: return .unclear("404")
                }
                if fhirTarget == base { return .unclear("404") }
            default:
                if answer.status < 300, answer.isDocument { await tokens.accepted(token) }
                return note(
                    isSingle ? readSingle(answer) : readBundle(answer, count: count))
            }
        }
        return .notSent(retryAt: nil)
    }

    /// Keeps in mind what the answer says of the exchange.
    private func note(_ answer: DeliveryAnswer) -> DeliveryAnswer {
        guard case .entries(let entries) = answer else { return answer }
        if let unclear = entries.first(where: { $0.verdict == .unclear }),
            entries.allSatisfy({ $0.verdict == .unclear })
        {
            lastFault = .refusal(of: unclear)
        } else {
            lastFault = nil
        }
        return answer
    }

    /// The FHIR base as a path with both slashes.
    var fhirTarget: String {
        var path = Substring(terms.fhirBase)
        if let known = Origin(terms.fhirBase) { path = path.dropFirst(known.description.count) }
        return path.hasSuffix("/") ? String(path) : path + "/"
    }

    // MARK: - Looking around

    /// Whether the exchange and its database answer, the table of observations too.
    public func isHealthy() async -> Bool {
        let (reader, base) = (reader, fhirTarget)
        // While a delivery is held, nothing else finds out that the exchange does not know the token any more.
        let answer = await ask { token throws(ExchangeReader.Fault) in
            try await reader.checkHealth(token: token)
            try await reader.checkObservations(below: base, token: token)
        }
        switch answer {
        case .success: return true
        case .failure(let fault):
            if case .redirect = fault { lastFault = self.fault(fault) }
            return false
        }
    }

    /// The answer to a question that needs a token: to the one there is or, if the exchange does not take that, to a
    /// renewed one.
    func ask<Answer: Sendable>(
        _ question: @Sendable (Secret) async throws(ExchangeReader.Fault) -> Answer
    ) async -> Result<Answer, ExchangeReader.Fault> {
        for _ in 0..<2 {
            let token: AccessToken
            do {
                token = try await tokens.token()
            } catch {
                return .failure(.noToken(error))
            }
            do {
                let answer = try await question(token.secret)
                await tokens.accepted(token)
                return .success(answer)
            } catch .unauthorized {
                await refused(token)
            } catch {
                return .failure(error)
            }
        }
        return .failure(.unauthorized)
    }

    /// Whether the exchange answers a question for which it reads observations.
    public func isSilenceOver() async -> Bool {
        do {
            let token = try await tokens.token()
            do {
                try await reader.checkObservations(below: fhirTarget, token: token.secret)
            } catch {
                lastFault = fault(error)
                return false
            }
        } catch {
            // Without an authorization nothing is sent, and a person shall learn that.
            if case .notNow = error {
                lastFault = .noToken(error.cause)
                return false
            }
        }
        lastFault = nil
        return true
    }

    /// Looks whether the reason of a hold seems gone, and learns what has changed.
    public func isMended(_ reason: HoldReason) async -> Bool {
        isPersonKnown = false
        switch reason {
        case .enrollAgain: return (try? await tokens.token()) != nil
        // A delivery that runs was resumed.
        case .paused: return true
        case .baseUnknown: return await findBase() ?? false
        case .requestRefused, .moved, .exchangeFault:
            if await isHealthy() { return true }
            return await hasNoAuthorization()
        // The others have to do with a patient, a code or a device: the exchange's answers may differ now.
        default:
            knownAttributions = [:]
            // A practitioner's patients differ from sample to sample: only a sample can tell.
            guard terms.kind == .invitation else { return await isHealthy() }
            return await rediscover(reason)
        }
    }

    /// Whether this gateway is no longer authorized: then a sample is tried, so that this becomes the reason.
    private func hasNoAuthorization() async -> Bool {
        do {
            _ = try await tokens.token()
            return false
        } catch .notNow {
            return false
        } catch {
            return true
        }
    }

    var reader: ExchangeReader { ExchangeReader(transport: transport, origin: origin) }

    /// Whether the exchange has a FHIR base, which is used from now on; nil if that is unknown.
    private func findBase() async -> Bool? {
        let found: String?
        do {
            found = try await reader.fhirBase()
        } catch {
            lastFault = fault(error)
            return nil
        }
        guard let base = found else { return false }
        if base != fhirTarget {
            logger.notice("found FHIR base", metadata: ["base": "\(base)"])
            terms.fhirBase = origin.description + base.dropLast()
            await termsChanged?(terms)
        }
        return true
    }

    func fault(_ fault: ExchangeReader.Fault) -> DeliveryFault {
        switch fault {
        case .unauthorized: .noToken("")
        case .noToken(let fault): .noToken(fault.cause)
        case .status(let status): .answer(status: status, .document)
        case .redirect(let redirect): .redirect(redirect)
        case .page(let status): .answer(status: status, .page)
        case .unreadable: .answer(status: 200, .other)
        case .transport(let fault): .transport(fault, host: host)
        }
    }

    private func rediscover(_ reason: HoldReason) async -> Bool {
        guard let token = try? await tokens.token() else { return await hasNoAuthorization() }
        let account: PatientAccount?
        do {
            account = try await reader.account(token: token.secret)
        } catch {
            if error == .unauthorized { await refused(token) }
            return false
        }
        // Stored samples belong to the patient of the enrollment and to no other.
        guard let account, account.patient == terms.patient else { return false }
        // A sample is tried, so that this becomes the reason.
        guard terms.knows(account) ?? true else { return reason != .patientChanged }
        guard reason != .wrongPatient, reason != .patientChanged,
            let access = try? await reader.access(
                patient: account.patient, clientID: await tokens.clientID, token: token.secret)
        else { return [.wrongPatient, .patientChanged].contains(reason) }
        await adopt(access)
        guard access.isConsented else { return false }
        return terms.device != nil
    }

    /// Takes over a code, and a device when there is no choice about it.
    private func adopt(_ access: PatientAccess) async {
        var changed = terms
        changed.codeSystem = access.code.system
        changed.code = access.code.code
        let isDeviceGone = !access.devices.contains { $0.id == terms.device }
        // A person's choice is not replaced: the data would be attributed to something else in silence.
        if isDeviceGone, !terms.isDeviceChosen, access.devices.count == 1 {
            changed.device = access.devices[0].id
        }
        guard changed != terms else { return }
        logger.notice("exchange offers another device or code; taking it")
        update(changed)
        await termsChanged?(changed)
    }
}
