import BlueZ
import Testing

@testable import EdgeGateway

@Suite struct PairingSessionTests {
    private let address = "C0:00:00:00:00:01"

    @Test func aCodeGivenBeforehandAnswersTheSensor() async {
        let session = PairingSession()
        await session.open(address, passkey: 42, isAttended: false)
        #expect(await session.ask(.enterPasskey, of: address) == .passkey(42))
        #expect(await session.ask(.confirmPasskey(42), of: address) == .yes)
        #expect(await session.ask(.confirmPasskey(43), of: address) == .no)
        #expect(await session.close(address) == nil)
    }

    @Test func aCodeGivenBeforehandIsTriedTwice() async {
        let session = PairingSession()
        await session.open(address, passkey: 42, isAttended: false)
        #expect(await session.ask(.enterPasskey, of: address) == .passkey(42))
        #expect(await session.ask(.enterPasskey, of: address) == .passkey(42))
        #expect(await session.ask(.enterPasskey, of: address) == .no)
        #expect(await session.close(address) == nil, "a person was there")
    }

    @Test func aQuestionWithoutAPersonIsRefusedAndRemembered() async {
        let session = PairingSession()
        await session.open(address, passkey: nil, isAttended: false)
        #expect(await session.ask(.enterPasskey, of: address) == .no)
        #expect(await session.close(address) == .nobodyThere)
        #expect(await session.ask(.enterPasskey, of: address) == .no, "no pairing goes on")
    }

    @Test func aTechnicianIsShownTheQuestionAndAnswersIt() async {
        let session = PairingSession()
        await session.open(address, passkey: nil, isAttended: true)
        let asked = Task { await session.ask(.enterPasskey, of: address) }
        while await session.question(of: address) == nil { await Task.yield() }
        #expect(await session.answer(.passkey(7), for: address))
        #expect(await asked.value == .passkey(7))
        #expect(await session.question(of: address) == nil)
        #expect(await !session.answer(.passkey(7), for: address), "nothing is asked any more")
    }

    @Test func anOpenQuestionEndsWithThePairing() async {
        let session = PairingSession()
        await session.open(address, passkey: nil, isAttended: true)
        let asked = Task { await session.ask(.confirmPasskey(1), of: address) }
        while await session.question(of: address) == nil { await Task.yield() }
        #expect(await session.close(address) == .unanswered)
        #expect(await asked.value == .no)
    }

    @Test func aQuestionThatIsAnsweredWithNoIsRemembered() async {
        let session = PairingSession()
        await session.open(address, passkey: nil, isAttended: true)
        let asked = Task { await session.ask(.confirmPasskey(1), of: address) }
        while await session.question(of: address) == nil { await Task.yield() }
        #expect(await session.answer(.no, for: address))
        #expect(await asked.value == .no)
        #expect(await session.close(address) == .declined)
    }

    @Test func anOpenQuestionEndsWhenTheSensorIsPairedAnew() async {
        let session = PairingSession()
        await session.open(address, passkey: nil, isAttended: true)
        let asked = Task { await session.ask(.confirmPasskey(1), of: address) }
        while await session.question(of: address) == nil { await Task.yield() }
        await session.open(address, passkey: nil, isAttended: true)
        #expect(await asked.value == .no)
    }

    @Test func aCodeToTypeIntoTheSensorIsShownAndNotWaitedFor() async {
        let session = PairingSession()
        await session.open(address, passkey: nil, isAttended: false)
        #expect(await session.ask(.typePasskey(5), of: address) == .yes)
        #expect(await session.question(of: address) == .typePasskey(5))
        #expect(await session.close(address) == .notTyped)
    }
}
