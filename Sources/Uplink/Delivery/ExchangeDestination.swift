import Foundation
import Logging
import OfflineQueue

/// Delivery to one JupyterHealth Exchange (docs/exchange.md).
public actor ExchangeDestination: Destination {
    /// What is known of the enrollment, kept current as the exchange changes.
    public private(set) var terms: EnrollmentTerms
    /// Why the last request brought no answer; nil after one that did.
    public internal(set) var lastFault: TransportFault?

    private let origin: Origin
    let tokens: TokenSource
    private let transport: any HTTPTransport
    let clock: any GatewayClock
    let logger: Logger
    let termsChanged: @Sendable (EnrollmentTerms) async -> Void
    private var writer: BundleWriter?
    var intervals = IntervalConsent.unknown
    var pointWriters: [Int64: (strap: StrapDatasheet, writer: DataPointWriter)] = [:]

    /// A gateway has a handful of straps; beyond this the writers are made anew.
    static let pointWritersMax = 64

    /// A destination for the enrollment with `terms`. `termsChanged` is called with what was found
    /// out anew and is to be kept. Nil when the terms name no server.
    public init?(
        terms: EnrollmentTerms, tokens: TokenSource, transport: any HTTPTransport,
        clock: any GatewayClock = SystemClock(), logger: Logger,
        termsChanged: @escaping @Sendable (EnrollmentTerms) async -> Void = { _ in }
    ) {
        guard let origin = Origin(terms.origin) else { return nil }
        self.origin = origin
        self.terms = terms
        self.tokens = tokens
        self.transport = transport
        self.clock = clock
        self.logger = logger
        self.termsChanged = termsChanged
    }

    /// Takes terms that were changed by a person.
    public func update(_ terms: EnrollmentTerms) {
        self.terms = terms
        writer = nil
        pointWriters = [:]
        intervals = .unknown
    }

    // MARK: - Delivering

    /// Sends one bundle, or one observation to the single endpoint. RR intervals that the patient has
    /// not consented to are left out, and answered with ``EntryVerdict/notWanted``.
    public func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        guard let device = terms.device else {
            return .held(.deviceUnknown, retryAtMicroseconds: nil)
        }
        guard let code else { return .held(.codeUnknown, retryAtMicroseconds: nil) }
        if points.contains(where: \.point.isInterval), let answer = await learnIntervalCode() {
            return answer
        }
        let writer =
            writer
            ?? BundleWriter(device: device, identifierSystem: terms.identifierSystem)
        self.writer = writer

        var entries: [BundleWriter.Entry] = []
        for point in points where isWanted(point) {
            guard let patient = point.patient ?? terms.patient else {
                return .held(.patientUnknown, retryAtMicroseconds: nil)
            }
            entries.append(
                BundleWriter.Entry(
                    point: point.point, patient: patient,
                    writer: pointWriter(point, code: code)))
        }
        let wanted = points.map(isWanted)
        guard !entries.isEmpty else { return .entries(wanted.map { _ in .notWanted }) }
        let isSingle = alone && entries.count == 1
        let body = isSingle ? writer.observation(entries[0]) : writer.bundle(entries)
        let answer = await post(body, count: entries.count, isSingle: isSingle)
        guard case .entries(let answers) = answer else { return answer }
        return .entries(spread(answers, over: points, wanted))
    }

    /// Puts the answers beside the data points they are of.
    private func spread(
        _ answers: [EntryAnswer], over points: [OutgoingPoint], _ wanted: [Bool]
    ) -> [EntryAnswer] {
        var answers = answers.makeIterator()
        return zip(points, wanted).compactMap { point, isWanted in
            guard isWanted else { return .notWanted }
            guard let answer = answers.next() else { return nil }
            // Withdrawn, or a code this server does not know: no reason to hold the heart rate.
            guard point.point.isInterval,
                [.held(.noConsent), .held(.codeUnknown)].contains(answer.verdict)
            else { return answer }
            refuseIntervals()
            return .notWanted
        }
    }

    private var code: ObservationCode? {
        guard let system = terms.codeSystem, let code = terms.code else { return nil }
        return ObservationCode(system: system, code: code)
    }

    private func pointWriter(_ point: OutgoingPoint, code: ObservationCode) -> DataPointWriter {
        if let known = pointWriters[point.sensorID], known.strap == point.strap {
            return known.writer
        }
        if pointWriters.count >= Self.pointWritersMax { pointWriters = [:] }
        let writer = DataPointWriter(
            code: code, intervalCode: intervals.code ?? .omhRRInterval, strap: point.strap)
        pointWriters[point.sensorID] = (point.strap, writer)
        return writer
    }

    private func post(_ body: [UInt8], count: Int, isSingle: Bool) async -> DeliveryAnswer {
        // Once as it is, once with a renewed token, once at another base: the exchange has looked at
        // nothing when it says 401 or 404.
        for _ in 0..<3 {
            let token: AccessToken
            do {
                token = try await tokens.token()
            } catch {
                return error.answer
            }
            let base = fhirTarget
            let request = HTTPRequest(
                .post, origin, base + (isSingle ? "Observation" : ""),
                contentType: "application/json", body: body)
            let answer: HTTPAnswer
            do {
                answer = try await transport.send(request.authorized(by: token.secret))
            } catch {
                // A refused certificate is a matter for a person, but may also be the clock's: it is
                // tried again like a missing connection.
                lastFault = error
                return error.certainlyNotSent
                    ? .notSent(retryAtMicroseconds: nil) : .unanswered("\(error)")
            }
            lastFault = nil
            switch answer.status {
            case 401:
                await tokens.refused(token)
            case 404:
                guard await findBase() else {
                    return .held(.baseUnknown, retryAtMicroseconds: nil)
                }
                if fhirTarget == base { return .unclear("404") }
            default:
                if answer.status < 300 { await tokens.accepted(token) }
                return isSingle ? readSingle(answer) : readBundle(answer, count: count)
            }
        }
        return .notSent(retryAtMicroseconds: nil)
    }

    /// The FHIR base as a path with both slashes.
    private var fhirTarget: String {
        var path = Substring(terms.fhirBase)
        if let known = Origin(terms.fhirBase) { path = path.dropFirst(known.description.count) }
        return path.hasSuffix("/") ? String(path) : path + "/"
    }

    // MARK: - Reading answers

    private func readBundle(_ answer: HTTPAnswer, count: Int) -> DeliveryAnswer {
        guard answer.status == 200 else { return readRefusal(answer) }
        do {
            return .entries(try BundleAnswer(answer.body, count: count).entries)
        } catch {
            return .unclear("\(error)")
        }
    }

    private func readSingle(_ answer: HTTPAnswer) -> DeliveryAnswer {
        switch answer.status {
        case 201: return .entries([EntryAnswer(status: 201, diagnostics: "", endpoint: .single)])
        case 400, 403, 409, 422:
            let diagnostics = OperationOutcome.diagnostics(answer.body)
            // Without the exchange's own document the status is somebody else's.
            guard !diagnostics.isEmpty else { return readRefusal(answer) }
            return .entries([
                EntryAnswer(status: answer.status, diagnostics: diagnostics, endpoint: .single)
            ])
        default: return readRefusal(answer)
        }
    }

    /// A request that was refused as a whole.
    private func readRefusal(_ answer: HTTPAnswer) -> DeliveryAnswer {
        switch answer.status {
        case 400:
            let text = String(decoding: answer.body.prefix(500), as: UTF8.self)
            let isOurs =
                text.contains("resource.valueAttachment.data") || text.contains("JSON parse error")
            return isOurs ? .malformed : .held(.requestRefused, retryAtMicroseconds: nil)
        case 300..<400, 405, 406, 411, 415: return .held(.requestRefused, retryAtMicroseconds: nil)
        case 413: return .tooLarge
        case 429, 503:
            return .throttled(
                retryAfterSeconds:
                    RetryAfter.seconds(answer.retryAfter, date: answer.date))
        default: return .unclear(String(answer.status))
        }
    }

    // MARK: - Looking around

    /// Whether the exchange and its database answer.
    public func isHealthy() async -> Bool {
        guard let token = try? await tokens.token() else { return false }
        return await reader.isHealthy(token: token.secret)
    }

    /// Looks whether the reason of a hold seems gone, and learns what has changed.
    public func isMended(_ reason: HoldReason) async -> Bool {
        switch reason {
        case .enrollAgain: return (try? await tokens.token()) != nil
        case .baseUnknown: return await findBase()
        case .requestRefused, .exchangeFault: return await isHealthy()
        case .noConsent, .wrongPatient, .patientUnknown, .deviceUnknown, .codeUnknown:
            // A practitioner's patients differ from sample to sample: only a sample can tell.
            guard terms.kind == .invitation else { return await isHealthy() }
            return await rediscover(reason)
        }
    }

    var reader: ExchangeReader { ExchangeReader(transport: transport, origin: origin) }

    private func findBase() async -> Bool {
        guard let base = try? await reader.fhirBase() else { return false }
        if base != fhirTarget {
            logger.notice("found FHIR base", metadata: ["base": "\(base)"])
            terms.fhirBase = origin.description + base.dropLast()
            await termsChanged(terms)
        }
        return true
    }

    private func rediscover(_ reason: HoldReason) async -> Bool {
        guard let token = try? await tokens.token() else { return false }
        let patient: String?
        do {
            patient = try await reader.patient(token: token.secret)
        } catch {
            if error == .unauthorized { await tokens.refused(token) }
            return false
        }
        // Stored samples belong to the patient of the enrollment and to nobody else.
        guard let patient, patient == terms.patient else { return false }
        guard reason != .wrongPatient,
            let standing = try? await reader.standing(
                patient: patient, clientID: await tokens.clientID, token: token.secret)
        else { return reason == .wrongPatient }
        await adopt(standing)
        guard standing.isConsented else { return false }
        return terms.device != nil
    }

    /// Takes over a code, and a device when there is no choice about it.
    private func adopt(_ standing: Standing) async {
        var changed = terms
        changed.codeSystem = standing.code.system
        changed.code = standing.code.code
        let isDeviceGone = !standing.devices.contains { $0.id == terms.device }
        if isDeviceGone, standing.devices.count == 1 { changed.device = standing.devices[0].id }
        guard changed != terms else { return }
        logger.notice("exchange offers another device or code; taking it")
        update(changed)
        await termsChanged(changed)
    }
}

extension TokenSource.Fault {
    var answer: DeliveryAnswer {
        switch self {
        case .notNow(let until): .notSent(retryAtMicroseconds: until)
        case .enrollAgain(let retry): .held(.enrollAgain, retryAtMicroseconds: retry)
        }
    }
}
