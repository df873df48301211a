import BlueZ
import Testing

@testable import EdgeGateway

@Suite struct PairingDeskTests {
    private let address = "C0:00:00:00:00:01"

    @Test func aCodeGivenBeforehandAnswersTheSensor() async {
        let desk = PairingDesk()
        await desk.open(address, passkey: 42, isAttended: false)
        #expect(await desk.ask(.enterPasskey, of: address) == .passkey(42))
        #expect(await desk.ask(.confirmPasskey(42), of: address) == .yes)
        #expect(await desk.ask(.confirmPasskey(43), of: address) == .no)
        #expect(await !desk.close(address))
    }

    @Test func aCodeGivenBeforehandIsTriedTwice() async {
        let desk = PairingDesk()
        await desk.open(address, passkey: 42, isAttended: false)
        #expect(await desk.ask(.enterPasskey, of: address) == .passkey(42))
        #expect(await desk.ask(.enterPasskey, of: address) == .passkey(42))
        #expect(await desk.ask(.enterPasskey, of: address) == .no)
        #expect(await !desk.close(address), "somebody was there")
    }

    @Test func aQuestionThatNobodyCanAnswerIsRefusedAndRemembered() async {
        let desk = PairingDesk()
        await desk.open(address, passkey: nil, isAttended: false)
        #expect(await desk.ask(.enterPasskey, of: address) == .no)
        #expect(await desk.close(address))
        #expect(await desk.ask(.enterPasskey, of: address) == .no, "no pairing goes on")
    }

    @Test func aTechnicianIsShownTheQuestionAndAnswersIt() async {
        let desk = PairingDesk()
        await desk.open(address, passkey: nil, isAttended: true)
        let asked = Task { await desk.ask(.enterPasskey, of: address) }
        while await desk.question(of: address) == nil { await Task.yield() }
        #expect(await desk.answer(.passkey(7), for: address))
        #expect(await asked.value == .passkey(7))
        #expect(await desk.question(of: address) == nil)
        #expect(await !desk.answer(.passkey(7), for: address), "nothing is asked any more")
    }

    @Test func anOpenQuestionEndsWithThePairing() async {
        let desk = PairingDesk()
        await desk.open(address, passkey: nil, isAttended: true)
        let asked = Task { await desk.ask(.confirmPasskey(1), of: address) }
        while await desk.question(of: address) == nil { await Task.yield() }
        await desk.close(address)
        #expect(await asked.value == .no)
    }

    @Test func aCodeToTypeIntoTheSensorIsShownAndNotWaitedFor() async {
        let desk = PairingDesk()
        await desk.open(address, passkey: nil, isAttended: false)
        #expect(await desk.ask(.typePasskey(5), of: address) == .yes)
        #expect(await desk.question(of: address) == .typePasskey(5))
    }
}
