import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct TokenSourceTests {
    private static func source(
        _ transport: ScriptedTransport, _ scratch: Scratch, _ clock: StillClock = StillClock(),
        credential: Credential = .invitation(Secret("I2HnwcSqOsX2qkCDZouhiCAtL6K2QiYj"))
    ) throws -> (RenewingTokens, TokenFile) {
        let file = TokenFile(path: scratch.path + "/tokens.json")
        let record = TokenRecord(
            origin: .example, clientID: "gw", credential: credential,
            pair: TokenPair(
                access: Secret("OLD"), refresh: Secret("OLDREFRESH"),
                granted: clock.read().wall, lifetime: .seconds(1_209_600)))
        try file.save(record)
        let source = RenewingTokens(
            record: record, file: file, transport: transport, clock: clock, logger: .quiet)
        return (source, file)
    }

    /// A token that the exchange refused was shown as valid for weeks.
    @Test func aRefusedTokenHasNoEndUntilThereIsANewOne() async throws {
        let scratch = try Scratch()
        let isRefused = Box(true)
        let transport = EnrollerTests.exchange { target in
            isRefused.now ? (target == "/o/token/" ? .html(500) : nil) : nil
        }
        let clock = StillClock()
        let (source, _) = try Self.source(transport, scratch, clock)
        #expect(await source.expires != nil)
        await source.refused(try await source.token())
        #expect(await source.isRefused)
        #expect(await source.expires == nil)
        await #expect(throws: TokenFault.self) { try await source.token() }
        #expect(await source.expires == nil)
        isRefused.set(false)
        clock.advance(by: .seconds(1_000))
        _ = try await source.token()
        #expect(await source.expires == clock.read().wall + .seconds(1_209_600))
        #expect(await !source.isRefused)
    }

    @Test func manyAskersOfAnOldTokenCauseOneRefresh() async throws {
        let scratch = try Scratch()
        let clock = StillClock()
        let transport = EnrollerTests.exchange()
        let (source, file) = try Self.source(transport, scratch, clock)
        clock.advance(by: .seconds(8 * 86_400))
        try await withThrowingTaskGroup(of: AccessToken.self) { group in
            for _ in 0..<50 { group.addTask { try await source.token() } }
            for try await token in group { #expect(token.secret == Secret("ACCESS")) }
        }
        #expect(transport.lines == ["POST /o/token/"])
        #expect(
            String(decoding: transport.requests[0].body, as: UTF8.self)
                == "grant_type=refresh_token&refresh_token=OLDREFRESH&client_id=gw")
        #expect(try file.load().pair.refresh == Secret("REFRESH"))
    }

    @Test func theNewPairIsOnTheDiskBeforeItsFirstUse() async throws {
        let scratch = try Scratch()
        let transport = EnrollerTests.exchange()
        let (source, file) = try Self.source(transport, scratch)
        // A directory in the place of the temporary file: the record cannot be written.
        let obstacle = file.path + ".new"
        try FileManager.default.createDirectory(
            atPath: obstacle + "/x", withIntermediateDirectories: true)
        await source.refused(try await source.token())
        await #expect(throws: TokenFault.self) { try await source.token() }
        #expect(transport.lines == ["POST /o/token/"])
    }

    @Test func aRefreshTokenThatIsDeadIsReplacedThroughTheInvitation() async throws {
        let scratch = try Scratch()
        let isFirst = Box(true)
        let transport = EnrollerTests.exchange { target in
            guard target == "/o/token/" else { return nil }
            return isFirst.change { first in
                defer { first = false }
                return first ? .json(400, #"{"error":"invalid_grant"}"#) : nil
            }
        }
        let (source, file) = try Self.source(transport, scratch)
        await source.refused(try await source.token())
        #expect(try await source.token().secret == Secret("ACCESS"))
        #expect(
            transport.lines.map { $0.prefix(17) }
                == ["POST /o/token/", "POST /api/v1/invi", "POST /o/token/"])
        #expect(try file.load().pair.access == Secret("ACCESS"))
    }

    @Test func whenAllIsLostAPersonIsAskedAndTheExchangeLeftAloneForAnHour() async throws {
        let scratch = try Scratch()
        let clock = StillClock()
        let transport = EnrollerTests.exchange { target in
            target == "/o/token/" ? .json(400, #"{"error":"invalid_grant"}"#) : nil
        }
        let (source, _) = try Self.source(transport, scratch, clock, credential: .none)
        await source.refused(try await source.token())
        let retry = clock.read().uptime + .seconds(3_600)
        for _ in 0..<10 {
            await #expect(throws: TokenFault.enrollAgain(retryAt: retry)) {
                try await source.token()
            }
        }
        #expect(transport.lines.count == 1)
    }

    /// A renewal whose issuer answers when it is let.
    private struct SlowRenewal {
        let source: RenewingTokens
        let stored: Box<[TokenRecord]>
        let asked: AsyncStream<Void>
        let gate: AsyncStream<Void>.Continuation

        init() {
            let clock = StillClock()
            let stored = Box<[TokenRecord]>([])
            let (asked, tell) = AsyncStream.makeStream(of: Void.self)
            let (gate, open) = AsyncStream.makeStream(of: Void.self)
            (self.stored, self.asked, self.gate) = (stored, asked, open)
            let pair = TokenPair(
                access: Secret("OLD"), refresh: Secret("OLDREFRESH"), granted: clock.read().wall,
                lifetime: .seconds(1_209_600))
            var renewed = pair
            renewed.access = Secret("NEW")
            let issuer = SlowIssuer(asked: tell, gate: gate, pair: renewed)
            source = RenewingTokens(
                record: TokenRecord(
                    origin: .example, clientID: "gw", credential: .none, pair: pair),
                clock: clock, logger: .quiet,
                save: { record in stored.change { $0.append(record) } },
                issuer: { _ in issuer })
        }
    }

    private struct SlowIssuer: TokenIssuer {
        let asked: AsyncStream<Void>.Continuation
        let gate: AsyncStream<Void>
        let pair: TokenPair

        func refresh(_ token: Secret, clientID: String) async -> GrantOutcome {
            asked.yield()
            for await _ in gate { break }
            return .granted(pair)
        }

        func mint(clientID: String, secret: Secret) async -> GrantOutcome { .granted(pair) }
    }

    /// Whoever asked for a token, such as `destination test`, was to store the new pair, and came too late when the
    /// gateway stopped.
    @Test func aPairThatIsGrantedWhileTheSourceEndsIsStoredWhenItHasEnded() async throws {
        for _ in 0..<20 {
            let renewal = SlowRenewal()
            await renewal.source.refused(try await renewal.source.token())
            let asker = Task { try await renewal.source.token() }
            for await _ in renewal.asked { break }
            async let end: Void = renewal.source.finish()
            renewal.gate.yield()
            await end
            #expect(renewal.stored.now.map(\.pair.access) == [Secret("NEW")])
            _ = await asker.result
            #expect(renewal.stored.now.count == 1)
        }
    }

    /// Somebody who asked after the end wrote the tokens of an erased enrollment, or over those of a new one.
    @Test func aSourceThatHasEndedRenewsAndStoresNothing() async throws {
        let renewal = SlowRenewal()
        await renewal.source.refused(try await renewal.source.token())
        await renewal.source.finish()
        renewal.gate.yield()
        await #expect(throws: TokenFault.self) { try await renewal.source.token() }
        #expect(renewal.stored.now.isEmpty)
    }
}
