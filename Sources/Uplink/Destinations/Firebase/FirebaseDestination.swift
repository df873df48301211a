import Basics
import OfflineQueue

/// Delivery into a Realtime Database: one PATCH a batch, the newest heart rate by a request of its own, and
/// the share that the settings ask for.
actor FirebaseDestination: Destination {
    let kind: FirebaseKind
    private let tokens: any TokenSource
    private let transport: any HTTPTransport
    private let clock: any GatewayClock
    private var trouble: DestinationTrouble?
    /// Why the last attempt delivered nothing; nil after one that did.
    var fault: String? { trouble?.words }
    var faultAdvice: String? { trouble?.advice }
    /// Why nothing is shared, though it should be.
    private(set) var partialFault: String?
    /// Whether the share is as the settings ask; nil: not looked at yet.
    private var isSharing: Bool?
    /// When a share that failed is tried again.
    private var shareDue = Uptime.zero
    /// The token that the server accepted last, or the new one after a refusal.
    private var known: AccessToken?
    /// The time of the newest heart rate that went out as such.
    private var newest: UTC?

    /// Older heart rates are no longer shown as the present one.
    static let freshTime = Duration.seconds(60)
    static let sharePause = Duration.seconds(300)

    init(_ kind: FirebaseKind, tokens: any TokenSource, _ parts: DestinationParts) {
        self.kind = kind
        self.tokens = tokens
        transport = parts.transport
        clock = parts.clock
    }

    nonisolated var mayRace: Bool { FirebaseKind.promise.mayRace }

    nonisolated var takesLedger: Bool { kind.takesLedger }

    func deliver(ledger entries: [LedgerEntry]) async -> LedgerAnswer {
        await commit(ledger: entries)
    }

    func finish() async { await tokens.finish() }

    // MARK: - Samples

    func deliver(_ points: [OutgoingPoint], alone: Bool) async -> DeliveryAnswer {
        if kind.store == .firestore { return await commit(points, alone: alone) }
        await settleShare()
        var share = isSharing == true ? kind.share?.revealed : nil
        while true {
            let sent = await send { user in
                self.request(
                    .patch, FirebaseDocuments.path(user: user, share: share), "&print=silent",
                    FirebaseDocuments.batch(points, user: user, share: share))
            }
            switch sent {
            case .stopped(let answer): return answer
            case .answered(_, .held(.forbidden)) where share != nil:
                // The rules refuse all for one path: the history must not wait for a share that was taken away.
                share = nil
                shareFailed()
            case .answered(let answer, let meaning):
                if meaning == .stored, share != nil { await sendLatest(points) }
                return meaning.delivery(
                    of: answer, count: points.count, isAlone: alone && points.count == 1,
                    words: kind.words(of: answer))
            }
        }
    }

    /// The newest heart rate, if it is of now and newer than the one before. It decides nothing.
    private func sendLatest(_ points: [OutgoingPoint]) async {
        guard let share = kind.share?.revealed, let now = clock.read().trustedWall,
            let point = points.max(by: { $0.point.span.upperBound < $1.point.span.upperBound }),
            point.point.span.upperBound > max(newest ?? now - Self.freshTime, now - Self.freshTime)
        else { return }
        let before = trouble
        let sent = await send(renews: false) { _ in
            self.request(
                .put, "/publicStreams/\(share)/latest.json", "&print=silent",
                FirebaseDocuments.latest(point))
        }
        trouble = before
        if case .answered(_, .stored) = sent { newest = point.point.span.upperBound }
    }

    // MARK: - The share

    private func shareFailed(endsAnother: Bool = false) {
        isSharing = nil
        shareDue = clock.read().uptime + Self.sharePause
        let cause = "publish deploy/firebase/database.rules.json as the database's rules"
        let what =
            endsAnother
            ? "the old link still works"
            : kind.share == nil ? "an old link may still work" : "nothing is shared"
        partialFault = "\(what): \(cause)"
    }

    func begin() async { await settleShare() }

    func withdraw(sensors: [Int64], for next: (any DestinationKind)?) async -> String? {
        // What takes its place is in the same store, and ends another share when it begins.
        guard kind.store == .realtime, next == nil else { return nil }
        let hasShare: Bool
        switch await settle(share: nil) {
        case .settled: hasShare = false
        case .refused(endsAnother: true): hasShare = true
        case .refused, .unclear: hasShare = kind.share != nil
        }
        guard hasShare else { return nil }
        return "the link to the shared heart rate may still work: \(fault ?? "no answer")"
    }

    private func settleShare() async {
        guard kind.store == .realtime, isSharing == nil, clock.read().uptime >= shareDue else {
            return
        }
        switch await settle(share: kind.share?.revealed) {
        case .settled:
            isSharing = kind.share != nil
            partialFault = nil
        case .refused(let endsAnother): shareFailed(endsAnother: endsAnother)
        case .unclear: break
        }
    }

    private enum Settled {
        case settled
        case refused(endsAnother: Bool)
        case unclear
    }

    /// Makes the share that is wanted, and ends the one before: the user's own branch says which that was.
    /// One request, so that no answer that is lost and no kill leaves half of it.
    private func settle(share wanted: String?) async -> Settled {
        let noted = await send(renews: false) { user in
            self.request(.get, "/users/\(user)/gateway/share.json")
        }
        let answer: HTTPAnswer
        switch noted {
        case .answered(let read, .stored): answer = read
        case .answered(_, .held(.forbidden)): return .refused(endsAnother: false)
        case .answered, .stopped: return .unclear
        }
        let before = FirebaseDocuments.share(noted: answer.body)
        if before == wanted { return .settled }
        let sent = await send(renews: false) { user in
            self.request(
                .patch, "/.json", "&print=silent",
                FirebaseDocuments.share(wanted, insteadOf: before, user: user))
        }
        return switch sent {
        case .answered(_, .stored): .settled
        case .answered(_, .held): .refused(endsAnother: before != nil)
        case .answered, .stopped: .unclear
        }
    }

    // MARK: - Requests

    private func request(
        _ method: HTTPRequest.Method, _ path: String, _ more: String = "", _ body: [UInt8] = []
    ) -> HTTPRequest {
        HTTPRequest(
            method, kind.url.origin, "\(path)?auth=\(Self.tokenMark)\(more)",
            contentType: body.isEmpty ? nil : "application/json", body: body)
    }

    /// The place of the token, which Firebase wants in the address.
    private static let tokenMark = "TOKEN"

    enum Sent {
        /// Nothing came back that could be read.
        case stopped(DeliveryAnswer)
        case answered(HTTPAnswer, AnswerMeaning)
    }

    /// Sends a request of the user's, once more with a renewed token if the first is not taken. Firebase says
    /// 401 of rules and of old tokens alike: "Permission denied" is the rules' word if the token was taken
    /// before. What matters less than samples does not renew.
    func send(
        renews: Bool = true, _ make: (String) -> HTTPRequest
    ) async -> Sent {
        var refused: Sent?
        while true {
            let token: AccessToken
            do {
                token = try await tokens.token()
            } catch {
                // There was one a moment ago, and it is good as far as its issuer knows.
                if case .notNow = error, let refused { return refused }
                trouble = DestinationTrouble(
                    "Firebase Authentication gives no access token\(error.cause)")
                return .stopped(error.answer(.credentialsRefused))
            }
            guard let user = FirebaseUser.id(ofToken: token.secret) else {
                return .stopped(.held(.credentialsRefused, retryAt: nil))
            }
            var request = make(user)
            request.keepsConnection = true
            if kind.store == .firestore { request = request.authorized(by: token.secret) }
            request.target = request.target.replacing(
                "auth=\(Self.tokenMark)", with: "auth=\(token.secret.revealed)", maxReplacements: 1)
            let answer: HTTPAnswer
            do {
                answer = try await transport.send(request)
            } catch {
                trouble = DestinationTrouble(error.description(at: kind.url.origin.host))
                return .stopped(
                    error.certainlyNotSent ? .notSent(retryAt: nil) : .unanswered("\(error)"))
            }
            let meaning = kind.meaning(of: answer)
            if meaning == .stored {
                trouble = nil
                known = token
                await tokens.accepted(token)
                return .answered(answer, meaning)
            }
            note(answer)
            let isOfRules = meaning == .held(.forbidden) && token == known
            if refused != nil { known = token }
            guard answer.status == 401, renews, refused == nil, !isOfRules else {
                return .answered(answer, meaning)
            }
            refused = .answered(answer, meaning)
            await tokens.refused(token)
        }
    }

    /// Keeps in mind what an answer says of the server.
    private func note(_ answer: HTTPAnswer) {
        if let redirect = FirebaseKind.redirect(answer, of: kind.url.origin) {
            trouble = DestinationTrouble(
                "the database \(redirect)",
                redirect.advice { "add the destination again with --replace and url=\($0)" })
        } else {
            trouble = DestinationTrouble("the server answers \(answer.shown())")
        }
    }

    // MARK: - Looking around

    private func look() async -> Sent {
        if kind.store == .firestore { return await list() }
        return await send { user in self.request(.get, "/users/\(user)/gateway.json") }
    }

    func isHealthy() async -> Bool {
        guard case .answered(let answer, let meaning) = await look() else { return false }
        return answer.status < 500 && meaning != .throttled
    }

    func isMended(_ reason: HoldReason) async -> Bool {
        guard case .answered(_, .stored) = await look() else { return false }
        return true
    }

    private func tryWrite() async -> Sent {
        let sent = await send { user in
            self.request(
                .put, "/users/\(user)/gateway/probe.json", "&print=silent", Array("true".utf8))
        }
        guard case .answered(_, .stored) = sent else { return sent }
        return await send { user in
            self.request(.delete, "/users/\(user)/gateway/probe.json")
        }
    }

    /// Throws unless the user may write below its own name. What is written is taken back.
    func probe() async throws(DestinationProblem) {
        switch kind.store == .firestore ? await tryCommit() : await tryWrite() {
        case .answered(_, .stored): break
        case .answered(_, .held(.moved)):
            throw DestinationProblem(
                fault ?? HoldReason.moved.meaning, faultAdvice ?? HoldReason.moved.remedy)
        case .stopped(.held(let reason, _)), .answered(_, .held(let reason)):
            throw DestinationProblem(
                reason.meaning, FirebaseKind.remedy(reason) ?? reason.remedy)
        case .answered(_, .unauthorized):
            let reason = HoldReason.credentialsRefused
            throw DestinationProblem(
                reason.meaning, FirebaseKind.remedy(reason) ?? reason.remedy)
        default:
            throw DestinationProblem(
                fault ?? "no answer", "check url, the network and the certificate")
        }
    }
}
