import Basics
import Foundation
import NIOCore

/// Which of the servers in the field the stand-in is.
public enum ExchangeVersion: Sendable, Hashable {
    /// The development head: only `/FHIR/R5`, `Accept: application/fhir+json` allowed.
    case head
    /// v0.0.13, the latest release: `/FHIR/R5` and `/fhir/r5`, `application/fhir+json` is 406.
    case v0013
    /// v0.0.10: only `/fhir/r5/`, links that carry the code themselves, long diagnostics.
    case v0010

    var fhirBases: [String] {
        switch self {
        case .head: ["/FHIR/R5"]
        case .v0013: ["/FHIR/R5", "/fhir/r5"]
        case .v0010: ["/fhir/r5"]
        }
    }
}

/// Where the stand-in takes its time from: the wall clock, unless a test has its own.
public struct ExchangeTime: Sendable {
    var now: @Sendable () -> Date
    var sleep: @Sendable (Duration) async -> Void

    /// The machine's clock.
    public static let real = ExchangeTime(
        now: { Date() }, sleep: { try? await Task.sleep(for: $0) })

    /// A clock that stands still until ``StandInExchange/advanceClock(by:)`` moves it.
    ///
    /// - Parameter seconds: since 1970, UTC.
    public static func standing(at seconds: TimeInterval) -> ExchangeTime {
        ExchangeTime(now: { Date(timeIntervalSince1970: seconds) }, sleep: real.sleep)
    }

    /// A clock of the caller's: what time it is, and how to wait.
    public init(
        now: @escaping @Sendable () -> Date, sleep: @escaping @Sendable (Duration) async -> Void
    ) {
        self.now = now
        self.sleep = sleep
    }
}

/// A JupyterHealth Exchange in this process, on a port of 127.0.0.1, as strict as the real one.
///
/// It is written from docs/develop/exchange.md, refusals first: what the real server refuses, it refuses
/// in the same words, and it fails in the ways the real server fails when told to
/// (``inject(_:on:for:)``). Everything it stores can be asked for.
public actor StandInExchange {
    /// The port on 127.0.0.1; the same for the stand-in's whole life, network cuts included.
    public nonisolated let port: Int
    /// Which server this is.
    public nonisolated let version: ExchangeVersion
    /// `127.0.0.1:<port>`, the host in invitation links.
    public nonisolated var host: String { "127.0.0.1:\(port)" }
    /// `http://127.0.0.1:<port>`
    public nonisolated var baseURL: String { "http://" + host }

    /// Nil if it has no network.
    let reservation: PortReservation?
    let time: ExchangeTime
    var clockOffset = Duration.zero
    var listener: ExchangeListener?

    // The database.
    var seed: ExchangeSeed
    var consents: [ExchangeConsentKey: ExchangeConsent] = [:]
    var invitations: [String: ExchangeInvitation] = [:]
    var codes: [String: ExchangeGrantCode] = [:]
    var accessTokens: [String: ExchangeAccessToken] = [:]
    var refreshTokens: [String: ExchangeRefreshToken] = [:]
    var observations: [StoredObservation] = []
    /// So many rows came before them.
    var rowsForgotten = 0
    /// The unique index over (system, value): the row that owns it.
    var identifierOwners: [ExchangeIdentifier: Int] = [:]

    /// Of codes and tokens.
    var random: SeededRandom

    // Knobs and records.
    var faults = ExchangeFaultPlan()
    var poisoned: Set<ExchangeIdentifier> = []
    var refused: Set<String> = []
    var unreadable: Set<Int> = []
    var forgottenCodes: Set<String> = []
    var pacePerEntry = Duration.zero
    var workers = ExchangeWorkers()
    /// How long an access token is good; 14 days at real servers.
    var accessTokenLifetimeSeconds = 1_209_600
    var advertisedTokenEndpoint: String?
    var inFlight: [ExchangeIdentifier: Int] = [:]
    var overlaps = 0
    var log: [ExchangeRequestRecord] = []
    /// The number of the first record in ``log``: older ones are forgotten.
    var logStart = 0

    /// Starts a stand-in on a free port.
    public static func start(
        version: ExchangeVersion = .head, seed: ExchangeSeed = .standard, time: ExchangeTime = .real
    ) async throws -> StandInExchange {
        let exchange = StandInExchange(
            reservation: try PortReservation(), version: version, seed: seed, time: time)
        try await exchange.restoreNetwork()
        return exchange
    }

    init(
        reservation: PortReservation?, version: ExchangeVersion, seed: ExchangeSeed,
        time: ExchangeTime, randomSeed: UInt64 = .random(in: .min ... .max)
    ) {
        self.reservation = reservation
        self.port = reservation?.port ?? 8_080
        self.version = version
        self.seed = seed
        self.time = time
        random = SeededRandom(seed: randomSeed)
        for consent in seed.consents {
            let key = ExchangeConsentKey(
                patient: consent.patient, study: consent.study, code: consent.code)
            consents[key] = ExchangeConsent(isGiven: true, at: time.now())
        }
    }

    /// The exchange's clock.
    public var now: Date { time.now().addingTimeInterval(clockOffset / .seconds(1)) }

    /// Moves the exchange's clock forward: codes, tokens and invitations age.
    public func advanceClock(by time: Duration) { clockOffset += time }

    // MARK: Network

    /// Cuts the network: the listener closes and every connection breaks. A worker that is at
    /// work goes on, as the real one does.
    public func cutNetwork() async {
        let old = listener
        listener = nil
        await old?.stop()
    }

    /// Ends a cut: the same port answers again.
    public func restoreNetwork() async throws {
        let deadline = ContinuousClock.now + Self.portPatience
        while listener == nil {
            do {
                listener = try await ExchangeListener.start(port: port) { [weak self] request in
                    await self?.handle(request) ?? (.serverError, .none)
                }
            } catch let error as IOError
                where error.errnoCode == EADDRINUSE && ContinuousClock.now < deadline
            {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }

    /// How long the port may still be taken: a child that this process is just starting has the old listener open
    /// until it executes its program.
    private static let portPatience = Duration.seconds(10)

    /// Ends the stand-in for good.
    public func stop() async { await cutNetwork() }

    // MARK: Requests

    func handle(_ request: ExchangeRequest) async -> (ExchangeAnswer, ExchangeDelivery) {
        let endpoint = ExchangeEndpoint(of: request, host: host, version: version)
        let route = endpoint.route(method: request.method)
        let number = logStart + log.count
        log.append(
            ExchangeRequestRecord(
                number: number, at: now, method: request.method,
                path: endpoint.shownPath(request.path),
                route: route, entries: nil, status: nil))
        let fault = faults.take(for: route, now: now)
        await takeWorker()
        let (answer, delivery) = await answer(request, at: endpoint, number, fault)
        workers.release()
        if delivery == .whole { record(number) { $0.status = answer.status } }
        return (answer, delivery)
    }

    /// Changes a record, unless it was forgotten meanwhile.
    func record(_ number: Int, _ change: (inout ExchangeRequestRecord) -> Void) {
        let index = number - logStart
        if log.indices.contains(index) { change(&log[index]) }
    }

    private func answer(
        _ request: ExchangeRequest, at endpoint: ExchangeEndpoint, _ number: Int,
        _ fault: ExchangeFault?
    ) async -> (ExchangeAnswer, ExchangeDelivery) {
        switch fault {
        case .status(let status, let seconds):
            let page = ExchangeAnswer.html(status, "Refused by a proxy (\(status))")
            return (seconds.map { page.with("Retry-After", String($0)) } ?? page, .whole)
        case .empty(let status): return (ExchangeAnswer(status: status, body: []), .whole)
        case .hangUp: return (.serverError, .none)
        case .silence: return (.serverError, .silence)
        // The endpoints that store begin slowly themselves, once they know what they work on.
        case .slow(let time) where endpoint != .bundle && endpoint != .observations:
            await self.time.sleep(time)
        default: break
        }
        var work = ExchangeWork(fault: fault, logNumber: number)
        let answer = await perform(endpoint, request, &work)
        if case .slowAnswer(let time) = fault { await self.time.sleep(time) }
        if work.connectionLost { return (answer, .none) }
        return fault?.spoil(answer) ?? (answer, .whole)
    }
}

/// The conditions of one request's work, and its outcome.
struct ExchangeWork {
    let fault: ExchangeFault?
    let logNumber: Int
    /// Set when the worker dies without an answer.
    var connectionLost = false
    /// Entries done so far.
    var entriesDone = 0

    var databaseIsDown: Bool { fault == .databaseDown }
}
