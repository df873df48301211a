import OfflineQueue
import Testing

@testable import Uplink

@Suite struct SecretTests {
    @Test func secretsDoNotPrint() {
        let pair = TokenRenewalTests.record(credential: .invitation(Secret("hush")))
        var dumped = ""
        dump(pair, to: &dumped)
        let printed = "\(pair) \(String(reflecting: pair)) \(dumped)"
        for secret in ["access1", "refresh1", "hush"] { #expect(!printed.contains(secret)) }
    }
}
