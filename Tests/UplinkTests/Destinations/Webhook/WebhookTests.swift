import Basics
import OfflineQueue
import Testing

@testable import Uplink

@Suite struct WebhookTests {
    @Test func theSignatureOfAWebhookIsThatOfTheStandard() throws {
        // The example of the Standard Webhooks specification's libraries.
        let key = try #require(WebhookKey(Secret(KindFixture.secret)))
        let signature = key.signature(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", seconds: 1_614_265_330,
            Array(#"{"test": 2432232314}"#.utf8))
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    /// The last slash was cut off, and an address with a key was refused.
    @Test(
        "a receiver's address is used to the letter",
        arguments: [
            ("https://h.example/hooks/hr/", "/hooks/hr/"),
            ("https://h.example/api/hr?code=KEY", "/api/hr?code=KEY"),
            ("https://h.example?code=KEY", "/?code=KEY"), ("https://h.example", "/"),
        ])
    func address(url: String, target: String) throws {
        let kind = try KindFixture.http("webhook", ["url": url])
        #expect(kind.request([], KindFixture.context).target == target)
        #expect(!kind.place.contains("KEY") && !kind.example.contains("KEY"))
    }

    /// Flask, Express and PHP say `text/html` of any text: what such a receiver had stored was sent again.
    @Test func anAnswerThatIsNoPageIsTakenWhateverItsType() throws {
        let kind = try KindFixture.http("webhook")
        func meaning(_ body: String) -> AnswerMeaning {
            kind.meaning(
                of: HTTPAnswer(status: 200, contentType: "text/html", body: Array(body.utf8)))
        }
        #expect(meaning("OK") == .stored && meaning("") == .stored)
        #expect(meaning("\n<!DOCTYPE html><title>Sign in</title>") == .unclear)
    }

    @Test func aBatchThatIsSentAgainHasTheSameWebhookID() throws {
        let kind = try KindFixture.http("webhook")
        let points = [KindFixture.point(.heartRate(bpm: 72, at: .epoch))]
        // Of as many, and with the same first one.
        let others = [KindFixture.point(.heartRate(bpm: 73, at: .epoch))]
        let first = kind.request(points, KindFixture.context)
        let again = kind.request(points, RequestContext(seconds: KindFixture.context.seconds + 30))
        let id = { (request: HTTPRequest) in
            request.headers.first { $0.name == "webhook-id" }?.value
        }
        #expect(id(first) == id(again) && id(first)?.hasPrefix(points[0].point.uuid) == true)
        #expect(id(first) != id(kind.request(others, KindFixture.context)))
        #expect(first.body == again.body)
    }
}
