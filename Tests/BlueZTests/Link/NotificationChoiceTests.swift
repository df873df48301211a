import Testing

@testable import BlueZ

@Suite("How notifications are to come")
struct NotificationChoiceTests {
    @Test(
        "auto asks for a socket where BlueZ is known to do it well",
        arguments: [
            ("5.50", false), ("5.66-1+deb12u2", false), ("5.82-1.1", false), ("5.85", false),
            ("5.86", true), ("1:5.87-1~bpo13", true), ("6.0", true), ("5", false), ("", false),
            ("next", false), ("5.x", false), ("99999999999999999999.1", false),
        ])
    func auto(version: String, wantsSocket: Bool) {
        #expect(NotificationChoice.auto.wantsSocket(bluez: version) == wantsSocket)
    }

    @Test("the other choices do not ask for the version, and auto wants to know it")
    func others() {
        #expect(!NotificationChoice.signal.wantsSocket(bluez: "5.99"))
        #expect(NotificationChoice.socket.wantsSocket(bluez: "5.50"))
        #expect(NotificationChoice.socket.wantsSocket(bluez: nil))
        #expect(!NotificationChoice.auto.wantsSocket(bluez: nil))
    }

    @Test("notifications that end while the link is up are asked for again over the same link")
    func subscribesAgain() {
        var fixture = LinkFixture.streaming()
        let attempt = fixture.link.attempt
        #expect(fixture.tell(.notificationsEnded) == [.subscribe(attempt: attempt)])
        #expect(fixture.link.state == .subscribing)
        #expect(fixture.tell(.notificationsEnded) == [])
        fixture.tell(.subscribeFinished(attempt: attempt, nil))
        #expect(fixture.link.isStreaming)
        #expect(fixture.link.attempt == attempt)
        // Without a link there is nothing to ask for.
        fixture.tell(.device(isConnected: false, isResolved: false))
        #expect(fixture.tell(.notificationsEnded) == [])
    }
}
