import Foundation
import Testing

@testable import Uplink

@Suite struct PractitionerKeyFileTests {
    static let key = Data("someClient:someSecret+/".utf8).base64EncodedString()

    @Test(
        arguments: [
            ("\(PractitionerKeyFileTests.key)\n", nil),
            (
                #"{"id":7,"label":"gw","created":"2026-11-20T10:00:00Z","name":"n","key":"\#(PractitionerKeyFileTests.key)"}"#,
                nil
            ),
            (
                "exchange=https://exchange.example\nkey=\(PractitionerKeyFileTests.key)\n",
                "https://exchange.example"
            ),
            ("# made by hand\r\nKEY = \"\(PractitionerKeyFileTests.key)\"\r\n", nil),
        ] as [(String, String?)])
    func everyFormIsRead(text: String, exchange: String?) throws {
        let file = try PractitionerKeyFile(text)
        #expect(file.key.revealed == Self.key)
        #expect(file.exchange == exchange)
        #expect(!"\(file)".contains(Self.key))
    }

    @Test(
        arguments: [
            ("", .noKey), ("{}", .noKey), ("{\"key\":7}", .noKey), ("hello", .noKey),
            ("key=", .noKey), ("key=hello", .notAKey), ("{\"key\":\"OnNlY3JldA==\"}", .notAKey),
            (String(repeating: "a", count: PractitionerKeyFile.lengthMax + 1), .tooLong),
        ] as [(String, PractitionerKeyFile.Fault)])
    func whatIsNoneIsRefused(text: String, fault: PractitionerKeyFile.Fault) {
        #expect(throws: fault) { _ = try PractitionerKeyFile(text) }
    }
}
