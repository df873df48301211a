import Basics
import Testing

@testable import BlueZ

@Suite("Deadlines of a link, in simulated time")
struct SensorLinkDeadlineTests {
    @Test("connect: 8 s, then the attempt is ended")
    func connectDeadline() {
        var fixture = LinkFixture.connecting()
        #expect(fixture.wait(.milliseconds(7_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.disconnect])
        #expect(fixture.link.reason == .connectTimeout)
        // Heard at once, it waits for the end of the attempt, 5 s at most.
        #expect(fixture.tell(.sighted) == [])
        #expect(fixture.link.state == .seen)
        #expect(fixture.wait(.milliseconds(4_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    /// It was waited for all 5 s, and a strap that was switched on meanwhile with it.
    @Test("an ended attempt that bluetoothd answers is followed by the next after the back-off")
    func endedAttempt() {
        var fixture = LinkFixture.connecting()
        let attempt = fixture.link.attempt
        fixture.wait(.seconds(8))
        fixture.tell(.sighted)
        #expect(fixture.tell(.connectFinished(attempt: attempt - 1, .transientRadio)) == [])
        #expect(fixture.link.nextDeadline == fixture.now + .seconds(5), "another's answer")
        // At once or after a back-off, by chance.
        let actions = fixture.tell(.connectFinished(attempt: attempt, .transientRadio))
        #expect(actions + fixture.wait(.milliseconds(500)) == [.requestSlot])
    }

    @Test("an ended attempt that connected all the same is waited for")
    func endedAttemptThatConnected() {
        var fixture = LinkFixture.connecting()
        let attempt = fixture.link.attempt
        fixture.wait(.seconds(8))
        fixture.tell(.sighted)
        #expect(fixture.tell(.connectFinished(attempt: attempt, nil)) == [])
        #expect(fixture.link.nextDeadline == fixture.now + .seconds(5))
    }

    @Test("after an attempt that nobody answers it waits to be heard")
    func outOfRange() {
        var fixture = LinkFixture.connecting()
        #expect(fixture.wait(.seconds(8)) == [.disconnect])
        #expect(fixture.link.state == .suspended(.outOfRange))
        #expect(fixture.link.wantsScan)
        #expect(fixture.link.nextDeadline == nil)
        fixture.now += .seconds(60)
        #expect(fixture.tell(.sighted) == [.requestSlot])
    }

    @Test("beside another program's discovery a connect has 20 s")
    func connectBesideDiscovery() {
        var fixture = LinkFixture.ready()
        fixture.tell(.sighted)
        fixture.tell(.slotGranted(isShared: true))
        fixture.wait(.milliseconds(19_999))
        #expect(fixture.link.state == .connecting)
        fixture.wait(.milliseconds(1))
        #expect(fixture.link.state == .suspended(.outOfRange))
    }

    @Test("after two attempts that fail at once it waits to be heard")
    func failedAtOnce() {
        var fixture = LinkFixture.connecting()
        #expect(
            fixture.tell(.connectFinished(attempt: fixture.link.attempt, .transientRadio))
                == [.refresh, .requestSlot])
        fixture.tell(.slotGranted(isShared: false))
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .transientRadio))
        #expect(fixture.link.state == .suspended(.outOfRange))
    }

    @Test("resolve: 15 s, then the link is ended")
    func resolveDeadline() {
        var fixture = LinkFixture.resolving()
        for _ in 0..<29 { fixture.wait(.milliseconds(500)) }
        #expect(fixture.link.state == .resolving)
        #expect(fixture.wait(.milliseconds(500)) == [.disconnect])
        #expect(fixture.link.reason == .resolveTimeout)
    }

    @Test("subscribe: overdue after 10 s, but disconnected only 25 s later")
    func subscribeDeadline() {
        var fixture = LinkFixture.subscribing()
        fixture.wait(.milliseconds(9_999))
        #expect(fixture.link.reason == .progress)
        #expect(fixture.wait(.milliseconds(1)) == [])
        #expect(fixture.link.state == .subscribing)
        #expect(fixture.link.reason == .subscribeTimeout)
        #expect(fixture.wait(.milliseconds(24_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.disconnect])
        #expect(fixture.link.state == .seen)
    }

    @Test("an overdue StartNotify that is answered after all is good")
    func subscribeLate() {
        var fixture = LinkFixture.subscribing()
        fixture.wait(.seconds(10))
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        #expect(fixture.link.isStreaming)
    }

    @Test(
        "first frame: 5 s, then it is found anew from scratch, twice; then 60 s: not worn, maybe")
    func firstFrameDeadline() {
        var fixture = LinkFixture.subscribing()
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        for _ in 0..<2 {
            #expect(fixture.wait(.milliseconds(4_999)) == [])
            #expect(fixture.wait(.milliseconds(1)) == [.disconnect, .forgetDevice])
            #expect(fixture.link.reason == .noFirstFrame)
            #expect(fixture.link.state == .absent)
            fixture.tell(.vanished)
            // `Disconnect` takes 2 s.
            fixture.now += .seconds(2)
            #expect(fixture.tell(.sighted) == [.requestSlot], "a lost subscription: tried at once")
            fixture.tell(.slotGranted(isShared: false))
            fixture.tell(.device(isConnected: true, isResolved: true))
            fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        }
        #expect(fixture.wait(.milliseconds(59_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.disconnect], "finding it anew did not help")
        #expect(fixture.link.reason == .noFirstFrame)
    }

    /// Ends a link that is torn down, and brings the next one up.
    private func connectAnew(_ fixture: inout LinkFixture) {
        fixture.tell(.device(isConnected: false, isResolved: false))
        if fixture.link.state == .absent { fixture.tell(.vanished) }
        for _ in 0..<100 where !fixture.link.isQueued {
            fixture.tell(.sighted)
            if !fixture.link.isQueued { fixture.wait(.seconds(1)) }
        }
        fixture.tell(.slotGranted(isShared: false))
        fixture.tell(.device(isConnected: true, isResolved: true))
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
    }

    @Test("a mute strap is waited for longer and longer, and the device is removed twice")
    func muteForLong() {
        var fixture = LinkFixture.subscribing()
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        var limits: [Duration] = []
        var removals = 0
        for _ in 0..<9 {
            limits.append(fixture.link.silenceLimit)
            let actions = fixture.wait(fixture.link.silenceLimit)
            #expect(actions.contains(.disconnect))
            if actions.contains(.forgetDevice) { removals += 1 }
            connectAnew(&fixture)
        }
        #expect(limits == [5, 5, 60, 120, 240, 480, 900, 900, 900].map(Duration.seconds))
        #expect(removals == 2)
    }

    /// It never delivered: 5 s, 60 s, and it was removed.
    @Test(
        "a strap that needs 100 s from each connect to its first frame delivers, and is waited for then"
    )
    func slowStart() {
        var fixture = LinkFixture.subscribing()
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        var attempts = 1
        while attempts < 10, !fixture.wait(min(fixture.link.silenceLimit, .seconds(100))).isEmpty {
            attempts += 1
            connectAnew(&fixture)
        }
        #expect(attempts == 4)
        fixture.tell(.frame)
        for _ in 0..<60 {
            fixture.wait(.seconds(1))
            fixture.tell(.frame)
        }
        for _ in 0..<3 {
            connectAnew(&fixture)
            #expect(fixture.wait(.seconds(100)) == [], "its start-up time is known")
            fixture.tell(.frame)
            #expect(fixture.link.silenceLimit == .seconds(10), "its pauses are judged by its pace")
        }
    }

    /// It was torn down nine times in 100 s.
    @Test("a strap that sends each second and then once in 20 s loses its link once")
    func slowsDown() {
        var fixture = LinkFixture.streaming()
        for _ in 0..<60 {
            fixture.wait(.seconds(1))
            fixture.tell(.frame)
        }
        let teardowns = followSlowStrap(&fixture, seconds: 400)
        #expect(teardowns == 1)
        // What it has shown of itself stays known.
        for _ in 0..<600 {
            fixture.wait(.seconds(1))
            fixture.tell(.frame)
        }
        #expect(followSlowStrap(&fixture, seconds: 400) == 0)
    }

    /// A frame in 20 s for a time; how often its link was torn down.
    private func followSlowStrap(_ fixture: inout LinkFixture, seconds: Int) -> Int {
        var teardowns = 0
        for second in 1...seconds {
            if fixture.wait(.seconds(1)).contains(.disconnect) {
                teardowns += 1
                connectAnew(&fixture)
            }
            if second % 20 == 0 { fixture.tell(.frame) }
        }
        return teardowns
    }

    @Test(
        "a link that died after its frames is missed as soon as ever, once the next one has lasted")
    func soundLinkEndsPatience() {
        var fixture = LinkFixture.streaming()
        fixture.wait(.seconds(10))
        connectAnew(&fixture)
        for _ in 0..<300 {
            #expect(fixture.link.silenceLimit >= .seconds(10))
            fixture.wait(.seconds(1))
            fixture.tell(.frame)
        }
        #expect(fixture.link.silenceLimit == .seconds(10))
    }

    @Test("a strap with a frame every 20 s keeps its link, and is missed after a minute")
    func rareFrames() {
        var fixture = LinkFixture.subscribing()
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        fixture.wait(.seconds(4))
        fixture.tell(.frame)
        for _ in 0..<50 {
            #expect(fixture.wait(.milliseconds(19_900)) == [])
            fixture.now += .milliseconds(100)
            fixture.tell(.frame)
        }
        #expect(fixture.link.isStreaming)
        #expect(fixture.link.silenceLimit == .seconds(60))
        #expect(fixture.wait(.seconds(60)).contains(.disconnect))
        #expect(fixture.link.reason == .stale)
    }

    @Test("after bluetoothd hung, what was sent meanwhile is waited for")
    func awake() {
        var fixture = LinkFixture.streaming()
        fixture.now += .seconds(100)
        fixture.tell(.awake)
        #expect(fixture.wait(.seconds(9)) == [])
        #expect(fixture.link.isStreaming)
    }

    @Test("stale: 10 s worn, 60 s not worn")
    func staleDeadline() {
        var worn = LinkFixture.streaming()
        #expect(worn.wait(.milliseconds(9_999)) == [])
        #expect(worn.wait(.milliseconds(1)) == [.disconnect])
        #expect(worn.link.reason == .stale)

        var bare = LinkFixture.streaming()
        bare.tell(.contact(false))
        #expect(bare.wait(.milliseconds(59_999)) == [])
        #expect(bare.wait(.milliseconds(1)) == [.disconnect])
        #expect(bare.link.reason == .stale)
    }

    @Test("frames push the deadline ahead")
    func framesKeepAlive() {
        var fixture = LinkFixture.streaming()
        for _ in 0..<100 {
            fixture.wait(.seconds(9))
            fixture.tell(.frame)
        }
        #expect(fixture.link.isStreaming)
    }

    @Test("a torn-down link is not adopted while it ends")
    func noAdoptionWhileEnding() {
        var fixture = LinkFixture.streaming()
        fixture.wait(.seconds(10))
        // bluetoothd takes 2 s to disconnect; an advert's signal says "connected" meanwhile.
        #expect(fixture.tell(.device(isConnected: true, isResolved: true)) == [])
        #expect(fixture.link.state == .seen)
        #expect(fixture.tell(.device(isConnected: false, isResolved: false)) == [.requestSlot])
    }
}
