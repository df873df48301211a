import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct TokenRenewalTests {
    static let hour = Duration.seconds(3_600)
    static let day = hour * 24

    static func record(
        _ number: Int = 1, credential: Credential = .invitation(Secret("invite")),
        refresh: Bool = true
    ) -> TokenRecord {
        TokenRecord(
            origin: .example, clientID: "client", credential: credential,
            pair: pair(number, refresh: refresh))
    }

    static func pair(_ number: Int, at granted: UTC = .epoch, refresh: Bool = true)
        -> TokenPair
    {
        TokenPair(
            access: Secret("access\(number)"), refresh: refresh ? Secret("refresh\(number)") : nil,
            granted: granted, lifetime: day * 14)
    }

    /// So long after the start of the machine and of the first token.
    static func at(_ time: Duration, isTrusted: Bool = true) -> ClockReading {
        ClockReading(
            uptime: .zero + time, wall: .epoch + time, isTrusted: isTrusted)
    }

    static func at(_ uptime: Uptime) -> ClockReading {
        at(Uptime.zero.duration(to: uptime))
    }

    static let first = AccessToken(secret: Secret("access1"), generation: 1)

    private func refreshing(_ renewal: inout TokenRenewal, _ now: ClockReading) -> Bool {
        renewal.next(now) == .refresh(Secret("refresh1"), clientID: "client")
    }

    /// The exchange has refused the first token of `record`, and a refresh of it is under way.
    private func refreshingAfterA401(
        _ record: TokenRecord, _ now: ClockReading
    ) -> TokenRenewal {
        var renewal = TokenRenewal(record: record)
        renewal.refused(Self.first, now)
        #expect(refreshing(&renewal, now))
        return renewal
    }

    /// It has refused the refresh token as well, and the invitation is redeemed again.
    private func redeemingAfterA401(_ now: ClockReading) -> TokenRenewal {
        var renewal = refreshingAfterA401(Self.record(), now)
        renewal.answered(.refused(.invalidGrant), now)
        #expect(renewal.next(now) == .redeem(Secret("invite")))
        return renewal
    }

    /// At half its life the first token is refreshed, and the exchange has granted a new pair.
    private func grantedAtHalfLife(_ now: ClockReading) -> TokenRenewal {
        var renewal = TokenRenewal(record: Self.record())
        #expect(refreshing(&renewal, now))
        renewal.answered(.granted(Self.pair(2, at: now.wall)), now)
        return renewal
    }

    @Test func aYoungTokenIsUsed() {
        var renewal = TokenRenewal(record: Self.record())
        #expect(renewal.next(Self.at(Self.day * 6)) == .use(Self.first))
    }

    @Test func atHalfLifeTheTokenIsRefreshedAndTheNewPairSavedBeforeItsFirstUse() {
        let now = Self.at(Self.day * 7)
        var renewal = grantedAtHalfLife(now)
        #expect(renewal.next(now) == .save(Self.record(2).with(granted: now.wall)))
        renewal.saved(true, now)
        #expect(
            renewal.next(now) == .use(AccessToken(secret: Secret("access2"), generation: 2)))
        #expect(renewal.next(Self.at(Self.day * 13)).isUse)
    }

    @Test func aPairThatCannotBeSavedIsNotUsed() {
        let now = Self.at(Self.day * 7)
        var renewal = grantedAtHalfLife(now)
        renewal.saved(false, now)
        let retry = now.uptime + .seconds(30)
        #expect(renewal.next(now) == .wait(until: retry, cause: "it cannot be stored"))
        #expect(renewal.next(Self.at(retry)).isSave)
    }

    @Test func anUntrustedClockLeavesTheRefreshToThe401() {
        var renewal = TokenRenewal(record: Self.record())
        let now = Self.at(Self.day * 400, isTrusted: false)
        #expect(renewal.next(now) == .use(Self.first))
        renewal.refused(Self.first, now)
        #expect(refreshing(&renewal, now))
    }

    @Test func aLate401OfAnOldTokenDoesNotCondemnTheNewOne() {
        let now = Self.at(Self.day * 7)
        var renewal = grantedAtHalfLife(now)
        renewal.saved(true, now)
        renewal.refused(Self.first, now)
        #expect(renewal.next(now).isUse)
    }

    @Test func aNewPairThatIsRefusedAtOnceIsNotReplacedAtOnce() {
        let now = Self.at(Self.day)
        var renewal = refreshingAfterA401(Self.record(), now)
        renewal.answered(.granted(Self.pair(2, at: now.wall)), now)
        renewal.saved(true, now)
        renewal.refused(AccessToken(secret: Secret("access2"), generation: 2), now)
        #expect(
            renewal.next(now) == .wait(until: now.uptime + .seconds(300), cause: nil))
    }

    @Test func anUnclearRefreshIsRepeatedLaterAndTheOldTokenUsedMeanwhile() {
        var renewal = TokenRenewal(record: Self.record())
        let now = Self.at(Self.day * 7)
        #expect(refreshing(&renewal, now))
        renewal.answered(.unclear("HTTP 503"), now)
        #expect(renewal.next(now) == .use(Self.first))
        #expect(refreshing(&renewal, Self.at(now.uptime + .seconds(30))))
    }

    @Test func unclearRefreshesSpreadOutToAQuarterOfAnHour() {
        var renewal = TokenRenewal(record: Self.record())
        var now = Self.at(Self.day)
        renewal.refused(Self.first, now)
        var pauses: [Duration] = []
        for _ in 0..<8 {
            #expect(refreshing(&renewal, now))
            renewal.answered(.unclear("HTTP 503"), now)
            guard case .wait(let until, "HTTP 503") = renewal.next(now) else {
                Issue.record("not waiting")
                return
            }
            pauses.append(until - now.uptime)
            now = Self.at(until)
        }
        #expect(pauses.map { $0 / .seconds(1) } == [30, 60, 120, 240, 480, 900, 900, 900])
        #expect(!renewal.isLost)
    }

    @Test func aRefreshThatWasNotSentIsRepeatedSoon() {
        let now = Self.at(Self.day)
        var renewal = refreshingAfterA401(Self.record(), now)
        renewal.answered(.notSent(.connect), now)
        #expect(
            renewal.next(now)
                == .wait(until: now.uptime + .seconds(5), cause: "\(TransportFault.connect)"))
    }

    @Test func aLostRefreshAnswerIsMetByRedeemingTheInvitationAgain() {
        var now = Self.at(Self.day)
        var renewal = refreshingAfterA401(Self.record(), now)
        renewal.answered(.unclear("HTTP 503"), now)
        now = Self.at(now.uptime + .seconds(30))
        #expect(refreshing(&renewal, now))
        renewal.answered(.refused(.invalidGrant), now)
        #expect(renewal.next(now) == .redeem(Secret("invite")))
        renewal.redeemed(.success(Self.record(3)), now)
        #expect(renewal.next(now).isSave)
        renewal.saved(true, now)
        #expect(renewal.next(now) == .use(AccessToken(secret: Secret("access3"), generation: 2)))
    }

    @Test(
        "a refused redemption is final, with one attempt an hour",
        arguments: [.unknown, .cancelled, .expired, .superseded, .refused] as [EnrollFault])
    func finalRedemption(fault: EnrollFault) {
        let now = Self.at(Self.day)
        var renewal = redeemingAfterA401(now)
        renewal.redeemed(.failure(fault), now)
        #expect(renewal.isLost)
        let retry = now.uptime + Self.hour
        #expect(renewal.next(now) == .enrollAgain(retryAt: retry))
        #expect(
            renewal.next(Self.at(retry - .microseconds(1))) == .enrollAgain(retryAt: retry))
        #expect(refreshing(&renewal, Self.at(retry)))
    }

    @Test(
        "a redemption in an outage is repeated, not final",
        arguments: [.serverTrouble(status: 500), .transport(.timeout), .unreadable] as [EnrollFault]
    )
    func unclearRedemption(fault: EnrollFault) {
        let now = Self.at(Self.day)
        var renewal = redeemingAfterA401(now)
        renewal.redeemed(.failure(fault), now)
        #expect(!renewal.isLost)
        let later = now.uptime + .seconds(30)
        #expect(renewal.next(now) == .wait(until: later, cause: "\(fault)"))
        #expect(renewal.next(Self.at(later)) == .redeem(Secret("invite")))
    }

    @Test(
        "without an invitation both final refusals mean to enroll again",
        arguments: [.invalidGrant, .invalidClient] as [GrantRefusal])
    func finalRefresh(refusal: GrantRefusal) {
        let now = Self.at(Self.day)
        var renewal = refreshingAfterA401(Self.record(credential: .none), now)
        renewal.answered(.refused(refusal), now)
        #expect(renewal.next(now) == .enrollAgain(retryAt: now.uptime + Self.hour))
    }

    @Test func withoutAnyWayToRenewTheDeliveryIsLostOnThe401() {
        var renewal = TokenRenewal(record: Self.record(credential: .none, refresh: false))
        let now = Self.at(Self.day)
        renewal.refused(Self.first, now)
        #expect(renewal.next(now) == .enrollAgain(retryAt: now.uptime + Self.hour))
        #expect(renewal.isLost)
    }

    @Test func aPractitionerKeyMintsAtHalfLife() {
        let key = Credential.practitionerKey(clientID: "p", secret: Secret("s"))
        var renewal = TokenRenewal(record: Self.record(credential: key, refresh: false))
        let now = Self.at(Self.day * 7)
        #expect(renewal.next(now) == .mint(clientID: "p", secret: Secret("s")))
        renewal.answered(.refused(.invalidClient), now)
        // The old token has seven days to go.
        #expect(renewal.next(now) == .use(Self.first))
        renewal.refused(Self.first, now)
        #expect(renewal.next(now) == .enrollAgain(retryAt: now.uptime + Self.hour))
    }

    @Test func aServerThatDoesNotRotateKeepsTheRefreshToken() {
        var renewal = TokenRenewal(record: Self.record())
        let now = Self.at(Self.day * 7)
        #expect(refreshing(&renewal, now))
        renewal.answered(
            .granted(Self.pair(2, at: now.wall, refresh: false)), now)
        #expect(renewal.record.pair.refresh == Secret("refresh1"))
    }
}

extension TokenRecord {
    fileprivate func with(granted: UTC) -> TokenRecord {
        var copy = self
        copy.pair.granted = granted
        return copy
    }
}

extension TokenRenewal.Action {
    fileprivate var isUse: Bool { if case .use = self { true } else { false } }
    fileprivate var isSave: Bool { if case .save = self { true } else { false } }
}

extension Origin {
    /// `https://jhe.example`.
    static var example: Origin {
        guard let origin = Origin("https://jhe.example") else { fatalError("not an origin") }
        return origin
    }
}
