import Testing
import Uplink

@Suite struct OriginTests {
    @Test(
        "hosts that are this machine",
        arguments: [
            ("http://localhost", true), ("http://127.0.0.1:1", true), ("http://127.9.9.9", true),
            ("http://[::1]:80", true), ("http://127.0.0.1.evil.org", false),
            ("http://128.0.0.1", false), ("http://localhost.evil.org", false),
            ("http://127.0.0.256", false), ("http://[::2]", false),
        ])
    func loopback(text: String, isLoopback: Bool) {
        #expect(Origin(text)?.isLoopback == isLoopback)
    }

    @Test(
        "what is no origin",
        arguments: [
            "", "jhe.org", "ftp://jhe.org", "https://", "https://user@jhe.org", "https://jhe.org:0",
            "https://jhe.org:65536", "https://jhe.org:8x", "https://jhe org", "https://-x",
            "https://[zz]", "https://jhe.org:",
        ])
    func none(text: String) {
        #expect(Origin(text) == nil)
    }

    @Test func anOriginLeavesOutPathAndCase() {
        #expect(Origin("HTTPS://JHE.Org:8443/a?b#c")?.description == "https://jhe.org:8443")
    }
}
