import Basics
import Foundation
import Testing

@testable import Uplink

@Suite struct RetryAfterTests {
    private static let now = "Sun, 06 Nov 1994 08:49:37 GMT"

    @Test(
        "a time of day counts from the answer's own",
        arguments: [
            ("Sun, 06 Nov 1994 08:51:37 GMT", 120), ("Sunday, 06-Nov-94 08:51:37 GMT", 120),
            ("Sun Nov  6 08:51:37 1994", 120), ("Mon, 07 Nov 1994 08:49:37 GMT", 86_400),
            ("Sun, 06 Nov 1994 08:49:00 GMT", 0), ("120", 120), ("0", 0),
            ("99999999999999999999", .max),
        ] as [(String, Int64)])
    func understood(value: String, seconds: Int64) {
        #expect(RetryAfter.pause(value, date: Self.now) == .seconds(seconds))
    }

    @Test(
        "nonsense says nothing",
        arguments: [
            "", "soon", "-5", "1.5", "Sun, 06 Nov 1994 25:00:00 GMT",
            "Sun, 00 Nov 1994 08:51:37 GMT", "Sun, 06 Foo 1994 08:51:37 GMT",
            "Sun, 06 Nov 199 8:51:37 GMT", "Sun, 06 Nov 99999999 08:51:37 GMT", "١٢٠",
            String(repeating: "a ", count: 1000),
        ])
    func notUnderstood(value: String) {
        #expect(RetryAfter.pause(value, date: Self.now) == nil)
    }

    @Test func withoutTheAnswersDateATimeOfDayMeansNothing() {
        #expect(RetryAfter.pause(Self.now) == nil)
        #expect(RetryAfter.pause(Self.now, date: "yesterday") == nil)
        #expect(RetryAfter.pause(nil, date: Self.now) == nil)
    }

    @Test func datesAgreeWithFoundationOverTwoCenturies() {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        for number in 0..<500 {
            let seconds = Int64(number) * 12_622_781
            let text = formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
            #expect(HTTPDate.utc(text) == UTC(microseconds: seconds * 1_000_000), "\(text)")
        }
    }

    @Test func theAnswersDateComesThroughTheTransport() async throws {
        let server = try RawServer { connection, _ in
            connection.send(
                "HTTP/1.1 503 Busy\r\nDate: \(Self.now)\r\n"
                    + "Retry-After: Sun, 06 Nov 1994 08:51:37 GMT\r\nContent-Length: 0\r\n\r\n")
        }
        defer { server.stop() }
        let origin = try #require(Origin("http://127.0.0.1:\(server.port)"))
        let answer = try await CurlTransport().send(HTTPRequest(.get, origin, "/"))
        #expect(RetryAfter.pause(answer.retryAfter, date: answer.date) == .seconds(120))
    }
}
