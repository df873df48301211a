import Foundation
import Testbed
import Testing
import Uplink

/// deploy/firebase/firestore.rules, as the stand-in reads them.
@Suite struct FirestoreRulesTests {
    private static let documents = "projects/p/databases/(default)/documents"

    private struct Server {
        var origin: Origin

        func ask(
            _ method: HTTPRequest.Method, _ target: String, _ body: String = "",
            by token: String? = nil
        )
            async throws -> HTTPAnswer
        {
            let request = HTTPRequest(
                method, origin, target, contentType: body.isEmpty ? nil : "application/json",
                body: Array(body.utf8))
            return try await CurlTransport().send(
                token.map { request.authorized(by: Secret($0)) } ?? request)
        }

        /// The token and identifier of a user.
        func user(_ call: String, _ body: String) async throws -> (token: String, id: String) {
            struct Granted: Decodable { var idToken, localId: String }
            let answer = try await ask(
                .post, "/identitytoolkit.googleapis.com/v1/accounts:\(call)?key=AIza-test", body)
            let granted = try JSONDecoder().decode(Granted.self, from: Data(answer.body))
            return (granted.idToken, granted.localId)
        }

        func commit(_ write: String, by token: String?) async throws -> Int {
            try await ask(
                .post, "/v1/\(documents):commit", #"{"writes":[\#(write)]}"#, by: token
            ).status
        }
    }

    private static func update(_ path: String) -> String {
        #"{"update":{"name":"\#(documents)/\#(path)","fields":{"bpm":{"doubleValue":72}}}}"#
    }

    private static func delete(_ path: String) -> String {
        #"{"delete":"\#(documents)/\#(path)"}"#
    }

    @Test func aUserWritesAndReadsItsOwnDocumentsAndDeletesNone() async throws {
        let system = try await FirestoreSystem.start()
        defer { Task { await system.stop() } }
        let server = Server(origin: try #require(Origin("http://127.0.0.1:\(system.port)")))
        let own = try await server.user(
            "signInWithPassword", #"{"email":"gateway@clinic.example","password":"correct horse"}"#)
        let stranger = try await server.user("signUp", "{}")
        let path = "users/\(own.id)/heartRate/s1-1-a"
        for (token, status) in [(own.token, 200), (stranger.token, 403), (nil, 403)] {
            #expect(try await server.commit(Self.update(path), by: token) == status)
            #expect(
                try await server.ask(.get, "/v1/\(Self.documents)/\(path)", by: token).status
                    == status)
            #expect(
                try await server.ask(
                    .get, "/v1/\(Self.documents)/users/\(own.id)/heartRate", by: token
                ).status == status)
        }
        #expect(try await server.commit(Self.delete(path), by: own.token) == 403)
        let probe = "users/\(own.id)/gateway/probe"
        #expect(try await server.commit(Self.update(probe), by: own.token) == 200)
        #expect(try await server.commit(Self.delete(probe), by: own.token) == 200)
        #expect(try await server.commit(Self.update("public/1"), by: own.token) == 403)
        // All of a commit, or nothing.
        let mixed = Self.update("users/\(own.id)/heartRate/s1-2-b") + "," + Self.update("public/1")
        #expect(try await server.commit(mixed, by: own.token) == 403)
        let left = try await server.ask(
            .get, "/v1/\(Self.documents)/users/\(own.id)/heartRate", by: own.token)
        let text = String(decoding: left.body, as: UTF8.self)
        #expect(text.contains("s1-1-a") && !text.contains("s1-2-b"))
    }
}
