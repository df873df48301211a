import Testing

@testable import Uplink

@Suite struct ServerAddressTests {
    @Test(
        arguments: [
            ("mqtt://127.0.0.1", "mqtt://127.0.0.1:1883"),
            ("mqtts://Host.example", "mqtts://host.example:8883"),
            ("MQTT://host:99/", "mqtt://host:99"), ("mqtt://[::1]:7", "mqtt://[::1]:7"),
            ("http://host", nil), ("mqtt://", nil), ("mqtt://host:0", nil),
            ("mqtt://host/path", nil),
            ("mqtt://host?x", nil), ("ws://host", nil), ("host:1883", nil), ("mqtt://a b", nil),
        ] as [(String, String?)])
    func aBrokersAddressIsASchemeAHostAndPerhapsAPort(text: String, found: String?) {
        #expect(ServerAddress(text, .mqtt).map { "\($0)" } == found)
    }

    @Test func plainTextLeavesThisMachineOnlyWhenThatIsAllowed() throws {
        let near = try #require(ServerAddress("mqtt://127.0.0.1", .mqtt))
        let far = try #require(ServerAddress("mqtt://host.example", .mqtt))
        let secure = try #require(ServerAddress("mqtts://host.example", .mqtt))
        #expect(near.isAllowed(.loopback) && !far.isAllowed(.loopback) && far.isAllowed(.allowed))
        #expect(secure.isAllowed(.never) && !near.isAllowed(.never))
        #expect(try #require(ServerAddress("mqtt://[::1]", .mqtt)).host == "::1")
    }

    @Test func serversAreListedWithCommas() {
        let list = ServerAddress.list("tls://a.example, nats://127.0.0.1:4333", .nats)
        #expect(list?.map(\.description) == ["tls://a.example:4222", "nats://127.0.0.1:4333"])
        #expect(list?.map { $0.isAllowed(.loopback) } == [true, true])
        #expect(ServerAddress("nats://a.example", .nats)?.isAllowed(.loopback) == false)
        for text in ["", "a.example", "http://a", "tls://", "tls://u:p@a", "tls://a,,x://b"] {
            #expect(ServerAddress.list(text, .nats) == nil, "\(text)")
        }
    }
}
