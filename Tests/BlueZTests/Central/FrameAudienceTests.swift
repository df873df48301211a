import Basics
import Testing

@testable import BlueZ

@Suite("Frames gather")
struct FrameAudienceTests {
    @Test(
        "a little shorter than a commit may wait, whatever the settings say",
        arguments: [
            (0, 500), (1, 500), (2, 1_500), (5, 4_500), (60, 4_500),
        ])
    func forTheStore(commitSeconds: Int64, milliseconds: Int64) {
        let pause = FrameAudience.theStore(within: .seconds(commitSeconds)).gatherPause
        #expect(pause == .milliseconds(milliseconds))
    }
}

@Suite("What has come from the bus")
struct CatchUpTests {
    @Test("is taken up to the time at which it was asked for, once the answer is there")
    func answers() {
        var caughtUp = CatchUp()
        let other = caughtUp.nextNumber()
        #expect(caughtUp.ask(at: .seconds(10)) == other + 1)
        #expect(caughtUp.ask(at: .seconds(11)) == nil, "one question at a time")
        #expect(caughtUp.answer(other) == false)
        #expect(caughtUp.until == .zero)
        #expect(caughtUp.answer(other + 1) == true)
        #expect(caughtUp.until == .seconds(10) && caughtUp.deadline == nil)
        #expect(caughtUp.answer(other + 1) == false)
    }

    @Test("is asked for again once bluetoothd has answered: it may have handed more over before")
    func expiring() {
        var caughtUp = CatchUp()
        let early = caughtUp.ask(at: .seconds(10))
        _ = caughtUp.answer(early ?? 0)
        let late = caughtUp.ask(at: .seconds(12))
        caughtUp.expire()
        #expect(caughtUp.until == .zero && caughtUp.deadline == nil)
        #expect(caughtUp.answer(late ?? 0) == false)
        #expect(caughtUp.ask(at: .seconds(13)) != nil)
    }

    @Test("is not waited for for ever")
    func givingUp() {
        var caughtUp = CatchUp()
        _ = caughtUp.ask(at: .seconds(10))
        let deadline = caughtUp.deadline ?? .zero
        caughtUp.giveUp(at: deadline - .milliseconds(1))
        #expect(caughtUp.until == .zero)
        caughtUp.giveUp(at: deadline)
        #expect(caughtUp.until == .seconds(10) && caughtUp.deadline == nil)
    }
}
