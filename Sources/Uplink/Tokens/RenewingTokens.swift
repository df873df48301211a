import Basics
import Logging
import OfflineQueue

/// Runs one delivery's `TokenRenewal`: everyone who needs a token asks here, and a renewal is done
/// once for all of them.
public actor RenewingTokens: TokenSource {
    private var renewal: TokenRenewal
    private let save: @Sendable (TokenRecord) throws -> Void
    private let issuer: @Sendable (TokenRecord) -> any TokenIssuer
    private let clock: any GatewayClock
    private let logger: Logger
    /// The renewal under way.
    private var running: Task<Void, Never>?
    private var isFinished = false

    /// A source of the tokens in `record`, which `file` holds, of an exchange.
    public init(
        record: TokenRecord, file: TokenFile, transport: any HTTPTransport,
        clock: any GatewayClock, logger: Logger
    ) {
        self.init(record: record, clock: clock, logger: logger) {
            try file.save($0)
        } issuer: {
            GrantClient(transport: transport, origin: $0.origin, clock: clock)
        }
    }

    /// A source of the tokens in `record`, which are on the disk. `save` puts new ones there before it
    /// returns; `issuer` is the token endpoint that grants them.
    init(
        record: TokenRecord, clock: any GatewayClock, logger: Logger,
        save: @escaping @Sendable (TokenRecord) throws -> Void,
        issuer: @escaping @Sendable (TokenRecord) -> any TokenIssuer
    ) {
        renewal = TokenRenewal(record: record)
        self.save = save
        self.issuer = issuer
        self.clock = clock
        self.logger = logger
    }

    /// The OAuth client the tokens belong to.
    public var clientID: String { renewal.record.clientID }

    /// When the token in use ends; nil if it is refused. It is renewed long before.
    public var expires: UTC? { renewal.isTokenRefused ? nil : renewal.record.pair.expires }

    /// Whether the token in use is not taken any more, and there is no new one yet.
    public var isRefused: Bool { renewal.isTokenRefused }

    /// A token to use now, renewed before if it is time.
    public func token() async throws(TokenFault) -> AccessToken {
        while true {
            if let running {
                await running.value
                continue
            }
            let now = clock.read()
            guard !isFinished else {
                throw .notNow(until: now.uptime, cause: "the delivery has ended")
            }
            switch renewal.next(now) {
            case .use(let token):
                if renewal.isFirstUse(of: token) { TokenFaultPoint.firstUse.reach() }
                return token
            case .wait(let until, let cause): throw .notNow(until: until, cause: cause)
            case .enrollAgain(let retry): throw .enrollAgain(retryAt: retry)
            case let action:
                // Not part of the asking task: a cancelled delivery must not break off a refresh.
                running = Task { await perform(action) }
            }
        }
    }

    /// Reports that a request with `token` was answered 401.
    public func refused(_ token: AccessToken) {
        renewal.refused(token, clock.read())
    }

    /// Reports that a request with `token` got past the token check.
    public func accepted(_ token: AccessToken) {
        renewal.accepted(token)
    }

    /// Waits for a renewal under way, and allows no other: afterwards the tokens may belong to another source, or be erased.
    public func finish() async {
        isFinished = true
        await running?.value
    }

    private func perform(_ action: TokenRenewal.Action) async {
        let client = issuer(renewal.record)
        switch action {
        case .refresh(let token, let clientID):
            let outcome = await client.refresh(token, clientID: clientID)
            logger.info("refresh token", metadata: ["outcome": "\(outcome.word)"])
            take(outcome)
        case .mint(let clientID, let secret):
            let outcome = await client.mint(clientID: clientID, secret: secret)
            logger.info("mint token", metadata: ["outcome": "\(outcome.word)"])
            take(outcome)
        case .redeem(let token):
            let outcome = await client.redeemAgain(token)
            if case .failure(let fault) = outcome {
                logger.warning("redeem invitation again", metadata: ["fault": "\(fault)"])
            } else {
                TokenFaultPoint.granted.reach()
                logger.notice("redeem invitation again: new tokens")
            }
            renewal.redeemed(outcome, clock.read())
        case .save, .use, .wait, .enrollAgain: break
        }
        // In one act with the grant: nobody may be left to ask again, and the old pair is dead.
        if case .save(let record) = renewal.next(clock.read()) { store(record) }
        running = nil
    }

    private func take(_ outcome: GrantOutcome) {
        if case .granted = outcome { TokenFaultPoint.granted.reach() }
        renewal.answered(outcome, clock.read())
    }

    private func store(_ record: TokenRecord) {
        do {
            try save(record)
            renewal.saved(true, clock.read())
        } catch {
            logger.error("save tokens", metadata: ["fault": "\(error)"])
            renewal.saved(false, clock.read())
        }
    }
}
