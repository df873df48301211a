import Logging
import OfflineQueue

/// Runs one enrollment's `TokenKeeper`: everyone who needs a token asks here, and a renewal is done
/// once for all of them.
public actor TokenSource {
    /// Why there is no token now.
    public enum Fault: Error, Hashable, Sendable {
        /// One may be had later; ask again at this uptime.
        case notNow(untilMicroseconds: Int64)
        /// Only a person can bring one; an attempt is still made at this uptime.
        case enrollAgain(retryAtMicroseconds: Int64)
    }

    private var keeper: TokenKeeper
    private let file: TokenFile
    private let transport: any HTTPTransport
    private let clock: any GatewayClock
    private let logger: Logger
    private var renewal: Task<Void, Never>?

    /// A source of the tokens in `record`, which `file` holds.
    public init(
        record: TokenRecord, file: TokenFile, transport: any HTTPTransport,
        clock: any GatewayClock, logger: Logger
    ) {
        keeper = TokenKeeper(record: record)
        self.file = file
        self.transport = transport
        self.clock = clock
        self.logger = logger
    }

    /// Whether a person has to enroll again.
    public var needsEnrollment: Bool { keeper.isLost }

    /// The OAuth client the tokens belong to.
    public var clientID: String { keeper.record.clientID }

    /// When the token in use ends, UTC microseconds. It is renewed long before.
    public var expiresMicroseconds: Int64 { keeper.record.pair.expiresMicroseconds }

    /// A token to use now, renewed before if it is time.
    public func token() async throws(Fault) -> AccessToken {
        while true {
            if let renewal {
                await renewal.value
                continue
            }
            switch keeper.next(clock.read()) {
            case .use(let token):
                if keeper.isFirstUse(of: token) { TokenFaultPoint.firstUse.reach() }
                return token
            case .wait(let until): throw .notNow(untilMicroseconds: until)
            case .enrollAgain(let retry): throw .enrollAgain(retryAtMicroseconds: retry)
            case let action:
                // Not part of the asking task: a cancelled lane must not break off a refresh.
                renewal = Task { await perform(action) }
            }
        }
    }

    /// Reports that a request with `token` was answered 401.
    public func refused(_ token: AccessToken) {
        keeper.refused(token, clock.read())
    }

    /// Reports that a request with `token` got past the token check.
    public func accepted(_ token: AccessToken) {
        keeper.accepted(token)
    }

    /// Takes the tokens of a new enrollment, already in the file, in place of the old.
    public func replace(_ record: TokenRecord) async {
        await finishRenewal()
        keeper.replace(record)
    }

    /// Waits for a renewal under way: a new pair that never reaches the file locks the gateway out.
    public func finishRenewal() async {
        while let renewal { await renewal.value }
    }

    private func perform(_ action: TokenKeeper.Action) async {
        let client = GrantClient(
            transport: transport, origin: keeper.record.origin, clock: clock)
        switch action {
        case .save(let record): save(record)
        case .refresh(let token, let clientID):
            let outcome = await client.refresh(token, clientID: clientID)
            logger.info("refresh token", metadata: ["outcome": "\(outcome.word)"])
            take(outcome)
        case .mint(let clientID, let secret):
            let outcome = await client.mint(clientID: clientID, secret: secret)
            logger.info("mint token", metadata: ["outcome": "\(outcome.word)"])
            take(outcome)
        case .redeem(let token):
            let outcome = await redeem(token, client)
            if case .failure(let fault) = outcome {
                logger.warning("redeem invitation again", metadata: ["fault": "\(fault)"])
            } else {
                TokenFaultPoint.granted.reach()
                logger.notice("redeem invitation again: new tokens")
            }
            keeper.redeemed(outcome, clock.read())
        case .use, .wait, .enrollAgain: break
        }
        renewal = nil
    }

    private func take(_ outcome: GrantOutcome) {
        if case .granted = outcome { TokenFaultPoint.granted.reach() }
        keeper.answered(outcome, clock.read())
    }

    private func redeem(
        _ token: Secret, _ client: GrantClient
    ) async -> Result<TokenRecord, EnrollFault> {
        do {
            return .success(
                try await client.redeemAndExchange(
                    token, attemptsMax: Enroller.redemptionsMax))
        } catch {
            return .failure(error)
        }
    }

    private func save(_ record: TokenRecord) {
        do {
            try file.save(record)
            keeper.saved(true, clock.read())
        } catch {
            logger.error("save tokens", metadata: ["fault": "\(error)"])
            keeper.saved(false, clock.read())
        }
    }
}

extension GrantOutcome {
    /// The outcome without what it carries, for logs.
    var word: String {
        switch self {
        case .granted: "granted"
        case .refused(.invalidGrant): "invalid_grant"
        case .refused(.invalidClient): "invalid_client"
        case .unclear: "unclear"
        case .notSent(let fault): "not sent: \(fault)"
        }
    }
}
