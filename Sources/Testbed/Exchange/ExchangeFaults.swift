import Foundation

/// The purpose of an endpoint of the exchange; faults can be aimed at one.
public enum ExchangeRoute: Sendable, Hashable, CaseIterable {
    /// `/health`
    case health
    /// `/api/v1/invitation/<token>`
    case invitation
    /// `/o/…`
    case token
    /// `/api/v1/…` other than invitations: profile, consents, clients
    case account
    /// `POST <FHIR base>`
    case bundle
    /// `POST <FHIR base>/Observation`
    case observation
    /// every other path under the FHIR base
    case read
    /// everything else
    case other
}

/// One way for a request to go wrong. What the real server does in each case is in
/// docs/develop/exchange.md, "Failures".
public enum ExchangeFault: Sendable, Hashable {
    /// A proxy answers in the server's place; nothing is stored. 429, 502, 503, 504, 413, 500, …
    case status(Int, retryAfterSeconds: Int? = nil)
    /// A proxy answers with this status and no body; nothing is stored.
    case empty(Int)
    /// The connection breaks before any work.
    case hangUp
    /// No answer ever; nothing is stored.
    case silence
    /// The worker takes this long before it begins.
    case slow(Duration)
    /// The work is done, then the answer takes this long.
    case slowAnswer(Duration)
    /// The work is done, then the connection breaks without a byte.
    case lostAnswer
    /// The work is done; the connection breaks in the middle of the body.
    case cutAnswer
    /// The work is done; the body ends early and Content-Length agrees with it.
    case truncatedAnswer
    /// The work is done; the answer is 200 with a page for people.
    case notJSONAnswer
    /// The work is done; the answer has this many entries more (or fewer).
    case miscountedAnswer(by: Int)
    /// The work is done; the answer is padded to this many bytes.
    case hugeAnswer(bytes: Int)
    /// The database is gone: 500 HTML, `server_error` at the token endpoint, 422 at the
    /// single-resource endpoint. Health still answers.
    case databaseDown
    /// The database takes no writes, as in a read-only transaction or on a full disk: each entry is refused
    /// 422 with its words, and everything that only reads goes on.
    case databaseReadOnly
    /// The database dies after so many entries of a bundle; HTTP 200, the others are refused 422.
    case databaseLost(afterEntries: Int)
    /// The worker is killed after so many entries: a 500 page, or the connection just breaks.
    case workerKilled(afterEntries: Int, answers: Bool = true)
}

/// How long a fault lasts.
public enum ExchangeFaultSpan: Sendable, Hashable {
    /// For the next so many requests it applies to.
    case requests(Int)
    /// For a time of the exchange's clock.
    case duration(Duration)
    /// Until ``StandInExchange/clearFaults()``.
    case untilCleared
}

/// The faults in force. The first one that fits a request applies, and only that one.
struct ExchangeFaultPlan: Sendable {
    private struct Rule {
        var fault: ExchangeFault
        var routes: Set<ExchangeRoute>
        var requestsLeft: Int?
        var until: Date?
    }
    private var rules: [Rule] = []

    mutating func add(
        _ fault: ExchangeFault, on routes: Set<ExchangeRoute>, span: ExchangeFaultSpan, now: Date
    ) {
        var rule = Rule(fault: fault, routes: routes)
        switch span {
        case .requests(let count): rule.requestsLeft = count
        case .duration(let time): rule.until = now.addingTimeInterval(time / .seconds(1))
        case .untilCleared: break
        }
        rules.append(rule)
    }

    mutating func take(for route: ExchangeRoute, now: Date) -> ExchangeFault? {
        rules.removeAll { $0.until.map { now >= $0 } ?? false || $0.requestsLeft == 0 }
        guard let index = rules.firstIndex(where: { $0.routes.contains(route) }) else { return nil }
        if let left = rules[index].requestsLeft { rules[index].requestsLeft = left - 1 }
        return rules[index].fault
    }

    mutating func clear() { rules = [] }
}

extension ExchangeFault {
    /// How far the answer of finished work gets, and what is left of it.
    func spoil(_ answer: ExchangeAnswer) -> (ExchangeAnswer, ExchangeDelivery) {
        var answer = answer
        switch self {
        case .lostAnswer: return (answer, .none)
        case .cutAnswer: return (answer, .partial(0.5))
        case .truncatedAnswer:
            answer.body.removeLast(min(answer.body.count, answer.body.count / 2 + 1))
        case .notJSONAnswer: return (.html(200, "Please sign in"), .whole)
        case .miscountedAnswer(let extra): answer.body = Self.miscount(answer.body, by: extra)
        case .hugeAnswer(let bytes):
            // White space is legal before the closing brace: the answer stays JSON.
            let padding = max(0, bytes - answer.body.count)
            answer.body.insert(
                contentsOf: [UInt8](repeating: 0x20, count: padding),
                at: max(0, answer.body.count - 1))
        default: break
        }
        return (answer, .whole)
    }

    private static func miscount(_ body: [UInt8], by extra: Int) -> [UInt8] {
        guard case .object(var members)? = try? ExchangeJSON.parse(body),
            let index = members.firstIndex(where: { $0.name == "entry" }),
            var entries = members[index].value.array, let last = entries.last
        else { return body }
        if extra < 0 {
            entries.removeLast(min(-extra, entries.count))
        } else {
            entries += Array(repeating: last, count: extra)
        }
        members[index].value = .array(entries)
        return ExchangeJSON.object(members).bytes
    }
}
