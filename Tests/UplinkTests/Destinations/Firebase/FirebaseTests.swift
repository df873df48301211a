import Basics
import Foundation
import OfflineQueue
import Testing

@testable import Uplink

/// The database's side, as far as a script says; it keeps what it is asked.
private final class ScriptedFirebase: Sendable {
    struct State: Sendable {
        var asked: [String] = []
        var bodies: [String: String] = [:]
        var tokens = 0
        var share = "null"
        /// The beginnings of what is refused, as `PATCH /.json` or `PUT /shares`.
        var refused: Set<String> = []
        var refusesPublic = false
        var shareChanges: [String] = []
        var losesShareAnswer = false
        var status = 200
    }

    let state = Box(State())

    static func token(_ user: String, _ number: Int) -> String {
        let claims = Data(#"{"sub":"\#(user)"}"#.utf8).base64EncodedString()
        return "h\(number).\(claims.replacing("=", with: "")).s"
    }

    func answer(_ request: HTTPRequest) -> HTTPAnswer {
        let body = String(decoding: request.body, as: UTF8.self)
        return state.change { state in
            let path = request.target.prefix { $0 != "?" }
            let asked = "\(request.method.rawValue) \(path)"
            state.asked.append(asked)
            state.bodies[asked] = body
            func document(_ text: String, _ status: Int = 200) -> HTTPAnswer {
                HTTPAnswer(status: status, body: Array(text.utf8))
            }
            if path.contains("/v1/accounts") {
                state.tokens += 1
                let token = Self.token("user1", state.tokens)
                return document(
                    #"{"idToken":"\#(token)","refreshToken":"r","expiresIn":"3600","localId":"user1"}"#
                )
            }
            if path.contains("/v1/token") {
                state.tokens += 1
                let token = Self.token("user1", state.tokens)
                return document(
                    #"{"id_token":"\#(token)","refresh_token":"r2","expires_in":"3600"}"#)
            }
            #expect(request.target.contains("auth=h\(state.tokens)."))
            let isPublic = ["publicStreams", "shares/"].contains {
                body.contains($0) || path.hasPrefix("/\($0)")
            }
            if state.refused.contains(where: { asked.hasPrefix($0) })
                || state.refusesPublic && isPublic
            {
                return document(#"{"error":"Permission denied"}"#, 401)
            }
            if path.hasSuffix("gateway/share.json") { return document(state.share) }
            if let noted = body.range(of: #""users/user1/gateway/share":"#) {
                state.shareChanges.append(body)
                state.share = String(body[noted.upperBound...].dropLast())
                if state.losesShareAnswer { return document("", 502) }
            }
            return document("null", state.status)
        }
    }

    func asked(_ what: String) -> Int { state.change { $0.asked.count { $0.hasPrefix(what) } } }
}

@Suite struct FirebaseTests {
    private static let id = "0123456789abcdef0123456789abcdef"
    private static let time = UTC(microseconds: 1_763_798_400_123_456)

    private static func destination(
        _ firebase: ScriptedFirebase, share: String? = id, at now: UTC = time + .seconds(5)
    ) throws -> any Destination {
        var settings = [
            "url": "https://p.firebaseio.com", "key": "hush", "email": "gw@clinic.example",
            "password": "hush", "share-id": share ?? "",
        ]
        settings["share"] = share == nil ? "no" : "yes"
        let transport = ScriptedTransport { .success(firebase.answer($0)) }
        return try DestinationRegistry.destination("firebase", settings).make(
            DestinationParts(
                transport: transport, clock: StillClock(wall: now), logger: .quiet))
    }

    private static func point(_ bpm: Int, after seconds: Int = 0) -> OutgoingPoint {
        OutgoingPoint(
            DataPoint(
                uuid: SampleIdentity(runNonce: 7, sample: Int64(seconds) + 1).description,
                .heartRate(bpm: bpm, at: time + .seconds(seconds))), patient: "40001", sensorID: 3,
            strap: StrapDatasheet(model: "H10"))
    }

    private static let stored = DeliveryAnswer.entries([EntryAnswer(.stored)])

    @Test func aBatchIsOnePatchOfPrivateAndPublicPaths() async throws {
        let firebase = ScriptedFirebase()
        let destination = try Self.destination(firebase)
        #expect(await destination.deliver([Self.point(72)], alone: false) == Self.stored)
        let uuid = SampleIdentity(runNonce: 7, sample: 1).description
        let digest = FirebaseDocuments.digest(of: uuid)
        let span = #""start":"2025-11-22T08:00:00.123Z","end":"2025-11-22T08:00:00.123Z""#
        let own = "users/user1/heartRate/1763798400123-\(uuid)"
        let whole = #"{"bpm":72,\#(span),"sensor":3,"source":"H10","us":1763798400123456}"#
        let shared = "publicStreams/\(Self.id)/heartRate/1763798400123-\(digest)"
        let part = #"{"bpm":72,\#(span)}"#
        #expect(
            firebase.state.change { $0.bodies["PATCH /.json"] }
                == #"{"\#(own)":\#(whole),"\#(shared)":\#(part)}"#)
        #expect(
            firebase.state.change { $0.bodies["PUT /publicStreams/\(Self.id)/latest.json"] }
                == #"{"bpm":72,"us":1763798400123456}"#)
        #expect(!"\(firebase.state.change { $0.bodies })".contains("40001"))
    }

    @Test func withoutAShareABatchIsAPatchOfTheUsersHistory() async throws {
        let firebase = ScriptedFirebase()
        let destination = try Self.destination(firebase, share: nil)
        #expect(await destination.deliver([Self.point(72)], alone: false) == Self.stored)
        let body = firebase.state.change { $0.bodies["PATCH /users/user1/heartRate.json"] }
        #expect(body?.hasPrefix(#"{"1763798400123-"#) == true)
        #expect(body?.contains("users") == false)
    }

    @Test func theLatestHeartRateIsOfNowAndNeverGoesBack() async throws {
        let firebase = ScriptedFirebase()
        let destination = try Self.destination(firebase, at: Self.time + .seconds(70))
        let latest = "PUT /publicStreams/\(Self.id)/latest.json"
        _ = await destination.deliver([Self.point(70, after: 1)], alone: false)
        #expect(firebase.asked(latest) == 0, "a minute old")
        _ = await destination.deliver(
            [Self.point(71, after: 60), Self.point(72, after: 40)], alone: false)
        #expect(firebase.asked(latest) == 1)
        #expect(firebase.state.change { $0.bodies[latest] }?.contains(#""bpm":71"#) == true)
        _ = await destination.deliver([Self.point(73, after: 50)], alone: false)
        #expect(firebase.asked(latest) == 1, "older than the one before")
    }

    @Test func aShareIsMadeOnceAndNoted() async throws {
        let firebase = ScriptedFirebase()
        for _ in 0..<2 {
            let destination = try Self.destination(firebase)
            for _ in 0..<2 {
                #expect(await destination.deliver([Self.point(72)], alone: false) == Self.stored)
            }
        }
        #expect(
            firebase.state.change { $0.shareChanges } == [
                #"{"shares/\#(Self.id)":"user1","users/user1/gateway/share":"\#(Self.id)"}"#
            ])
    }

    @Test func aLostAnswerToAShareLeavesItMade() async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.losesShareAnswer = true }
        let destination = try Self.destination(firebase)
        for second in 0..<2 {
            #expect(
                await destination.deliver([Self.point(72, after: second)], alone: false)
                    == Self.stored)
        }
        #expect(firebase.state.change { $0.shareChanges.count } == 1)
        #expect(firebase.state.change { $0.bodies["PATCH /.json"] }?.contains(Self.id) == true)
        #expect(await destination.partialFault == nil)
    }

    @Test(arguments: [nil, "ffffffffffffffffffffffffffffffff"])
    func anotherShareOrNoneEndsTheOneBefore(next: String?) async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.share = #""\#(Self.id)""# }
        let destination = try Self.destination(firebase, share: next)
        #expect(await destination.deliver([Self.point(72)], alone: false) == Self.stored)
        let old = #""publicStreams/\#(Self.id)":null,"shares/\#(Self.id)":null,"#
        let new = next.map { #""shares/\#($0)":"user1","# } ?? ""
        let note = next.map { "\"\($0)\"" } ?? "null"
        #expect(
            firebase.state.change { $0.shareChanges } == [
                "{\(old)\(new)\"users/user1/gateway/share\":\(note)}"
            ])
        let batch = next == nil ? "PATCH /users/user1/heartRate.json" : "PATCH /.json"
        let body = try #require(firebase.state.change { $0.bodies[batch] })
        #expect(body.contains("publicStreams") == (next != nil) && !body.contains(Self.id))
    }

    @Test func aShareThatTheRulesRefuseCostsNoSample() async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.refusesPublic = true }
        let destination = try Self.destination(firebase)
        #expect(await destination.deliver([Self.point(72)], alone: false) == Self.stored)
        #expect(await destination.partialFault?.contains("database.rules.json") == true)
        #expect(await destination.fault == nil)
        let before = firebase.asked("PATCH")
        #expect(await destination.deliver([Self.point(73, after: 1)], alone: false) == Self.stored)
        #expect(firebase.asked("PATCH") == before + 1, "not tried with each batch")
    }

    /// Nothing said why nothing was shared, and each batch asked anew.
    @Test(arguments: [(Self.id, "nothing is shared"), (nil, "an old link may still work")])
    func rulesThatDoNotLetTheNoteOfTheShareBeReadAreNamed(share: String?, words: String)
        async throws
    {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.refused = ["GET"] }
        let destination = try Self.destination(firebase, share: share)
        for second in 0..<2 {
            let answer = await destination.deliver([Self.point(72, after: second)], alone: false)
            #expect(answer == Self.stored)
        }
        let fault = await destination.partialFault ?? ""
        #expect(fault.hasPrefix(words) && fault.contains("database.rules.json"), "\(fault)")
        #expect(firebase.asked("GET") == 1)
        #expect(await destination.fault == nil)
    }

    @Test func aLinkThatCannotBeEndedIsSaidToWork() async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change {
            $0.share = #""\#(Self.id)""#
            $0.refusesPublic = true
        }
        let destination = try Self.destination(firebase, share: nil)
        await destination.begin()
        #expect(await destination.partialFault?.hasPrefix("the old link still works") == true)
    }

    @Test func removingEndsTheShare() async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.share = #""\#(Self.id)""# }
        let destination = try Self.destination(firebase)
        #expect(await destination.withdraw(sensors: [], for: nil) == nil)
        let old = #""publicStreams/\#(Self.id)":null,"shares/\#(Self.id)":null,"#
        #expect(
            firebase.state.change { $0.shareChanges } == [
                "{\(old)\"users/user1/gateway/share\":null}"
            ])
    }

    @Test(arguments: [(Self.id, true), (nil, false)])
    func removingSaysThatALinkMayStillWorkWhereThereIsOne(share: String?, isSaid: Bool) async throws
    {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.refused = ["GET /users"] }
        let destination = try Self.destination(firebase, share: share)
        #expect(
            await destination.withdraw(sensors: [], for: nil)?.contains("may still work") ?? false
                == isSaid)
    }

    @Test func aDestinationThatGetsOtherSettingsKeepsItsShare() async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.share = #""\#(Self.id)""# }
        let next = try DestinationRegistry.destination(
            "file", ["path": "/tmp/points.jsonl"])
        let destination = try Self.destination(firebase)
        #expect(await destination.withdraw(sensors: [], for: next) == nil)
        #expect(firebase.state.change { $0.shareChanges } == [])
    }

    @Test func rulesThatRefuseEverythingHoldTheDelivery() async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.refused = ["PATCH"] }
        let destination = try Self.destination(firebase)
        #expect(
            await destination.deliver([Self.point(72)], alone: false)
                == .held(.forbidden, retryAt: nil))
        // With the share, and without.
        #expect(firebase.asked("PATCH") == 2)
        #expect(firebase.state.change { $0.tokens } == 1, "the token is good")
    }

    @Test func rulesThatRefuseAFreshTokenHoldTheDeliveryAndRenewItOnceAtMost() async throws {
        let firebase = ScriptedFirebase()
        firebase.state.change { $0.refused = ["GET", "PATCH"] }
        let destination = try Self.destination(firebase, share: nil)
        #expect(
            await destination.deliver([Self.point(72)], alone: false)
                == .held(.forbidden, retryAt: nil))
        #expect(firebase.state.change { $0.tokens } <= 2)
    }

    @Test(
        arguments: [
            (200, "", AnswerMeaning.stored), (204, "", .stored),
            (
                400,
                #"{"error":"Data to write exceeds the maximum size that can be modified with a single request."}"#,
                .tooLarge
            ),
            (400, #"{"error":"Invalid data; couldn't parse JSON"}"#, .refused),
            (401, #"{"error":"Permission denied"}"#, .held(.forbidden)),
            (401, #"{"error":"Auth token is expired"}"#, .unauthorized),
            (402, "", .held(.planExceeded)), (404, "", .held(.notFound)), (412, "", .unclear),
            (423, "", .held(.planExceeded)), (429, "", .throttled), (500, "", .unclear),
            (503, "", .throttled), (200, "<html>", .unclear), (307, "", .held(.moved)),
            (307, "<html>", .held(.moved)),
            (
                404,
                #"{"correctUrl":"https://p.europe-west1.firebasedatabase.app","error":"region"}"#,
                .held(.moved)
            ),
        ])
    func anAnswerMeansThis(status: Int, body: String, meaning: AnswerMeaning) throws {
        let kind = try #require(try KindFixture.make("firebase") as? FirebaseKind)
        let answer = HTTPAnswer(status: status, body: Array(body.utf8))
        #expect(kind.meaning(of: answer) == meaning)
    }

    @Test(
        arguments: [
            ("ADMIN_ONLY_OPERATION", true), ("INVALID_REFRESH_TOKEN", true),
            ("INVALID_LOGIN_CREDENTIALS", true), ("USER_DISABLED : by an administrator", true),
            ("API key not valid. Please pass a valid API key.", true),
            ("TOO_MANY_ATTEMPTS_TRY_LATER : wait", false), ("QUOTA_EXCEEDED", false), ("", false),
        ])
    func aWordOfAuthenticationIsFinalOrNot(message: String, isFinal: Bool) {
        #expect(FirebaseAccounts.isFinal(message) == isFinal)
    }

    @Test(
        arguments: [
            ("a.b", nil), ("", nil), ("h.!!!.s", nil), ("h.e30.s", nil),
            ("h.eyJzdWIiOiIifQ.s", nil), ("h.eyJzdWIiOiIuLi94In0.s", nil),
            ("h.eyJzdWIiOiJ1c2VyMSJ9.s", "user1"),
        ] as [(String, String?)])
    func aTokenNamesItsUserOrNobody(token: String, user: String?) {
        #expect(FirebaseUser.id(ofToken: Secret(token)) == user)
    }

    /// Firebase's own word on where the database is was thrown away.
    @Test func aDatabaseInAnotherRegionIsNamedWithWhatToSet() async throws {
        let firebase = ScriptedFirebase()
        let transport = ScriptedTransport { request in
            request.target.hasPrefix("/v1/accounts")
                ? .success(firebase.answer(request))
                : .json(
                    404,
                    #"{"correctUrl":"https://p-default-rtdb.europe-west1.firebasedatabase.app","#
                        + #""error":"Database lives in a different region."}"#)
        }
        let destination = try DestinationRegistry.destination(
            "firebase",
            [
                "url": "https://p.firebaseio.com", "key": "hush", "email": "gw@clinic.example",
                "password": "hush",
            ]
        ).make(
            DestinationParts(transport: transport, clock: StillClock(), logger: .quiet))
        #expect(
            await destination.deliver([Self.point(72)], alone: false)
                == .held(.moved, retryAt: nil))
        let place = "https://p-default-rtdb.europe-west1.firebasedatabase.app"
        #expect(await destination.fault?.contains("a redirect to \(place)") == true)
        #expect(await destination.faultAdvice?.contains("url=\(place)") == true)
    }

    @Test func anAnonymousUserWhoIsLostIsHeldAndNotReplaced() async throws {
        let asked = Box<[String]>([])
        let transport = ScriptedTransport { request in
            asked.change { $0.append(String(request.target.prefix { $0 != "?" })) }
            return .success(
                HTTPAnswer(
                    status: 400,
                    body: Array(#"{"error":{"code":400,"message":"INVALID_REFRESH_TOKEN"}}"#.utf8)))
        }
        let clock = StillClock(wall: Self.time)
        let record = TokenRecord(
            origin: try #require(Origin("https://p.firebaseio.com")), clientID: "",
            credential: .none,
            pair: TokenPair(
                access: Secret(ScriptedFirebase.token("user1", 1)), refresh: Secret("r"),
                granted: Self.time - .seconds(7200), lifetime: .seconds(3600)))
        let destination = try DestinationRegistry.destination(
            "firebase",
            [
                "url": "https://p.firebaseio.com", "key": "hush", "anonymous": "yes",
                "share-id": Self.id,
            ]
        ).make(
            DestinationParts(transport: transport, clock: clock, logger: .quiet, tokens: record))
        guard
            case .held(.credentialsRefused, _) = await destination.deliver(
                [Self.point(72)], alone: false)
        else {
            Issue.record("not held")
            return
        }
        #expect(asked.change { $0 }.allSatisfy { $0 == "/v1/token" })
    }
}
