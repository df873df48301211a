import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct PostgRESTTests {
    @Test func aRowOfPostgRESTHasMicrosecondsAndNoPatientUnlessAsked() throws {
        let time = UTC(microseconds: 1_763_798_400_123_456)
        let points = [
            KindFixture.point(.heartRate(bpm: 72, at: time)),
            KindFixture.point(.interval(ticks: 1024, end: time)),
        ]
        let kind = try KindFixture.http("postgrest")
        #expect(
            KindFixture.body(kind, points) == """
                [{"id":"00000000-0000-8007-8000-000012d68700","sensor":"3","kind":"heart-rate",\
                "measured_at":"2025-11-22T08:00:00.123456Z","bpm":72},\
                {"id":"00000000-0000-8007-8000-000012d68700","sensor":"3","kind":"rr-interval",\
                "measured_at":"2025-11-22T07:59:59.123456Z","until":"2025-11-22T08:00:00.123456Z",\
                "rr_ms":1000}]
                """)
        let asked = try KindFixture.http("postgrest", ["patient": "id"])
        #expect(KindFixture.body(asked, points).contains(#""patient":"40001""#))
        let request = kind.request([], KindFixture.context)
        #expect(
            request.target
                == "/rest/v1/heart_rate?on_conflict=owner,id"
                + "&columns=id,patient,sensor,kind,measured_at,until,bpm,rr_ms")
        #expect(
            request.headers.contains {
                $0.name == "Prefer" && $0.value.contains("resolution=ignore-duplicates")
            })
        #expect(request.body == Array("[]".utf8))
    }

    // MARK: - Accounts

    @Test func anAccountSignsInAndItsTokensAreSavedBeforeTheyAreUsed() async throws {
        let saved = Box<TokenRecord?>(nil)
        let state = Box((bearer: "", grants: [String]()))
        let transport = ScriptedTransport { request in
            if request.target.contains("/auth/v1/token") {
                let count = state.change { state in
                    state.grants.append(request.target)
                    state.bearer = "access-\(state.grants.count)"
                    return state.grants.count
                }
                return .json(
                    200,
                    #"{"access_token":"access-\#(count)","refresh_token":"r\#(count)","expires_in":3600}"#
                )
            }
            let bearer = request.headers.first { $0.name == "Authorization" }?.value
            if bearer == "Bearer access-2" {
                #expect(saved.now?.pair.access.revealed == "access-2")
            }
            return bearer == "Bearer \(state.now.bearer)"
                ? .success(HTTPAnswer(status: 201, fields: KindFixture.applied))
                : .json(401, KindFixture.code("PGRST303"))
        }
        let kind = try KindFixture.make("postgrest")
        var parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let report = try await kind.probe(parts)
        #expect(report.tokens?.pair.access.revealed == "access-1")
        parts.tokens = report.tokens
        parts.saveTokens = { saved.set($0) }
        let destination = kind.make(parts)
        let point = KindFixture.point(.heartRate(bpm: 72, at: .epoch))
        let stored = DeliveryAnswer.entries([EntryAnswer(.stored)])
        #expect(await destination.deliver([point], alone: false) == stored)
        // The session ends: the refresh token brings the next pair.
        state.change { $0.bearer = "access-2" }
        #expect(await destination.deliver([point], alone: false) == stored)
        #expect(
            state.now.grants == [
                "/auth/v1/token?grant_type=password", "/auth/v1/token?grant_type=refresh_token",
            ])
    }

    /// The second is of older versions: a wrong password was tried for ever.
    @Test(arguments: [
        #"{"code":400,"error_code":"invalid_credentials","msg":"Invalid"}"#,
        #"{"error":"invalid_grant","error_description":"Invalid login credentials"}"#,
    ])
    func anAccountThatIsNotTakenIsHeldAndSaysWhatToDo(answer: String) async throws {
        let transport = ScriptedTransport { _ in .json(400, answer) }
        let parts = DestinationParts(transport: transport, clock: StillClock(), logger: .quiet)
        let kind = try KindFixture.make("postgrest")
        let problem = await #expect(throws: DestinationProblem.self) {
            _ = try await kind.probe(parts)
        }
        #expect(problem?.message == HoldReason.credentialsRefused.meaning)
        let point = KindFixture.point(.heartRate(bpm: 72, at: .epoch))
        guard
            case .held(.credentialsRefused, _) = await kind.make(parts).deliver(
                [point], alone: false)
        else {
            Issue.record("not held")
            return
        }
        #expect(transport.requests.count == 2)
    }
}
