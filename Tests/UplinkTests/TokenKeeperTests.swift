import OfflineQueue
import Testing

@testable import Uplink

@Suite struct TokenKeeperTests {
    static let day: Int64 = 86_400_000_000
    static let hour: Int64 = 3_600_000_000

    static func record(
        _ number: Int = 1, credential: Credential = .invitation(Secret("invite")),
        refresh: Bool = true
    ) -> TokenRecord {
        TokenRecord(
            origin: .example, clientID: "client", credential: credential,
            pair: pair(number, refresh: refresh))
    }

    static func pair(_ number: Int, at granted: Int64 = 0, refresh: Bool = true) -> TokenPair {
        TokenPair(
            access: Secret("access\(number)"), refresh: refresh ? Secret("refresh\(number)") : nil,
            grantedMicroseconds: granted, lifetimeSeconds: 1_209_600)
    }

    static func at(_ time: Int64, isTrusted: Bool = true) -> ClockReading {
        ClockReading(uptimeMicroseconds: time, wallMicroseconds: time, isTrusted: isTrusted)
    }

    static let first = AccessToken(secret: Secret("access1"), generation: 1)

    private func refreshing(_ keeper: inout TokenKeeper, _ now: ClockReading) -> Bool {
        keeper.next(now) == .refresh(Secret("refresh1"), clientID: "client")
    }

    @Test func aYoungTokenIsUsed() {
        var keeper = TokenKeeper(record: Self.record())
        #expect(keeper.next(Self.at(6 * Self.day)) == .use(Self.first))
    }

    @Test func atHalfLifeTheTokenIsRefreshedAndTheNewPairSavedBeforeItsFirstUse() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(7 * Self.day)
        #expect(refreshing(&keeper, now))
        keeper.answered(.granted(Self.pair(2, at: now.wallMicroseconds)), now)
        #expect(keeper.next(now) == .save(Self.record(2).with(granted: now.wallMicroseconds)))
        keeper.saved(true, now)
        #expect(
            keeper.next(now) == .use(AccessToken(secret: Secret("access2"), generation: 2)))
        #expect(keeper.next(Self.at(13 * Self.day)).isUse)
    }

    @Test func aPairThatCannotBeSavedIsNotUsed() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(7 * Self.day)
        #expect(refreshing(&keeper, now))
        keeper.answered(.granted(Self.pair(2, at: now.wallMicroseconds)), now)
        keeper.saved(false, now)
        let retry = now.uptimeMicroseconds + 30_000_000
        #expect(keeper.next(now) == .wait(untilMicroseconds: retry))
        #expect(keeper.next(Self.at(retry)).isSave)
    }

    @Test func anUntrustedClockLeavesTheRefreshToThe401() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(400 * Self.day, isTrusted: false)
        #expect(keeper.next(now) == .use(Self.first))
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
    }

    @Test func aLate401OfAnOldTokenDoesNotCondemnTheNewOne() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(7 * Self.day)
        #expect(refreshing(&keeper, now))
        keeper.answered(.granted(Self.pair(2, at: now.wallMicroseconds)), now)
        keeper.saved(true, now)
        keeper.refused(Self.first, now)
        #expect(keeper.next(now).isUse)
    }

    @Test func aNewPairThatIsRefusedAtOnceIsNotReplacedAtOnce() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
        keeper.answered(.granted(Self.pair(2, at: now.wallMicroseconds)), now)
        keeper.saved(true, now)
        keeper.refused(AccessToken(secret: Secret("access2"), generation: 2), now)
        #expect(
            keeper.next(now) == .wait(untilMicroseconds: now.uptimeMicroseconds + 300_000_000))
    }

    @Test func anUnclearRefreshIsRepeatedLaterAndTheOldTokenUsedMeanwhile() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(7 * Self.day)
        #expect(refreshing(&keeper, now))
        keeper.answered(.unclear, now)
        #expect(keeper.next(now) == .use(Self.first))
        #expect(refreshing(&keeper, Self.at(now.uptimeMicroseconds + 30_000_000)))
    }

    @Test func unclearRefreshesSpreadOutToAQuarterOfAnHour() {
        var keeper = TokenKeeper(record: Self.record())
        var now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        var pauses: [Int64] = []
        for _ in 0..<8 {
            #expect(refreshing(&keeper, now))
            keeper.answered(.unclear, now)
            guard case .wait(let until) = keeper.next(now) else {
                Issue.record("not waiting")
                return
            }
            pauses.append((until - now.uptimeMicroseconds) / 1_000_000)
            now = Self.at(until)
        }
        #expect(pauses == [30, 60, 120, 240, 480, 900, 900, 900])
        #expect(!keeper.isLost)
    }

    @Test func aRefreshThatWasNotSentIsRepeatedSoon() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
        keeper.answered(.notSent(.connect), now)
        #expect(keeper.next(now) == .wait(untilMicroseconds: now.uptimeMicroseconds + 5_000_000))
    }

    @Test func aLostRefreshAnswerIsMetByRedeemingTheInvitationAgain() {
        var keeper = TokenKeeper(record: Self.record())
        var now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
        keeper.answered(.unclear, now)
        now = Self.at(now.uptimeMicroseconds + 30_000_000)
        #expect(refreshing(&keeper, now))
        keeper.answered(.refused(.invalidGrant), now)
        #expect(keeper.next(now) == .redeem(Secret("invite")))
        keeper.redeemed(.success(Self.record(3)), now)
        #expect(keeper.next(now).isSave)
        keeper.saved(true, now)
        #expect(keeper.next(now) == .use(AccessToken(secret: Secret("access3"), generation: 2)))
    }

    @Test(
        "a refused redemption is final, with one attempt an hour",
        arguments: [.unknown, .cancelled, .expired, .superseded, .refused] as [EnrollFault])
    func finalRedemption(fault: EnrollFault) {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
        keeper.answered(.refused(.invalidGrant), now)
        #expect(keeper.next(now) == .redeem(Secret("invite")))
        keeper.redeemed(.failure(fault), now)
        #expect(keeper.isLost)
        let retry = now.uptimeMicroseconds + Self.hour
        #expect(keeper.next(now) == .enrollAgain(retryAtMicroseconds: retry))
        #expect(
            keeper.next(Self.at(retry - 1)) == .enrollAgain(retryAtMicroseconds: retry))
        #expect(refreshing(&keeper, Self.at(retry)))
    }

    @Test(
        "a redemption in an outage is repeated, not final",
        arguments: [.serverTrouble(status: 500), .transport(.timeout), .unreadable] as [EnrollFault]
    )
    func unclearRedemption(fault: EnrollFault) {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
        keeper.answered(.refused(.invalidGrant), now)
        #expect(keeper.next(now) == .redeem(Secret("invite")))
        keeper.redeemed(.failure(fault), now)
        #expect(!keeper.isLost)
        let later = now.uptimeMicroseconds + 30_000_000
        #expect(keeper.next(now) == .wait(untilMicroseconds: later))
        #expect(keeper.next(Self.at(later)) == .redeem(Secret("invite")))
    }

    @Test(
        "without an invitation both final refusals mean to enroll again",
        arguments: [.invalidGrant, .invalidClient] as [GrantRefusal])
    func finalRefresh(refusal: GrantRefusal) {
        var keeper = TokenKeeper(record: Self.record(credential: .none))
        let now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
        keeper.answered(.refused(refusal), now)
        #expect(
            keeper.next(now)
                == .enrollAgain(retryAtMicroseconds: now.uptimeMicroseconds + Self.hour))
    }

    @Test func withoutAnyWayToRenewTheLaneIsLostOnThe401() {
        var keeper = TokenKeeper(record: Self.record(credential: .none, refresh: false))
        let now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(
            keeper.next(now)
                == .enrollAgain(retryAtMicroseconds: now.uptimeMicroseconds + Self.hour))
        #expect(keeper.isLost)
    }

    @Test func aPractitionerKeyMintsAtHalfLife() {
        let key = Credential.practitionerKey(clientID: "p", secret: Secret("s"))
        var keeper = TokenKeeper(record: Self.record(credential: key, refresh: false))
        let now = Self.at(7 * Self.day)
        #expect(keeper.next(now) == .mint(clientID: "p", secret: Secret("s")))
        keeper.answered(.refused(.invalidClient), now)
        // The old token has seven days to go.
        #expect(keeper.next(now) == .use(Self.first))
        keeper.refused(Self.first, now)
        #expect(
            keeper.next(now)
                == .enrollAgain(retryAtMicroseconds: now.uptimeMicroseconds + Self.hour))
    }

    @Test func aServerThatDoesNotRotateKeepsTheRefreshToken() {
        var keeper = TokenKeeper(record: Self.record())
        let now = Self.at(7 * Self.day)
        #expect(refreshing(&keeper, now))
        keeper.answered(
            .granted(Self.pair(2, at: now.wallMicroseconds, refresh: false)), now)
        #expect(keeper.record.pair.refresh == Secret("refresh1"))
    }

    @Test func aNewEnrollmentEndsTheLoss() {
        var keeper = TokenKeeper(record: Self.record(credential: .none))
        let now = Self.at(Self.day)
        keeper.refused(Self.first, now)
        #expect(refreshing(&keeper, now))
        keeper.answered(.refused(.invalidGrant), now)
        keeper.replace(Self.record(5))
        #expect(keeper.next(now) == .use(AccessToken(secret: Secret("access5"), generation: 2)))
        #expect(!keeper.isLost)
    }
}

extension TokenRecord {
    fileprivate func with(granted: Int64) -> TokenRecord {
        var copy = self
        copy.pair.grantedMicroseconds = granted
        return copy
    }
}

extension TokenKeeper.Action {
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
