import Foundation
import Synchronization
import Testing

@testable import Uplink

@Suite struct CurlTransportTests {
    private static let ok =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

    private static func origin(_ server: RawServer, _ host: String = "127.0.0.1") throws -> Origin {
        try #require(Origin("http://\(host):\(server.port)"))
    }

    private static func fault(
        _ settings: CurlSettings = CurlSettings(), _ request: HTTPRequest
    ) async -> TransportFault? {
        do {
            _ = try await CurlTransport(settings).send(request)
            return nil
        } catch {
            return error
        }
    }

    @Test func aPostIsSentWithItsLengthAndNeverChunkedOrExpecting() async throws {
        let server = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        let body = Array(String(repeating: "x", count: 200_000).utf8)
        let request = HTTPRequest(
            .post, try Self.origin(server), "/FHIR/R5/", contentType: "application/json",
            body: body)
        let answer = try await CurlTransport().send(request.authorized(by: Secret("TOKEN")))
        #expect(answer.status == 200)
        #expect(answer.body == Array("{}".utf8))
        #expect(answer.isJSON)

        let seen = try #require(server.requests.first)
        #expect(seen.hasPrefix("POST /FHIR/R5/ HTTP/1.1\r\n"))
        #expect(seen.contains("\r\nContent-Length: 200000\r\n"))
        #expect(seen.contains("\r\nContent-Type: application/json\r\n"))
        #expect(seen.contains("\r\nAccept: application/json\r\n"))
        #expect(seen.contains("\r\nAuthorization: Bearer TOKEN\r\n"))
        for absent in ["Transfer-Encoding", "Expect", "Accept-Encoding", "Content-Encoding"] {
            #expect(!seen.contains(absent))
        }
        #expect(seen.hasSuffix("\r\n\r\n" + String(repeating: "x", count: 200_000)))
    }

    @Test func aRequestInTimeIsSentAsAnyOther() async throws {
        let server = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        for length in [0, 1, 2, 200_000] {
            let asked = Atomic(0)
            var request = HTTPRequest(
                .post, try Self.origin(server), "/FHIR/R5/", contentType: "application/json",
                body: Array(String(repeating: "x", count: length).utf8))
            request.isInTime = {
                asked.add(1, ordering: .relaxed)
                return true
            }
            #expect(try await CurlTransport().send(request).status == 200)
            let seen = try #require(server.requests.last)
            #expect(seen.contains("\r\nContent-Length: \(length)\r\n"))
            #expect(seen.hasSuffix("\r\n\r\n" + String(repeating: "x", count: length)))
            for absent in ["Transfer-Encoding", "Expect:"] { #expect(!seen.contains(absent)) }
            #expect(asked.load(ordering: .relaxed) == (length == 0 ? 1 : 2))
        }
    }

    @Test(arguments: [1, 5, 200_000])
    func aRequestThatIsTooLateOnTheWayLacksItsLastByte(length: Int) async throws {
        let server = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        let asked = Atomic(0)
        var request = HTTPRequest(
            .post, try Self.origin(server), "/FHIR/R5/", contentType: "application/json",
            body: Array(String(repeating: "x", count: length).utf8))
        // In time when it begins; the connection takes too long.
        request.isInTime = { asked.add(1, ordering: .relaxed).oldValue == 0 }
        let transport = CurlTransport()
        await #expect(throws: TransportFault.tooLate) { _ = try await transport.send(request) }
        request.isInTime = { false }
        await #expect(throws: TransportFault.tooLate) { _ = try await transport.send(request) }
        // Nothing of it is left over for the next one.
        request.isInTime = nil
        #expect(try await transport.send(request).status == 200)
        let bodies = server.requests.map { $0.utf8.count { $0 == 0x78 } }
        #expect(bodies.count == 2 && bodies.last == length, "the one too late did not connect")
        #expect(bodies.first.map { $0 < length } == true)
        #expect(TransportFault.tooLate.certainlyNotSent)
    }

    @Test func requestsThatKeepTheConnectionShareItAndOthersHaveTheirOwn() async throws {
        let server = try RawServer { connection, _ in
            connection.send(Self.ok)
            while !connection.nextRequest().isEmpty { connection.send(Self.ok) }
        }
        defer { server.stop() }
        let transport = CurlTransport()
        for method in [.post, .put, .get, .patch, .post] as [HTTPRequest.Method] {
            var request = HTTPRequest(
                method, try Self.origin(server), "/", contentType: "application/json",
                body: method == .get ? [] : Array(repeating: 0x78, count: 100_000))
            request.keepsConnection = true
            #expect(try await transport.send(request).status == 200)
        }
        #expect(server.requests.count == 1, "one connection")
        // It is held open by the kept one, and this server takes one at a time.
        let other = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { other.stop() }
        for _ in 0..<2 {
            _ = try await transport.send(HTTPRequest(.get, try Self.origin(other), "/"))
        }
        #expect(other.requests.count == 2)
    }

    /// libcurl sends a request again by itself if a kept connection ends without an answer.
    @Test(arguments: [1, 200, 200_000])
    func aKeptConnectionThatEndsWithoutAnAnswerIsACutAndNothingIsSentTwice(
        length: Int
    ) async throws {
        let bodies = Mutex<[Int]>([])
        let server = try RawServer { connection, first in
            func note(_ request: String) {
                let count = request.utf8.count { $0 == 0x78 }
                if count > 0 { bodies.withLock { $0.append(count) } }
            }
            note(first)
            connection.send(Self.ok)
            note(connection.nextRequest())
        }
        defer { server.stop() }
        let transport = CurlTransport()
        var request = HTTPRequest(
            .post, try Self.origin(server), "/", body: Array(repeating: 0x78, count: length))
        request.keepsConnection = true
        #expect(try await transport.send(request).status == 200)
        let fault = await #expect(throws: TransportFault.self) {
            _ = try await transport.send(request)
        }
        #expect(fault == .cut && fault?.certainlyNotSent == false)
        #expect(bodies.withLock { $0 } == [length, length])
        // The next one has a connection of its own, and all of its body.
        #expect(try await transport.send(request).status == 200)
        #expect(bodies.withLock { $0 } == [length, length, length])
    }

    /// The server ends the connection while nothing is under way, as servers do after some time.
    @Test func aKeptConnectionThatTheServerHasEndedIsReplaced() async throws {
        let server = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        let transport = CurlTransport()
        for count in 1...20 {
            var request = HTTPRequest(
                .post, try Self.origin(server), "/", body: Array(repeating: 0x78, count: 200))
            request.keepsConnection = true
            do {
                #expect(try await transport.send(request).status == 200)
            } catch {
                // The end and the request met on their way.
                #expect(error == .cut || error.certainlyNotSent, "\(count): \(error)")
            }
        }
        #expect(server.requests.allSatisfy { $0.utf8.count { $0 == 0x78 } == 200 || $0.isEmpty })
    }

    @Test func anEmptyPostHasALengthAndNoContentType() async throws {
        let server = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        _ = try await CurlTransport().send(HTTPRequest(.post, try Self.origin(server), "/x"))
        let seen = try #require(server.requests.first)
        #expect(seen.contains("\r\nContent-Length: 0\r\n"))
        #expect(!seen.contains("Content-Type"))
    }

    @Test func aGetAfterAPostIsAGet() async throws {
        let server = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        let transport = CurlTransport()
        let origin = try Self.origin(server)
        for method in [.post, .get, .put, .delete, .get] as [HTTPRequest.Method] {
            _ = try await transport.send(
                HTTPRequest(method, origin, "/", contentType: nil, body: []))
        }
        #expect(
            server.requests.map { $0.prefix { $0 != " " } } == [
                "POST", "GET", "PUT", "DELETE", "GET",
            ])
    }

    @Test func manyRequestsAtOnceTakeTurns() async throws {
        let server = try RawServer { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        let transport = CurlTransport()
        let origin = try Self.origin(server)
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<20 {
                group.addTask {
                    try await transport.send(HTTPRequest(.get, origin, "/\(number)")).status
                }
            }
            for try await status in group { #expect(status == 200) }
        }
        #expect(server.requests.count == 20)
    }

    @Test func aConnectionThatBreaksInTheBodyIsACutAndIsNotTriedAgain() async throws {
        for bytes in [
            "", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            "\u{1}\u{2}garbage\r\n\r\n",
        ] {
            let server = try RawServer { connection, _ in connection.send(bytes) }
            defer { server.stop() }
            let fault = await Self.fault(
                HTTPRequest(.post, try Self.origin(server), "/", body: [0x7B, 0x7D]))
            #expect(fault == .cut, "\(bytes.debugDescription)")
            #expect(server.requests.count == 1)
        }
    }

    private static func fault(_ request: HTTPRequest) async -> TransportFault? {
        await fault(CurlSettings(), request)
    }

    @Test func aBodyBeyondTheCapIsNotRead() async throws {
        let server = try RawServer { connection, _ in
            connection.send("HTTP/1.1 500 Oops\r\nContent-Length: 50000000\r\n\r\n")
            for _ in 0..<50 { connection.send([UInt8](repeating: 0x20, count: 1_000_000)) }
        }
        defer { server.stop() }
        var settings = CurlSettings()
        settings.answerBytesMax = 100_000
        let fault = await Self.fault(settings, HTTPRequest(.get, try Self.origin(server), "/"))
        #expect(fault == .bodyTooLarge)
    }

    @Test func aServerThatNeverAnswersIsATimeout() async throws {
        let server = try RawServer { connection, _ in connection.waitForClose() }
        defer { server.stop() }
        var settings = CurlSettings()
        settings.totalTimeout = .milliseconds(200)
        let fault = await Self.fault(settings, HTTPRequest(.get, try Self.origin(server), "/"))
        #expect(fault == .timeout)
    }

    @Test func cancellingTheTaskBreaksOffTheTransfer() async throws {
        let server = try RawServer { connection, _ in connection.waitForClose() }
        defer { server.stop() }
        let origin = try Self.origin(server)
        let task = Task { await Self.fault(HTTPRequest(.get, origin, "/")) }
        while server.requests.isEmpty { await Task.yield() }
        task.cancel()
        #expect(await task.value == .cancelled)
    }

    @Test func withoutAServerThereIsNoConnectionAndNothingWasSent() async throws {
        let server = try RawServer { _, _ in }
        let origin = try Self.origin(server)
        server.stop()
        var fault: TransportFault?
        // The listener closes a moment after it was told to.
        while fault != .connect { fault = await Self.fault(HTTPRequest(.get, origin, "/")) }
        #expect(fault?.certainlyNotSent == true)
    }

    @Test func aNameWithoutAnAddressIsADNSFault() async throws {
        let origin = try #require(Origin("https://no-such-host.invalid"))
        #expect(await Self.fault(HTTPRequest(.get, origin, "/")) == .dns)
    }

    @Test func plainHTTPIsForLoopbackOnlyUnlessAllowed() async throws {
        let far = try #require(Origin("http://no-such-host.invalid"))
        #expect(await Self.fault(HTTPRequest(.get, far, "/")) == .plainHTTPRefused)
        var settings = CurlSettings()
        settings.plainHTTP = .allowed
        #expect(await Self.fault(settings, HTTPRequest(.get, far, "/")) == .dns)
        settings.plainHTTP = .never
        let near = try #require(Origin("http://127.0.0.1:9"))
        #expect(await Self.fault(settings, HTTPRequest(.get, near, "/")) == .plainHTTPRefused)
    }

    @Test func aRedirectIsAnAnswerAndNotFollowed() async throws {
        let server = try RawServer { connection, _ in
            connection.send(
                "HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        }
        defer { server.stop() }
        let answer = try await CurlTransport().send(
            HTTPRequest(.post, try Self.origin(server), "/o/token"))
        #expect(answer.status == 301)
        #expect(server.requests.count == 1)
    }

    @Test func headersOfInterimAnswersDoNotCount() async throws {
        let server = try RawServer { connection, _ in
            connection.send(
                "HTTP/1.1 103 Early\r\nRetry-After: 9\r\n\r\n"
                    + "HTTP/1.1 429 Slow\r\nRETRY-AFTER:  120 \r\nContent-Length: 0\r\n\r\n")
        }
        defer { server.stop() }
        let answer = try await CurlTransport().send(HTTPRequest(.get, try Self.origin(server), "/"))
        #expect(answer.status == 429)
        #expect(answer.retryAfter == "120")
        #expect(answer.contentType == nil)
    }

    @Test func nothingCanBreakOutOfItsHeaderLine() async throws {
        let origin = try #require(Origin("http://127.0.0.1:9"))
        var injected = HTTPRequest(.get, origin, "/")
        injected.headers = [("X", "a\r\nY: b")]
        var named = HTTPRequest(.get, origin, "/")
        named.headers = [("X: y", "a")]
        for request in [
            injected, named, HTTPRequest(.get, origin, "/a b"), HTTPRequest(.get, origin, "x"),
            HTTPRequest(.get, origin, "/\r\n"), HTTPRequest(.get, origin, "/", contentType: "a\nb"),
        ] {
            #expect(await Self.fault(request) == .malformedRequest)
        }
    }

    @Test func aUnixSocketTakesPlainHTTPFromAnyHost() async throws {
        let scratch = try Scratch()
        let path = scratch.path + "/control.sock"
        let server = try RawServer(unixPath: path) { connection, _ in connection.send(Self.ok) }
        defer { server.stop() }
        var settings = CurlSettings()
        settings.unixSocketPath = path
        let origin = try #require(Origin("http://edge-gateway"))
        let answer = try await CurlTransport(settings).send(HTTPRequest(.get, origin, "/v1/status"))
        #expect(answer.status == 200)
        settings.unixSocketPath = scratch.path + "/absent.sock"
        #expect(await Self.fault(settings, HTTPRequest(.get, origin, "/")) == .connect)
    }

    @Test func faultsSayNothingOfAddressOrToken() async throws {
        let origin = try #require(Origin("https://secret-host.invalid"))
        let request = HTTPRequest(.get, origin, "/secret-path").authorized(by: Secret("secret"))
        let fault = try #require(await Self.fault(request))
        #expect(!"\(fault)".contains("secret"))
        #expect(!"\(String(reflecting: fault))".contains("secret"))
    }
}
