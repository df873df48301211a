import Basics
import Logging
import OfflineQueue

/// The place of the gap ledger at an exchange, as far as it is known.
enum LedgerPlace {
    case unknown
    /// The exchange takes no ledger. The gateway asks again at that time: the exchange may have been updated.
    case none(until: Uptime)
    /// The number of the `FhirSource` under which the exchange keeps the patient's ledger.
    case source(String)

    /// Until an exchange that takes no ledger is asked again.
    static let noneTime = Duration.seconds(86_400)
}

extension ExchangeDestination {
    /// Each entry is a request of its own: samples that become due wait for so many requests at most.
    public nonisolated var ledgerEntriesMax: Int { 20 }

    /// Stores each entry as a FHIR Observation beside the exchange's own. The exchange replaces one that it has by its id.
    ///
    /// The entries behind a refused one go as well: as with samples, it is over with that one if the exchange takes others.
    public func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer {
        guard let device = terms.device, let patient = terms.patient, await doubtOfPerson() == nil
        else { return .later }
        let source: String
        switch await ledgerSource(of: device) {
        case .success(let known?): source = known
        case .success(nil): return .later
        case .failure(let fault): return answer(to: fault, [])
        }
        var stored: [Bool] = []
        var refusal: String?
        var verdicts: [LedgerVerdict] {
            stored.map { $0 ? .stored : hasTakenLedger ? .refused : .waits }
        }
        for entry in entries {
            let body = FHIRWriter.resource(
                entry, patient: entry.patient ?? patient, device: "Device/\(device)")
            let (reader, base) = (reader, fhirTarget)
            let answer = await ask { token throws(ExchangeReader.Fault) in
                try await reader.store(body, below: base, source: source, token: token)
            }
            switch answer {
            case .success(.stored):
                stored.append(true)
                hasTakenLedger = true
            case .success(.refused(let words)):
                stored.append(false)
                refusal = ServerWords.shown(words, hiding: [patient]) ?? "some are refused"
            case .success(.sourceUnknown):
                // The exchange may have been restored from an older backup: the next attempt registers the source anew.
                ledgerPlace = .unknown
                return .partly(verdicts, "the exchange does not know their source any more")
            case .failure(let fault): return self.answer(to: fault, verdicts)
            }
        }
        return refusal.map { .partly(verdicts, $0) } ?? .stored
    }

    /// Says nothing of a network that fails: the delivery of samples does.
    private func answer(
        to fault: ExchangeReader.Fault, _ verdicts: [LedgerVerdict]
    ) -> LedgerAnswer {
        let words = self.fault(fault).description
        guard verdicts.isEmpty else { return .partly(verdicts, words) }
        return if case .transport = fault { .later } else { .failed(words) }
    }

    /// The source of the gateway's entries; nil while the exchange takes none.
    private func ledgerSource(
        of device: String
    ) async -> Result<String?, ExchangeReader.Fault> {
        switch ledgerPlace {
        case .source(let known): return .success(known)
        case .none(let until) where clock.read().uptime < until: return .success(nil)
        case .none, .unknown: break
        }
        let (reader, base) = (reader, fhirTarget)
        let found = await ask { token throws(ExchangeReader.Fault) in
            guard try await reader.takesOthers(below: base) else { return nil as String? }
            return try await reader.source(device: device, token: token)
        }
        switch found {
        case .success(let source?):
            logger.info("the exchange takes gaps and coverage")
            ledgerPlace = .source(source)
        case .success(nil):
            ledgerPlace = .none(until: clock.read().uptime + LedgerPlace.noneTime)
        case .failure: break
        }
        return found
    }
}

/// The outcome of a resource that is not the exchange's own.
enum OtherResourceAnswer {
    case stored
    /// Why not, in the exchange's words.
    case refused(String)
    case sourceUnknown
}

/// The part of an exchange's CapabilityStatement that says whether it keeps resources that are not its own.
private struct OthersDocument: Decodable {
    struct Side: Decodable { @IfAny var resource: [IfAny<Resource>]? }
    struct Resource: Decodable {
        @IfAny var type: String?
        @IfAny var documentation: String?
    }
    @IfAny var rest: [IfAny<Side>]?

    /// Only the documentation of each type names the header.
    var takesObservations: Bool {
        (rest ?? []).compactMap(\.wrappedValue).flatMap { $0.resource ?? [] }
            .compactMap(\.wrappedValue).contains {
                $0.type == "Observation"
                    && $0.documentation?.contains(ExchangeReader.sourceHeader) == true
            }
    }
}

/// `POST /api/v1/fhir_sources`
private struct SourceDocument: Decodable { var id: FlexibleID }

extension ExchangeReader {
    /// Names the source of a resource.
    static let sourceHeader = "X-JHE-FHIR-Source-ID"
    /// The exchange knows the source of a patient and device by this, and makes no second one.
    private static let sourceBase: StaticString = "urn:x-edge-gateway:ledger"

    /// Whether the exchange says that it keeps Observations that are not its own. Versions without a
    /// CapabilityStatement do not.
    func takesOthers(below base: String) async throws(Fault) -> Bool {
        let answer = try await send(HTTPRequest(.get, origin, base + "metadata"))
        guard answer.status < 500, answer.status != 429 else { throw .status(answer.status) }
        guard answer.status == 200, let document = try? OthersDocument(json: answer.body) else {
            return false
        }
        return document.takesObservations
    }

    /// Makes the source of the gap ledger of a patient's device, or finds the one that there is; nil if the exchange
    /// makes none for this token.
    func source(device: String, token: Secret) async throws(Fault) -> String? {
        var body = JSONBytes()
        body.raw(#"{"data_source":"#)
        body.string(device)
        body.raw(#","label":"edge-gateway: gaps and coverage","fhir_base_url":""#)
        body.raw(Self.sourceBase)
        body.raw(#""}"#)
        let request = HTTPRequest(
            .post, origin, "/api/v1/fhir_sources", contentType: "application/json",
            body: body.bytes)
        let answer = try await send(request.authorized(by: token))
        switch answer.status {
        case 200, 201:
            guard let made = try? SourceDocument(json: answer.body) else { throw .unreadable }
            return made.id.text
        case 401 where answer.isDocument: throw .unauthorized
        case 400, 403, 404, 405: return nil
        default: throw .status(answer.status)
        }
    }

    /// Stores an Observation that is not the exchange's own.
    func store(
        _ body: [UInt8], below base: String, source: String, token: Secret
    ) async throws(Fault) -> OtherResourceAnswer {
        var request = HTTPRequest(
            .post, origin, base + "Observation", contentType: "application/json", body: body)
        request.headers.append((Self.sourceHeader, source))
        let answer = try await send(request.authorized(by: token))
        let words = OperationOutcome.diagnostics(answer.body)
        switch answer.status {
        case 201: return .stored
        case 401 where answer.isDocument: throw .unauthorized
        case 400 where words.contains("FhirSource"), 403 where words.contains("FhirSource"):
            return .sourceUnknown
        case 400 where !words.isEmpty, 422 where !words.isEmpty: return .refused(words)
        case _ where !answer.isDocument: throw .page(answer.status)
        default: throw .status(answer.status)
        }
    }

    private func send(_ request: HTTPRequest) async throws(Fault) -> HTTPAnswer {
        let answer: HTTPAnswer
        do {
            answer = try await transport.send(request)
        } catch {
            throw .transport(error)
        }
        if let redirect = Redirect(answer, of: origin) { throw .redirect(redirect) }
        return answer
    }
}
