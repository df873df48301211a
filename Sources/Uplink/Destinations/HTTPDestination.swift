import Basics
import OfflineQueue

/// Delivery by one HTTP request a batch: sends it, renews a token that is not taken, and reads the answer
/// by the kind's table.
actor HTTPDestination<Kind: HTTPKind>: Destination {
    private let kind: Kind
    private let tokens: (any TokenSource)?
    private let transport: any HTTPTransport
    private let clock: any GatewayClock
    private let patient: String?
    private var trouble: DestinationTrouble?
    /// Why the last attempt delivered nothing; nil after one that did.
    var fault: String? { trouble?.words }
    var faultAdvice: String? { trouble?.advice }
    /// Why the last token was not taken, where the server's words say it.
    private var tokenTrouble: DestinationTrouble?
    /// The refusal while other data points were stored, until a request is stored as a whole.
    private(set) var partialFault: String?
    /// Whether it has taken entries of the gap ledger since the start.
    private var hasTakenLedger = false

    init(_ kind: Kind, tokens: (any TokenSource)?, _ parts: DestinationParts) {
        self.kind = kind
        self.tokens = tokens
        transport = parts.transport
        clock = parts.clock
        patient = parts.patient
    }

    nonisolated var mayRace: Bool { Kind.promise.mayRace }

    nonisolated var servesMany: Bool { kind.servesMany }

    func mayTakeIntervals() async -> Bool { kind.takesIntervals }

    func finish() async { await tokens?.finish() }

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        var last = DeliveryAnswer.entries([])
        // Data points of an earlier part come again with the others, and are known then.
        for part in kind.batches(of: points, context) {
            switch await send(part) {
            case .stopped(let answer): return answer
            case .answered(let answer, .partly):
                let entries = await settle(part, answer)
                // Verdicts on one part do not tell which of all the data points they mean.
                if case .entries = entries, part.count < points.count { return .malformed }
                return entries
            case .answered(let answer, let meaning):
                if meaning == .stored { partialFault = nil }
                if case .each(let entries) = meaning, entries.contains(where: \.isTaken) {
                    (partialFault, trouble) = (fault, nil)
                }
                last = meaning.delivery(
                    of: answer, count: points.count, isAlone: alone && points.count == 1,
                    words: kind.words(of: answer))
                if meaning != .stored { return last }
            }
        }
        return last
    }

    /// Finds out which data points a server refused that says that it stored others. Those that it names are refused,
    /// and what is left goes again, each series by itself where it names none: only an answer without a refusal shows
    /// that they are stored (InfluxDB 1.6.7 also loses good ones beside those that it drops), and to send again what
    /// is stored changes nothing at such a server.
    private func settle(_ points: [OutgoingPoint], _ answer: HTTPAnswer) async -> DeliveryAnswer {
        let words = answer.words(hiding: patients(of: points))
        partialFault = "some samples are refused\(words.map { ": " + $0 } ?? "")"
        var found = [EntryAnswer?](repeating: nil, count: points.count)
        func note(_ answer: HTTPAnswer, _ positions: [Int]) -> Bool {
            guard let refused = kind.refused(in: answer, count: positions.count) else {
                return false
            }
            for (index, text) in refused {
                found[positions[index]] = EntryAnswer(
                    .refused, status: answer.status, diagnostics: text)
            }
            return true
        }
        let isNamed = note(answer, Array(points.indices))
        let rest = points.indices.filter { found[$0] == nil }
        let groups = isNamed ? (rest.isEmpty ? [] : [rest]) : kind.series(of: points)
        guard isNamed || groups.count > 1 else {
            return AnswerMeaning.partly.delivery(
                of: answer, count: points.count, isAlone: points.count == 1,
                words: kind.words(of: answer))
        }
        for positions in groups {
            switch await send(positions.map { points[$0] }) {
            case .stopped(let answer): return answer
            case .answered(_, .stored):
                for position in positions { found[position] = EntryAnswer(.stored) }
            case .answered(let answer, .partly):
                guard note(answer, positions) else { return .malformed }
            case .answered(let answer, let meaning):
                return meaning.delivery(
                    of: answer, count: points.count, isAlone: false, words: kind.words(of: answer))
            }
        }
        let entries = found.compactMap(\.self)
        guard entries.count == points.count else { return .malformed }
        if entries.contains(where: \.isTaken) { trouble = nil }
        return .entries(entries)
    }

    nonisolated var takesLedger: Bool {
        kind.request(ledger: [], RequestContext(seconds: 0)) != nil
    }

    func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer {
        let context = context
        guard let request = kind.request(ledger: entries, context) else { return .stored }
        let patients = Set(entries.compactMap { $0.patient ?? patient })
        switch await send(request, count: entries.count, hiding: patients) {
        case .answered(_, .stored):
            hasTakenLedger = true
            return .stored
        case .answered(_, .each(let answers)):
            if answers.contains(where: \.isTaken) { hasTakenLedger = true }
            guard answers.contains(where: { !$0.isTaken }) else { return .stored }
            return .partly(answers.map(verdict), fault ?? "some are refused")
        case .answered(_, .tooLarge), .answered(_, .unanswered), .stopped(.unanswered):
            return .tooMany(fault ?? "no answer")
        // One of them is wrong, and shows when it goes alone. As with samples it is then over, if that is the server's
        // own word, or the server has taken others.
        case .answered(_, let meaning) where [.refused, .suspect, .partly].contains(meaning):
            let words = fault ?? "some are refused"
            guard entries.count == 1 else { return .tooMany(words) }
            return .partly([meaning == .refused || hasTakenLedger ? .refused : .waits], words)
        case .answered(_, .held(let reason)):
            return .failed("\(fault ?? reason.meaning): \(Kind.remedy(reason) ?? reason.remedy)")
        case .answered, .stopped: return .failed(fault ?? "no answer")
        }
    }

    private func verdict(_ answer: EntryAnswer) -> LedgerVerdict {
        switch answer.verdict {
        case .stored, .storedBefore: .stored
        case .refused, .notWanted: .refused
        case .held: .waits
        // Such an answer may be about every entry, until the destination has taken one.
        case .unclear: hasTakenLedger && [400, 422].contains(answer.status) ? .refused : .waits
        }
    }

    private var context: RequestContext {
        RequestContext(patient: patient, seconds: clock.read().wall.microseconds / 1_000_000)
    }

    private enum Sent {
        /// Nothing came back that could be read.
        case stopped(DeliveryAnswer)
        case answered(HTTPAnswer, AnswerMeaning)
    }

    private func send(_ points: [OutgoingPoint]) async -> Sent {
        await send(
            kind.request(points, context), count: points.count, hiding: patients(of: points))
    }

    private func patients(of points: [OutgoingPoint]) -> Set<String> {
        Set(points.compactMap { $0.patient ?? patient })
    }

    /// Sends a request, once more with a renewed token if the first is not taken.
    /// `patients` is who must not be named.
    private func send(
        _ plain: HTTPRequest, count: Int, hiding patients: Set<String>
    ) async -> Sent {
        var tried: AccessToken?
        while true {
            var request = plain
            request.keepsConnection = true
            var token: AccessToken?
            if let tokens {
                do {
                    let one = try await tokens.token()
                    request = kind.authorized(request, by: one.secret)
                    token = one
                } catch {
                    trouble =
                        tokenTrouble
                        ?? DestinationTrouble(
                            "\(kind.tokenHost) gives no access token\(error.cause)")
                    return .stopped(error.answer(.credentialsRefused))
                }
            }
            let answer: HTTPAnswer
            do {
                answer = try await transport.send(request)
            } catch {
                trouble = DestinationTrouble(error.description(at: kind.origin.host))
                return .stopped(
                    error.certainlyNotSent
                        ? .notSent(retryAt: nil) : .unanswered("\(error)"))
            }
            let meaning = kind.meaning(of: answer, to: count)
            note(answer, meaning, hiding: patients)
            guard meaning == .unauthorized, let token, tried != token else {
                if let token, answer.status < 300 {
                    tokenTrouble = nil
                    await tokens?.accepted(token)
                }
                return .answered(answer, meaning)
            }
            tried = token
            await tokens?.refused(token)
        }
    }

    /// Keeps in mind what an answer says of the server.
    private func note(_ answer: HTTPAnswer, _ meaning: AnswerMeaning, hiding patients: Set<String>)
    {
        trouble = nil
        guard meaning != .stored else { return }
        if let redirect = Redirect(answer, of: kind.origin) {
            trouble = DestinationTrouble(
                "the server \(redirect)",
                redirect.advice {
                    "add the destination again with --replace and url=\($0) and its path"
                })
            return
        }
        if case .each(let entries) = meaning {
            guard let refusal = entries.first(where: { !$0.isTaken }) else { return }
            let words = ServerWords.shown(refusal.diagnostics, hiding: patients)
            trouble = DestinationTrouble("some samples are refused\(words.map { ": " + $0 } ?? "")")
            return
        }
        trouble = DestinationTrouble("the server answers \(answer.shown(hiding: patients))")
        guard meaning == .unauthorized else { return }
        tokenTrouble = ClockDisagreement(answer, now: clock.read()).map {
            DestinationTrouble($0.description, ClockDisagreement.advice)
        }
        trouble = tokenTrouble ?? trouble
    }

    // MARK: - Looking around, with a request of no data points

    func isHealthy() async -> Bool {
        guard case .answered(let answer, let meaning) = await send([]) else { return false }
        return answer.status < 500 && meaning != .throttled
    }

    func isMended(_ reason: HoldReason) async -> Bool {
        guard case .answered(_, let meaning) = await send([]) else { return false }
        switch meaning {
        case .held, .unauthorized, .throttled, .unclear, .unanswered: return false
        case .stored, .refused, .suspect, .partly, .each, .tooLarge: return true
        }
    }

    /// Throws unless the server would take data points, as far as a request of none can tell.
    func probe() async throws(DestinationProblem) {
        switch await send([]) {
        case .answered(_, .held(.moved)):
            throw DestinationProblem(
                fault ?? HoldReason.moved.meaning, faultAdvice ?? HoldReason.moved.remedy)
        case .stopped(.held(let reason, _)), .answered(_, .held(let reason)):
            throw DestinationProblem(reason.meaning, Kind.remedy(reason) ?? reason.remedy)
        case .answered(_, .unauthorized):
            let reason = HoldReason.credentialsRefused
            throw DestinationProblem(
                tokenTrouble?.words ?? reason.meaning,
                tokenTrouble?.advice ?? Kind.remedy(reason) ?? reason.remedy)
        case .stopped:
            throw DestinationProblem(
                fault ?? "no answer",
                faultAdvice ?? "check the address, the network and the certificate")
        case .answered(_, .throttled), .answered(_, .unclear), .answered(_, .unanswered),
            .answered(_, .tooLarge), .answered(_, .suspect), .answered(_, .refused),
            .answered(_, .partly), .answered(_, .each):
            throw DestinationProblem(
                fault ?? "no answer",
                "check that a \(Kind.name) server has this address, and that it works")
        case .answered(_, .stored): break
        }
    }
}
