import Testing

@testable import Uplink

@Suite struct MQTTReasonTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var packet: MQTTReason.Packet
        var code: Int
        var meaning: AnswerMeaning
        var testDescription: String { "\(packet.rawValue) \(code)" }

        init(_ packet: MQTTReason.Packet, _ code: Int, _ meaning: AnswerMeaning) {
            (self.packet, self.code, self.meaning) = (packet, code, meaning)
        }
    }

    static let rows = [
        Row(.connack, 0, .stored),
        Row(.puback, 0, .stored),
        Row(.puback, 16, .stored),
        Row(.disconnect, 0, .unclear),
        Row(.connack, 128, .unclear),
        Row(.puback, 128, .unclear),
        Row(.disconnect, 130, .unclear),
        Row(.puback, 131, .unclear),
        Row(.connack, 132, .held(.requestRefused)),
        Row(.connack, 133, .held(.requestRefused)),
        Row(.connack, 134, .unauthorized),
        Row(.connack, 135, .unauthorized),
        Row(.puback, 135, .held(.forbidden)),
        Row(.disconnect, 135, .held(.forbidden)),
        Row(.connack, 136, .throttled),
        Row(.connack, 137, .throttled),
        Row(.connack, 138, .held(.forbidden)),
        Row(.disconnect, 139, .unclear),
        Row(.connack, 140, .unauthorized),
        Row(.disconnect, 141, .unclear),
        Row(.disconnect, 142, .held(.nameTaken)),
        Row(.puback, 144, .held(.notFound)),
        Row(.disconnect, 149, .tooLarge),
        Row(.disconnect, 150, .throttled),
        Row(.puback, 151, .held(.planExceeded)),
        Row(.disconnect, 152, .held(.forbidden)),
        Row(.puback, 153, .suspect),
        Row(.connack, 154, .held(.requestRefused)),
        Row(.connack, 155, .held(.requestRefused)),
        Row(.connack, 156, .held(.notFound)),
        Row(.connack, 157, .held(.notFound)),
        Row(.connack, 159, .throttled),
        Row(.disconnect, 255, .unclear),
    ]

    @Test(arguments: rows)
    func aReasonCodeMeansThis(_ row: Row) {
        #expect(MQTTReason(row.packet, row.code).meaning == row.meaning)
    }

    @Test(
        arguments: [
            (1, AnswerMeaning.held(.requestRefused)), (2, .held(.requestRefused)), (3, .throttled),
            (4, .unauthorized), (5, .unauthorized), (6, .unclear), (255, .unclear),
        ])
    func aReturnCodeOfMQTT311MeansThis(code: Int, meaning: AnswerMeaning) {
        #expect(MQTTReason(returnCode: code).meaning == meaning)
    }

    @Test func everyHoldThatTheTableGivesHasWordsForWhatToDo() {
        let reasons = MQTTReason.table.compactMap { row -> HoldReason? in
            if case .held(let reason) = row.meaning { reason } else { nil }
        }
        for reason in Set(reasons + [.credentialsRefused]) {
            #expect(MQTTKind.remedy(reason) != nil, "\(reason)")
        }
    }
}
