import Testing

@testable import Uplink

@Suite struct MQTTSessionTests {
    private static func session(_ count: Int) -> MQTTSession {
        var session = MQTTSession()
        session.note(.answered(code: 0))
        session.begin(count: count)
        for index in 0..<count { session.send(index, id: Int32(index + 1)) }
        return session
    }

    @Test func aRoundIsSettledWhenEveryMessageIsAnswered() {
        var session = Self.session(2)
        session.note(.acknowledged(id: 2, code: 0))
        #expect(!session.isSettled && session.codes == [nil, 0])
        session.note(.acknowledged(id: 1, code: 16))
        #expect(session.isSettled && session.codes == [16, 0])
    }

    @Test func answersToOtherMessagesChangeNothing() {
        var session = Self.session(2)
        session.note(.acknowledged(id: 9, code: 0))
        session.note(.acknowledged(id: 1, code: 0))
        session.note(.acknowledged(id: 1, code: 135))
        #expect(session.codes == [0, nil] && !session.isSettled)
    }

    @Test func theFirstWordAboutTheEndCounts() {
        var session = Self.session(1)
        session.note(.dismissed(code: 142))
        session.note(.failed(.cut))
        session.note(.acknowledged(id: 1, code: 0))
        #expect(session.end == .refused(MQTTReason(.disconnect, 142)) && session.codes == [nil])
    }

    @Test func theDeliveryLearnsWhatARoundCameTo() {
        func answer(
            _ codes: [Int?], _ end: MQTTSession.End? = nil, wasSent: Bool = true,
            isAlone: Bool = false
        ) -> DeliveryAnswer {
            MQTTOutcome(codes: codes, wasSent: wasSent, end: end)
                .answer(count: codes.count, isAlone: isAlone)
        }
        let stored = EntryAnswer(.stored)
        #expect(answer([0, 16]) == .entries([stored, stored]))
        #expect(answer([0, 135]) == .held(.forbidden, retryAt: nil))
        #expect(answer([0, 153]) == .malformed)
        #expect(
            answer([153], isAlone: true)
                == .entries([EntryAnswer(.unclear, status: 153, diagnostics: "PUBACK 153")]))
        #expect(answer([149, 149]) == .tooLarge)
        #expect(answer([131, nil]) == .unclear("PUBACK 131"))
        #expect(answer([0, nil], .fault(.cut)) == .unanswered("\(TransportFault.cut)"))
        #expect(answer([nil], .fault(.connect), wasSent: false) == .notSent(retryAt: nil))
        #expect(
            answer([nil], .refused(MQTTReason(.disconnect, 150))) == .throttled(retryAfter: nil))
    }
}
