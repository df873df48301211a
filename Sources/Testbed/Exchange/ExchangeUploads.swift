import Foundation

/// The two endpoints that store observations.
extension StandInExchange {
    /// A worker that is busy longer than this is killed, in the middle of whatever it does.
    static let workerLimit = Duration.seconds(30)

    func bundle(_ request: ExchangeRequest, _ work: inout ExchangeWork) async -> ExchangeAnswer {
        let caller: ExchangeCaller
        switch refusalAtTheDoor(request, work, methods: ["POST"], accepts: fhirMediaTypes) {
        case .success(let known): caller = known
        case .failure(let refusal): return refusal.answer
        }
        let document: ExchangeJSON
        switch readBody(of: request) {
        case .success(let read): document = read
        case .failure(let refusal): return refusal.answer
        }
        // A body without entries trips over itself: KeyError, TypeError.
        guard let entries = document["entry"]?.array else { return .serverError }
        record(work.logNumber) { $0.entries = entries.count }
        for entry in entries {
            guard let resource = entry["resource"]?.object.map(ExchangeJSON.object) else {
                return .serverError
            }
            guard let data = resource["valueAttachment"]?["data"], data != .null else {
                return .json(400, ["resource.valueAttachment.data must be not null."])
            }
        }
        // One entry that cannot be read makes the whole request fail, and the answer does not say which.
        if FHIRShape.faultOfBundle(document) != nil { return .serverError }
        let identifiers = entries.flatMap { Self.identifiers(of: $0["resource"] ?? nil) }
        if identifiers.contains(where: { poisoned.contains($0) }) { return .serverError }

        enter(identifiers)
        defer { leave(identifiers) }
        if case .slow(let time)? = work.fault { await self.time.sleep(time) }
        return await store(entries, for: caller, &work)
    }

    private func store(
        _ entries: [ExchangeJSON], for caller: ExchangeCaller, _ work: inout ExchangeWork
    ) async -> ExchangeAnswer {
        var answers: [ExchangeJSON] = []
        var busy = Duration.zero
        for entry in entries {
            if let killed = killWorker(&work, busy: busy) { return killed }
            // Anything but POST is refused and then done all the same: two answers for one entry.
            if entry["request"]?["method"] != "POST" {
                answers.append(Self.entry(.refused(400, "Only POST/Create method supported.")))
            }
            answers.append(Self.entry(await store(entry["resource"] ?? nil, for: caller, &work)))
            busy += pacePerEntry
            work.entriesDone += 1
        }
        if let killed = killWorker(&work, busy: busy) { return killed }
        return .json(
            200, ["resourceType": "Bundle", "type": "batch-response", "entry": .array(answers)])
    }

    private func killWorker(_ work: inout ExchangeWork, busy: Duration) -> ExchangeAnswer? {
        var answers = true
        if case .workerKilled(let limit, let speaks)? = work.fault, work.entriesDone >= limit {
            answers = speaks
        } else if busy <= Self.workerLimit {
            return nil
        }
        work.connectionLost = !answers
        return .html(500, "Internal Server Error")
    }

    func observation(
        _ request: ExchangeRequest, _ work: inout ExchangeWork
    ) async -> ExchangeAnswer {
        // At the single-resource endpoint even a dead database is a 422.
        if work.databaseIsDown {
            return .outcome(422, "connection to server at \"127.0.0.1\", port 5432 failed")
        }
        let caller: ExchangeCaller
        switch refusalAtTheDoor(request, work, methods: ["GET", "POST"], accepts: fhirMediaTypes) {
        case .success(let known): caller = known
        case .failure(let refusal):
            guard refusal.answer.status == 401 else { return refusal.answer }
            // This endpoint has its own error handler, which sends no WWW-Authenticate.
            return .outcome(401, "Authentication credentials were not provided.")
        }
        let resource: ExchangeJSON
        switch readBody(of: request) {
        case .success(let read): resource = read
        case .failure(let refusal): return refusal.answer
        }
        let identifiers = Self.identifiers(of: resource)
        if identifiers.contains(where: { poisoned.contains($0) }) {
            return .outcome(
                400, "1 validation error for Observation\n__root__ -> status\n  field required")
        }
        if let refusal = routingRefusal(of: resource) { return answer(refusal) }
        if let fault = FHIRShape.faultOfObservation(resource) { return .outcome(400, fault) }
        enter(identifiers)
        defer { leave(identifiers) }
        if case .slow(let time)? = work.fault { await self.time.sleep(time) }
        let result = await store(resource, for: caller, &work)
        if let killed = killWorker(&work, busy: pacePerEntry) { return killed }
        return answer(result)
    }

    private func answer(_ result: EntryResult) -> ExchangeAnswer {
        switch result {
        case .refused(let status, let diagnostics): return .outcome(status, diagnostics)
        case .stored(let row):
            return .json(
                201,
                [
                    "resourceType": "Observation", "id": .string("\(row.id)"), "status": "final",
                    "meta": ["lastUpdated": .string(Self.timestamp(row.storedAt))],
                    "subject": ["reference": .string("Patient/\(row.patient)")],
                    "code": [
                        "coding": [
                            [
                                "system": .string(ExchangeCode.openMHealth),
                                "code": .string(row.code),
                            ]
                        ]
                    ],
                ])
        }
    }

    /// Reads a JSON body as the framework does: an empty body is no body, whatever its type.
    private func readBody(of request: ExchangeRequest) -> Result<ExchangeJSON, ExchangeAnswerError>
    {
        guard !request.body.isEmpty else { return .failure(.init(.serverError)) }
        let forms = ["application/x-www-form-urlencoded", "multipart/form-data"]
        if forms.contains(request.mediaType) { return .failure(.init(.serverError)) }
        guard request.mediaType == "application/json" else {
            let given = request.header("Content-Type") ?? ""
            return .failure(.init(.detail(415, "Unsupported media type \"\(given)\" in request.")))
        }
        do throws(ExchangeJSONFault) {
            let document = try ExchangeJSON.parse(request.body).camelized
            guard document.object != nil else { return .failure(.init(.serverError)) }
            return .success(document)
        } catch {
            return .failure(.init(.detail(400, "JSON parse error - " + error.message)))
        }
    }

    private static func entry(_ result: EntryResult) -> ExchangeJSON {
        switch result {
        case .stored(let row):
            return [
                "resource": ["resourceType": "Resource", "id": .string("\(row.id)")],
                "response": ["status": "201 Created"],
            ]
        case .refused(let status, let diagnostics):
            let phrases = [
                400: "Bad Request", 403: "Forbidden", 409: "Conflict", 422: "Unprocessable Entity",
            ]
            return [
                "response": [
                    "status": .string("\(status) \(phrases[status] ?? "")"),
                    "outcome": operationOutcome(diagnostics),
                ]
            ]
        }
    }

    // MARK: Requests that overlap

    private func enter(_ identifiers: [ExchangeIdentifier]) {
        if identifiers.contains(where: { inFlight[$0, default: 0] > 0 }) { overlaps += 1 }
        for identifier in Set(identifiers) { inFlight[identifier, default: 0] += 1 }
    }

    private func leave(_ identifiers: [ExchangeIdentifier]) {
        for identifier in Set(identifiers) {
            let left = inFlight[identifier, default: 1] - 1
            inFlight[identifier] = left == 0 ? nil : left
        }
    }
}
