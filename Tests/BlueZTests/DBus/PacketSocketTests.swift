import Basics
import Foundation
import Testing

@testable import BlueZ

#if canImport(Glibc)
    import Glibc
#endif

/// A service hands out one end of a socket; the client listens to it beside the bus.
@Suite("Sockets beside the bus, against a real dbus-daemon", .timeLimit(.minutes(10)))
struct PacketSocketTests {
    private static let path = "/char"
    let bus: TestBus
    let service: DBusConnection
    let client: DBusConnection

    init() async throws {
        bus = try TestBus()
        service = try await bus.open()
        client = try await bus.open()
        try await client.addMatch("type='signal',interface='test.Signals'")
    }

    /// Two ends of a socket, or of a pipe.
    private func pair(isPipe: Bool = false) throws -> (ours: Int32, theirs: DBusDescriptor) {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        try #require((isPipe ? pipe(&ends) : socketpair(AF_UNIX, kind, 0, &ends)) == 0)
        return (ends[1], try #require(DBusDescriptor(owning: ends[0])))
    }

    /// What the service answers with, as it arrives.
    private func answer(with value: DBusValue) async throws -> DBusValue {
        let task = try await serve(service, name: "test.Sockets") { .reply(to: $0, body: [value]) }
        defer { task.cancel() }
        let body = try await client.call(
            destination: "test.Sockets", path: "/", interface: "test.Sockets", member: "Acquire",
            deadline: .seconds(10))
        return try #require(body.first)
    }

    private func write(_ bytes: [UInt8], to end: Int32) -> Bool {
        send(end, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }

    /// What comes until something of a kind has come.
    private func news(until last: (DBusMessage) -> Bool) async -> [DBusMessage] {
        var news: [DBusMessage] = []
        for await batch in client.incoming() {
            // Without the bus's own word that the connection has a name.
            news += batch.filter { $0.sender != "org.freedesktop.DBus" }
            if batch.contains(where: last) { break }
        }
        return news
    }

    @Test("packets come once, in order, empty ones too, and the end after all of them")
    func packets() async throws {
        let (ours, theirs) = try pair()
        let value = try await answer(with: .unixFD(theirs))
        let number = try client.listen(to: value, as: Self.path)
        let sent: [[UInt8]] = [[0, 60], [], [0, 61], [], Array(repeating: 7, count: 512)]
        for bytes in sent { #expect(write(bytes, to: ours)) }
        close(ours)
        let news = await news { $0.news == .end }
        #expect(news.compactMap { $0.body.first?.byteArray } == sent)
        #expect(news.last?.news == .end)
        #expect(news.allSatisfy { $0.serial == number && $0.path == Self.path })
        #expect(zip(news, news.dropFirst()).allSatisfy { $0.arrivedAt <= $1.arrivedAt })
    }

    @Test("what was in a socket before a signal was sent comes before the signal")
    func order() async throws {
        let (ours, theirs) = try pair()
        _ = try client.listen(to: try await answer(with: .unixFD(theirs)), as: Self.path)
        let rounds = 300
        for round in 0..<rounds {
            #expect(write([UInt8(round & 0xff)], to: ours))
            service.send(.signal(path: "/s", interface: "test.Signals", member: "After"))
            // Now and then it has to wake up for each.
            if round % 10 == 0 { try await Task.sleep(for: .milliseconds(2)) }
        }
        var signals = 0
        var packets = 0
        loop: for await batch in client.incoming() {
            for message in batch {
                if message.news == .packet { packets += 1 }
                guard message.member == "After" else { continue }
                signals += 1
                #expect(packets >= signals)
                if signals == rounds { break loop }
            }
        }
        close(ours)
    }

    @Test("what is no socket of packets is refused by name")
    func badSockets() async throws {
        let (pipeEnd, pipe) = try pair(isPipe: true)
        for value in [.unixFD(pipe), .uint32(3), .unixFD(nil)] as [DBusValue] {
            do throws(DBusFault) {
                _ = try client.listen(to: value, as: Self.path)
                Issue.record("\(value) was taken")
            } catch {
                #expect(error.name == DBusFault.badSocket)
            }
        }
        close(pipeEnd)
    }

    @Test("a packet that no notification can be ends the socket, and only that")
    func tooLong() async throws {
        let (ours, theirs) = try pair()
        _ = try client.listen(to: .unixFD(theirs), as: Self.path)
        #expect(write([0, 60], to: ours))
        #expect(write(Array(repeating: 0, count: 513), to: ours))
        let news = await news { $0.news == .end }
        #expect(news.map(\.news) == [.packet, .end])
        _ = try await client.callBus("GetId", [])
        close(ours)
    }

    @Test("a socket that was full is reported once, with all that it held")
    func full() async throws {
        let (ours, theirs) = try pair()
        var held = 0
        while write([0, UInt8(held & 0xff), 0, 0], to: ours) { held += 1 }
        _ = try client.listen(to: .unixFD(theirs), as: Self.path)
        let news = await news { $0.news == .full }
        #expect(news.count { $0.news == .packet } == held)
        #expect(news.count { $0.news == .full } == 1)
        close(ours)
    }

    @Test("a socket that is let go is closed, after what it had told")
    func letGo() async throws {
        let (ours, theirs) = try pair()
        let number = try client.listen(to: .unixFD(theirs), as: Self.path)
        #expect(write([0, 60], to: ours))
        client.letGo(of: number)
        client.letGo(of: number)
        let news = await news { $0.news == .end }
        #expect(news.map(\.news) == [.packet, .end])
        withExtendedLifetime(theirs) {}
        close(ours)
    }

    @Test("nothing of a socket is left open when it is refused, or when the connection ends")
    func noLeaks() async throws {
        func isGone(_ end: Int32) -> Bool {
            var polled = pollfd(fd: end, events: 0, revents: 0)
            return poll(&polled, 1, 10_000) == 1
        }
        // Nobody listens to it.
        var (ours, theirs): (Int32, DBusDescriptor?) = try pair()
        var value: DBusValue? = try await answer(with: .unixFD(theirs))
        #expect(value?.signature == "h")
        (theirs, value) = (nil, nil)
        service.close()
        #expect(isGone(ours))
        close(ours)
        // The connection ends.
        let pair = try pair()
        (ours, theirs) = (pair.ours, pair.theirs)
        _ = try client.listen(to: .unixFD(theirs), as: Self.path)
        client.close()
        for await _ in client.incoming() {}
        theirs = nil
    }

    @Test("descriptors in messages that nobody asked for are not taken over")
    func strangers() async throws {
        let (ours, theirs) = try pair()
        service.send(
            .signal(
                path: "/s", interface: "test.Signals", member: "Gift", body: [.unixFD(theirs)]))
        let news = await news { $0.member == "Gift" }
        #expect(news.last?.body == [.unixFD(nil)])
        close(ours)
    }
}
