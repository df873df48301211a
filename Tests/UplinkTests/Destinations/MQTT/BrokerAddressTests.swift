import Testing

@testable import Uplink

@Suite struct BrokerAddressTests {
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
        #expect(BrokerAddress(text).map { "\($0)" } == found)
    }

    @Test func plainTextLeavesThisMachineOnlyWhenThatIsAllowed() throws {
        let near = try #require(BrokerAddress("mqtt://127.0.0.1"))
        let far = try #require(BrokerAddress("mqtt://host.example"))
        let secure = try #require(BrokerAddress("mqtts://host.example"))
        #expect(near.isAllowed(.loopback) && !far.isAllowed(.loopback) && far.isAllowed(.allowed))
        #expect(secure.isAllowed(.never) && !near.isAllowed(.never))
        #expect(try #require(BrokerAddress("mqtt://[::1]")).host == "::1")
    }
}
