import Foundation
import Testing

@testable import Uplink

extension RawServer.Connection {
    /// Passes bytes both ways between this connection and a port of 127.0.0.1 until one side closes.
    fileprivate func tunnel(to port: UInt16) {
        let other = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(other) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(other, $0, length) == 0
            }
        }
        guard isConnected else { return }
        send("HTTP/1.1 200 Connection established\r\n\r\n")
        var chunk = [UInt8](repeating: 0, count: 1 << 14)
        while true {
            var polls = [descriptor, other].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            guard poll(&polls, 2, 10_000) > 0 else { return }
            for (index, target) in [other, descriptor].enumerated() where polls[index].revents != 0
            {
                let count = recv(polls[index].fd, &chunk, chunk.count, 0)
                guard count > 0 else { return }
                RawServer.Connection(descriptor: target).send(Array(chunk[..<count]))
            }
        }
    }
}

/// Requests to a host elsewhere, through a proxy on loopback.
@Suite(.serialized, .enabled(if: FileManager.default.isExecutableFile(atPath: TLSServer.openSSL)))
struct ProxyTests {
    private static func get(
        proxyPort: UInt16, authorityFile: String? = nil, host: String = "elsewhere.example"
    ) async throws -> Result<HTTPAnswer, TransportFault> {
        var settings = CurlSettings()
        settings.proxy = "http://127.0.0.1:\(proxyPort)"
        settings.authorityFile = authorityFile
        settings.connectTimeout = .seconds(5)
        let origin = try #require(Origin("https://\(host)"))
        let request = HTTPRequest(.get, origin, "/secret-path")
            .authorized(by: Secret("secret-token"))
        do {
            return .success(try await CurlTransport(settings).send(request))
        } catch {
            return .failure(error)
        }
    }

    @Test func theServerBehindAProxyIsReachedAndTheProxyLearnsNothingButItsName() async throws {
        let server = try await TLSServer(.otherHost)
        defer { server.stop() }
        let proxy = try RawServer { connection, _ in connection.tunnel(to: server.port) }
        defer { proxy.stop() }
        let answer = try await Self.get(
            proxyPort: proxy.port, authorityFile: server.authorityFile)
        #expect(try answer.get().status == 200)
        let asked = try #require(proxy.requests.first)
        #expect(asked.hasPrefix("CONNECT elsewhere.example:443 HTTP/1.1\r\n"))
        #expect(!asked.contains("secret"))
    }

    @Test func theServersCertificateIsCheckedBehindAProxyAsWell() async throws {
        let server = try await TLSServer(.otherHost)
        defer { server.stop() }
        let proxy = try RawServer { connection, _ in connection.tunnel(to: server.port) }
        defer { proxy.stop() }
        #expect(try await Self.get(proxyPort: proxy.port) == .failure(.tls(.unknownIssuer)))
        #expect(
            try await Self.get(
                proxyPort: proxy.port, authorityFile: server.authorityFile,
                host: "another.example") == .failure(.tls(.wrongHost)))
    }

    @Test("a proxy that refuses is named, and nothing was sent", arguments: [403, 407, 502, 503])
    func refusal(status: Int) async throws {
        let proxy = try RawServer { connection, _ in
            connection.send("HTTP/1.1 \(status) No\r\nContent-Length: 0\r\n\r\n")
        }
        defer { proxy.stop() }
        #expect(try await Self.get(proxyPort: proxy.port) == .failure(.proxy))
        #expect(proxy.requests.count == 1)
    }

    @Test func aProxyThatHangsUpHasPassedNothingOn() async throws {
        for words in ["", "HTTP/1.1 200 OK\r\n\r\n"] {
            let proxy = try RawServer { connection, _ in connection.send(words) }
            defer { proxy.stop() }
            guard case .failure(let fault) = try await Self.get(proxyPort: proxy.port) else {
                Issue.record("no server answered")
                continue
            }
            #expect(fault.certainlyNotSent, "\(fault)")
        }
    }

    @Test func thisMachineIsReachedWithoutTheProxy() async throws {
        let proxy = try RawServer { connection, _ in connection.send("HTTP/1.1 502 No\r\n\r\n") }
        defer { proxy.stop() }
        let server = try RawServer { connection, _ in
            connection.send("HTTP/1.1 204 No content\r\n\r\n")
        }
        defer { server.stop() }
        var settings = CurlSettings()
        settings.proxy = "http://127.0.0.1:\(proxy.port)"
        let origin = try #require(Origin("http://127.0.0.1:\(server.port)"))
        let answer = try await CurlTransport(settings).send(HTTPRequest(.get, origin, "/"))
        #expect(answer.status == 204 && proxy.requests.isEmpty)
    }
}
