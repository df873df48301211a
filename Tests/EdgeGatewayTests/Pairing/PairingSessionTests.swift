import BlueZ
import Testing

@testable import EdgeGateway

@Suite struct PairingSessionTests {
    private let address = "C0:00:00:00:00:01"

    @Test func aCodeGivenBeforehandAnswersTheSensor() async {
        let session = PairingSession()
        await session.begin(passkey: 42, isAttended: false)
        #expect(await session.ask(.enterPasskey) == .passkey(42))
        #expect(await session.ask(.confirmPasskey(42)) == .yes)
        #expect(await session.ask(.confirmPasskey(43)) == .no)
        #expect(await session.end() == nil)
    }

    @Test func aCodeGivenBeforehandIsTriedTwice() async {
        let session = PairingSession()
        await session.begin(passkey: 42, isAttended: false)
        #expect(await session.ask(.enterPasskey) == .passkey(42))
        #expect(await session.ask(.enterPasskey) == .passkey(42))
        #expect(await session.ask(.enterPasskey) == .no)
        #expect(await session.end() == nil, "a person was there")
    }

    @Test func aQuestionWithoutAPersonIsRefusedAndRemembered() async {
        let session = PairingSession()
        await session.begin(passkey: nil, isAttended: false)
        #expect(await session.ask(.enterPasskey) == .no)
        #expect(await session.end() == .nobodyThere)
        #expect(await session.ask(.enterPasskey) == .no, "no pairing goes on")
    }

    @Test func aTechnicianIsShownTheQuestionAndAnswersIt() async {
        let session = PairingSession()
        await session.begin(passkey: nil, isAttended: true)
        let asked = Task { await session.ask(.enterPasskey) }
        while await session.question == nil { await Task.yield() }
        #expect(await session.answer(.passkey(7)))
        #expect(await asked.value == .passkey(7))
        #expect(await session.question == nil)
        #expect(await !session.answer(.passkey(7)), "nothing is asked any more")
    }

    @Test func anOpenQuestionEndsWithThePairing() async {
        let session = PairingSession()
        await session.begin(passkey: nil, isAttended: true)
        let asked = Task { await session.ask(.confirmPasskey(1)) }
        while await session.question == nil { await Task.yield() }
        #expect(await session.end() == .unanswered)
        #expect(await asked.value == .no)
    }

    @Test func aQuestionThatIsAnsweredWithNoIsRemembered() async {
        let session = PairingSession()
        await session.begin(passkey: nil, isAttended: true)
        let asked = Task { await session.ask(.confirmPasskey(1)) }
        while await session.question == nil { await Task.yield() }
        #expect(await session.answer(.no))
        #expect(await asked.value == .no)
        #expect(await session.end() == .declined)
    }

    @Test func anOpenQuestionEndsWhenTheSensorIsPairedAnew() async {
        let sessions = PairingSessions()
        let (earlier, later) = (PairingSession(), PairingSession())
        await earlier.begin(passkey: nil, isAttended: true)
        await sessions.open(earlier, of: address)
        let asked = Task { await earlier.ask(.confirmPasskey(1)) }
        while await earlier.question == nil { await Task.yield() }
        await sessions.open(later, of: address)
        #expect(await asked.value == .no)
        // The later one was taken out when the earlier one ended.
        #expect(await sessions.close(earlier, of: address) == .unanswered)
        #expect(await sessions.session(of: address) === later)
    }

    @Test func whatASensorAsksAfterThePersonHasGoneIsAnsweredWithNo() async {
        let session = PairingSession()
        await session.abandon()
        await session.begin(passkey: 42, isAttended: true)
        #expect(await session.ask(.enterPasskey) == .no)
        #expect(await session.ask(.typePasskey(1)) == .no)
        #expect(await session.isAbandoned)
    }

    @Test func aCodeToTypeIntoTheSensorIsShownAndNotWaitedFor() async {
        let session = PairingSession()
        await session.begin(passkey: nil, isAttended: false)
        #expect(await session.ask(.typePasskey(5)) == .yes)
        #expect(await session.question == .typePasskey(5))
        #expect(await session.end() == .notTyped)
    }
}
