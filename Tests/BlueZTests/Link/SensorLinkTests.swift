import Basics
import Testing

@testable import BlueZ

/// Every transition and every deadline of a link, in simulated time.
@Suite("Link to a sensor")
struct SensorLinkTests {
    /// A link, its time, and what it asked for.
    struct Fixture {
        var link: SensorLink
        var now = Uptime.seconds(1_000)

        init(_ change: (inout LinkPolicy) -> Void = { _ in }) {
            var policy = LinkPolicy()
            // Jitter is tested apart: here a back-off is always over at once unless a test asks.
            policy.backoffBase = .zero
            policy.backoffMax = .zero
            change(&policy)
            link = SensorLink(policy: policy, seed: 1)
        }

        @discardableResult
        mutating func tell(_ event: SensorLink.Event) -> [SensorLink.Action] {
            link.handle(event, at: now)
        }

        @discardableResult
        mutating func wait(_ duration: Duration) -> [SensorLink.Action] {
            now += duration
            guard let due = link.nextDeadline, due <= now else { return [] }
            return link.handle(.tick, at: now)
        }

        static func ready(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Fixture {
            var fixture = Fixture(change)
            fixture.tell(.daemon(isPresent: true))
            fixture.tell(.adapter(isUsable: true))
            return fixture
        }

        static func connecting(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Fixture {
            var fixture = ready(change)
            fixture.tell(.sighted)
            fixture.tell(.slotGranted)
            return fixture
        }

        static func resolving(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Fixture {
            var fixture = connecting(change)
            fixture.tell(.connectFinished(attempt: fixture.link.attempt, nil))
            return fixture
        }

        static func subscribing(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Fixture {
            var fixture = resolving(change)
            fixture.tell(.device(isConnected: true, isResolved: true))
            return fixture
        }

        static func streaming(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Fixture {
            var fixture = subscribing(change)
            fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
            fixture.tell(.frame)
            // Its cadence is known: a frame a second.
            fixture.now += .seconds(1)
            fixture.tell(.frame)
            return fixture
        }
    }

    // MARK: The way up

    @Test("without bluetoothd, then without an adapter, it is suspended; then absent and scanning")
    func beginning() {
        var fixture = Fixture()
        #expect(fixture.link.state == .suspended(.daemon))
        #expect(!fixture.link.wantsScan)
        fixture.tell(.daemon(isPresent: true))
        #expect(fixture.link.state == .suspended(.adapter))
        fixture.tell(.adapter(isUsable: true))
        #expect(fixture.link.state == .absent)
        #expect(fixture.link.wantsScan)
        #expect(fixture.link.nextDeadline == nil)
    }

    @Test("a sighting asks for the radio, and the radio makes it connect")
    func sightedToConnecting() {
        var fixture = Fixture.ready()
        #expect(fixture.tell(.sighted) == [.requestSlot])
        #expect(fixture.link.state == .seen)
        #expect(fixture.tell(.sighted) == [])
        let before = fixture.link.attempt
        #expect(fixture.tell(.slotGranted) == [.connect(attempt: before + 1)])
        #expect(fixture.link.state == .connecting)
    }

    @Test(
        "connect's answer leads to resolving by get, resolved to subscribing, frames to streaming")
    func upToStreaming() {
        var fixture = Fixture.connecting()
        let attempt = fixture.link.attempt
        #expect(fixture.tell(.connectFinished(attempt: attempt, nil)) == [.refresh])
        #expect(fixture.link.state == .resolving)
        #expect(fixture.tell(.device(isConnected: true, isResolved: false)) == [])
        #expect(
            fixture.tell(.device(isConnected: true, isResolved: true))
                == [.subscribe(attempt: attempt)])
        #expect(fixture.link.state == .subscribing)
        fixture.tell(.subscribeFinished(attempt: attempt, nil))
        #expect(fixture.link.state == .streaming(lastFrameAt: fixture.now))
        fixture.now += .seconds(1)
        fixture.tell(.frame)
        #expect(fixture.link.state == .streaming(lastFrameAt: fixture.now))
    }

    @Test("Connected may be signalled before the answer, or resolved at once")
    func signalsOvertakeAnswer() {
        var fixture = Fixture.connecting()
        let attempt = fixture.link.attempt
        #expect(fixture.tell(.device(isConnected: true, isResolved: false)) == [.refresh])
        #expect(fixture.link.state == .resolving)
        #expect(fixture.tell(.connectFinished(attempt: attempt, nil)) == [])
        #expect(fixture.link.state == .resolving)

        var quick = Fixture.connecting()
        #expect(
            quick.tell(.device(isConnected: true, isResolved: true))
                == [.subscribe(attempt: quick.link.attempt)])
    }

    @Test("while resolving the properties are got every half second")
    func refreshing() {
        var fixture = Fixture.resolving()
        #expect(fixture.wait(.milliseconds(499)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.refresh])
        #expect(fixture.wait(.milliseconds(500)) == [.refresh])
    }

    @Test("a link that is up already is adopted without a connect, from wherever it waits")
    func adoption() {
        var absent = Fixture.ready()
        #expect(absent.tell(.device(isConnected: true, isResolved: false)) == [.refresh])
        #expect(absent.link.state == .resolving)
        #expect(absent.link.reason == .adopted)

        var seen = Fixture.ready()
        seen.tell(.sighted)
        let actions = seen.tell(.device(isConnected: true, isResolved: true))
        #expect(actions == [.withdrawSlot, .subscribe(attempt: seen.link.attempt)])
    }

    @Test("the first frame may overtake StartNotify's answer, or stand in for it")
    func frameBeforeAnswer() {
        var fixture = Fixture.subscribing()
        fixture.tell(.frame)
        #expect(fixture.link.isStreaming)
        // No disconnect while StartNotify is unanswered, however long the silence.
        #expect(fixture.wait(.seconds(20)) == [])
        #expect(fixture.link.isStreaming)
        #expect(fixture.wait(.seconds(40)).contains(.disconnect))
    }

    @Test("a slot that is granted too late is given back")
    func lateSlot() {
        var fixture = Fixture.ready()
        #expect(fixture.tell(.slotGranted) == [.withdrawSlot])
        fixture.tell(.sighted)
        fixture.tell(.device(isConnected: true, isResolved: true))
        #expect(fixture.tell(.slotGranted) == [.withdrawSlot])
    }

    @Test("answers of older attempts change nothing")
    func staleAnswers() {
        var fixture = Fixture.connecting()
        let old = fixture.link.attempt
        fixture.tell(.daemon(isPresent: false))
        fixture.tell(.daemon(isPresent: true))
        fixture.tell(.sighted)
        fixture.tell(.slotGranted)
        #expect(fixture.tell(.connectFinished(attempt: old, .auth)) == [])
        #expect(fixture.link.state == .connecting)
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, nil))
        fixture.tell(.device(isConnected: true, isResolved: true))
        #expect(fixture.tell(.subscribeFinished(attempt: old, .cache)) == [])
        #expect(fixture.link.state == .subscribing)
    }

    // MARK: Deadlines

    @Test("connect: 8 s, then the attempt is ended")
    func connectDeadline() {
        var fixture = Fixture.connecting()
        #expect(fixture.wait(.milliseconds(7_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.disconnect])
        #expect(fixture.link.state == .seen)
        #expect(fixture.link.reason == .connectTimeout)
        // The end of the attempt is waited for, 5 s at most.
        #expect(fixture.wait(.milliseconds(4_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("after two attempts unheard it waits to be heard")
    func outOfRange() {
        var fixture = Fixture.connecting()
        fixture.wait(.seconds(8))
        fixture.wait(.seconds(5))
        fixture.tell(.slotGranted)
        fixture.wait(.seconds(8))
        #expect(fixture.link.state == .suspended(.outOfRange))
        #expect(fixture.link.wantsScan)
        #expect(fixture.link.nextDeadline == nil)
        fixture.now += .seconds(60)
        #expect(fixture.tell(.sighted) == [.requestSlot])
    }

    @Test("resolve: 15 s, then the link is ended")
    func resolveDeadline() {
        var fixture = Fixture.resolving()
        for _ in 0..<29 { fixture.wait(.milliseconds(500)) }
        #expect(fixture.link.state == .resolving)
        #expect(fixture.wait(.milliseconds(500)) == [.disconnect])
        #expect(fixture.link.reason == .resolveTimeout)
    }

    @Test("subscribe: overdue after 10 s, but disconnected only 25 s later")
    func subscribeDeadline() {
        var fixture = Fixture.subscribing()
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
        var fixture = Fixture.subscribing()
        fixture.wait(.seconds(10))
        fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        #expect(fixture.link.isStreaming)
    }

    @Test(
        "first frame: 5 s, then it is found anew from scratch, twice; then 60 s: not worn, maybe")
    func firstFrameDeadline() {
        var fixture = Fixture.subscribing()
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
            fixture.tell(.slotGranted)
            fixture.tell(.device(isConnected: true, isResolved: true))
            fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
        }
        #expect(fixture.wait(.milliseconds(59_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.disconnect, .forgetDevice])
        fixture.tell(.vanished)
        fixture.now += .seconds(2)
        #expect(fixture.tell(.sighted) == [], "it may just not be worn")
    }

    @Test(
        "a mute strap is found anew as often as it takes, more and more rarely, until a frame comes"
    )
    func muteForLong() throws {
        var fixture = Fixture.ready()
        var pauses: [Duration] = []
        for _ in 0..<7 {
            let begun = fixture.now
            while fixture.link.state != .connecting {
                if fixture.link.isQueued {
                    fixture.tell(.slotGranted)
                } else {
                    fixture.tell(.sighted)
                }
                if !fixture.link.isQueued, fixture.link.state == .seen { fixture.wait(.seconds(1)) }
            }
            pauses.append(fixture.now - begun)
            fixture.tell(.device(isConnected: true, isResolved: true))
            fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil))
            #expect(fixture.wait(.seconds(60)).contains(.forgetDevice))
            fixture.tell(.device(isConnected: false, isResolved: false))
            fixture.tell(.vanished)
        }
        #expect(pauses.first == .zero)
        #expect(zip(pauses, pauses.dropFirst()).allSatisfy { $0 <= $1 })
        let last = try #require(pauses.last)
        #expect((.seconds(240) ... .seconds(600)).contains(last))
    }

    @Test("a strap with a frame every 20 s keeps its link, and is missed after a minute")
    func rareFrames() {
        var fixture = Fixture.subscribing()
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
        var fixture = Fixture.streaming()
        fixture.now += .seconds(100)
        fixture.tell(.awake)
        #expect(fixture.wait(.seconds(9)) == [])
        #expect(fixture.link.isStreaming)
    }

    @Test("stale: 10 s worn, 60 s not worn")
    func staleDeadline() {
        var worn = Fixture.streaming()
        #expect(worn.wait(.milliseconds(9_999)) == [])
        #expect(worn.wait(.milliseconds(1)) == [.disconnect])
        #expect(worn.link.reason == .stale)

        var bare = Fixture.streaming()
        bare.tell(.contact(false))
        #expect(bare.wait(.milliseconds(59_999)) == [])
        #expect(bare.wait(.milliseconds(1)) == [.disconnect])
        #expect(bare.link.reason == .stale)
    }

    @Test("frames push the deadline ahead")
    func framesKeepAlive() {
        var fixture = Fixture.streaming()
        for _ in 0..<100 {
            fixture.wait(.seconds(9))
            fixture.tell(.frame)
        }
        #expect(fixture.link.isStreaming)
    }

    @Test("a torn-down link is not adopted while it ends")
    func noAdoptionWhileEnding() {
        var fixture = Fixture.streaming()
        fixture.wait(.seconds(10))
        // bluetoothd takes 2 s to disconnect; an advert's signal says "connected" meanwhile.
        #expect(fixture.tell(.device(isConnected: true, isResolved: true)) == [])
        #expect(fixture.link.state == .seen)
        #expect(fixture.tell(.device(isConnected: false, isResolved: false)) == [.requestSlot])
    }

    // MARK: Losses

    @Test(
        "a lost link is tried again at once, from any step",
        arguments: ["resolving", "subscribing", "streaming"])
    func linkLoss(step: String) {
        var fixture =
            switch step {
            case "resolving": Fixture.resolving()
            case "subscribing": Fixture.subscribing()
            default: Fixture.streaming()
            }
        let before = fixture.link.attempt
        #expect(fixture.tell(.device(isConnected: false, isResolved: false)) == [.requestSlot])
        #expect(fixture.link.state == .seen)
        #expect(fixture.link.reason == .linkLost)
        #expect(fixture.link.attempt > before)
    }

    @Test("a device that is removed is absent, whether or not it was connected")
    func removal() {
        var streaming = Fixture.streaming()
        #expect(streaming.tell(.vanished) == [])
        #expect(streaming.link.state == .absent)
        #expect(streaming.link.reason == .removed)
        var seen = Fixture.ready()
        seen.tell(.sighted)
        #expect(seen.tell(.vanished) == [.withdrawSlot])
        var suspended = Fixture()
        suspended.tell(.vanished)
        #expect(suspended.link.state == .suspended(.daemon))
    }

    @Test("when bluetoothd goes nothing is called, and all begins anew when it is back")
    func daemonRestart() {
        for fixture in [
            Fixture.ready(), .connecting(), .resolving(), .subscribing(), .streaming(),
        ] {
            var fixture = fixture
            #expect(fixture.tell(.daemon(isPresent: false)) == [])
            #expect(fixture.link.state == .suspended(.daemon))
            #expect(fixture.link.nextDeadline == nil)
            #expect(fixture.tell(.sighted) == [])
            fixture.tell(.daemon(isPresent: true))
            #expect(fixture.link.state == .absent)
        }
    }

    @Test("when the adapter goes off it waits for it")
    func adapterOff() {
        var fixture = Fixture.streaming()
        #expect(fixture.tell(.adapter(isUsable: false)) == [])
        #expect(fixture.link.state == .suspended(.adapter))
        #expect(fixture.link.reason == .adapterOff)
        fixture.tell(.adapter(isUsable: true))
        #expect(fixture.link.state == .absent)
        var queued = Fixture.ready()
        queued.tell(.sighted)
        #expect(queued.tell(.adapter(isUsable: false)) == [.withdrawSlot])
    }

    // MARK: Errors, by class

    @Test("transient: looks whether it connected after all, and tries again")
    func transientError() {
        var fixture = Fixture.connecting()
        let actions = fixture.tell(
            .connectFinished(attempt: fixture.link.attempt, .transientRadio))
        #expect(actions == [.refresh, .requestSlot])
        #expect(fixture.link.state == .seen)
        // It had: adopted.
        fixture.tell(.device(isConnected: true, isResolved: false))
        #expect(fixture.link.state == .resolving)
    }

    @Test("busy: ends the pending attempt, waits; three in a row ask for a reset")
    func busyError() {
        var fixture = Fixture.connecting()
        var actions = fixture.tell(.connectFinished(attempt: fixture.link.attempt, .busy))
        #expect(actions == [.disconnect])
        #expect(fixture.link.state == .seen)
        for _ in 0..<2 {
            #expect(fixture.wait(.seconds(5)) == [.requestSlot])
            fixture.tell(.slotGranted)
            actions = fixture.tell(.connectFinished(attempt: fixture.link.attempt, .busy))
        }
        #expect(actions == [.disconnect, .resetAdapter])
    }

    @Test("not powered: waits for the adapter if that says so too, else for a moment")
    func notPoweredError() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .notPowered))
        #expect(fixture.link.state == .seen)
        #expect(fixture.wait(.milliseconds(3_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("slots: waits for a place, and tries all the same after a minute")
    func slotsError() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.link.reason == .error(.slots))
        #expect(fixture.link.state == .suspended(.adapterFull))
        #expect(fixture.link.wantsScan, "another adapter may hear it")
        #expect(fixture.wait(.milliseconds(59_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("slots: goes on at once when it is heard where there is a place")
    func slotsFound() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.tell(.sighted) == [.requestSlot])
    }

    @Test("slots: heard where there is no place, it goes on waiting")
    func slotsHeard() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.tell(.sightedWithoutPlace) == [])
        #expect(fixture.wait(.seconds(60)) == [.requestSlot])
        fixture.tell(.slotGranted)
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.link.state == .suspended(.adapterFull))
    }

    @Test("slots: is out of range, not without a place, once two attempts went by unheard")
    func slotsUnheard() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.wait(.seconds(60)) == [.requestSlot])
        fixture.tell(.slotGranted)
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.link.state == .suspended(.outOfRange))
        #expect(fixture.tell(.sightedWithoutPlace) == [.requestSlot])
    }

    @Test("awaited by a person, it does not wait out a back-off")
    func awaited() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .auth))
        #expect(fixture.link.state == .seen)
        #expect(fixture.wait(.seconds(10)) == [])
        #expect(fixture.tell(.awaited) == [.requestSlot])
        #expect(fixture.tell(.awaited) == [], "it is waiting for the radio already")
    }

    @Test("gone: absent until it is heard again")
    func goneError() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .gone))
        #expect(fixture.link.state == .absent)
        #expect(fixture.link.wantsScan)
        #expect(fixture.tell(.sighted) == [.requestSlot])
    }

    @Test(
        "auth and permission: 30 s, for a person to look",
        arguments: [
            BlueZErrorClass.auth, .permission,
        ])
    func personErrors(error: BlueZErrorClass) {
        var fixture = Fixture.subscribing()
        let actions = fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, error))
        #expect(actions == [.disconnect])
        #expect(fixture.link.reason == .error(error))
        fixture.tell(.device(isConnected: false, isResolved: false))
        #expect(fixture.wait(.milliseconds(29_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("cache: the device is forgotten, and the next time only after half a minute")
    func cacheError() {
        var fixture = Fixture.subscribing()
        let first = fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, .cache))
        #expect(first == [.disconnect, .forgetDevice])
        #expect(fixture.link.state == .absent)
        fixture.tell(.vanished)
        fixture.now += .seconds(60)
        fixture.tell(.sighted)
        fixture.tell(.slotGranted)
        fixture.tell(.device(isConnected: true, isResolved: true))
        let second = fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, .cache))
        #expect(second == [.disconnect, .forgetDevice])
        #expect(fixture.link.state == .absent)
        fixture.tell(.vanished)
        fixture.tell(.sighted)
        #expect(fixture.link.nextDeadline == fixture.now + .seconds(30))
    }

    @Test("daemon: waits for it, or a second if it is there and just did not answer")
    func daemonError() {
        var fixture = Fixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .daemon))
        #expect(fixture.link.state == .seen)
        #expect(fixture.wait(.milliseconds(999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("unknown: tried again like a transient one, never fatal")
    func unknownError() {
        var fixture = Fixture.connecting()
        #expect(
            fixture.tell(.connectFinished(attempt: fixture.link.attempt, .unknown))
                == [.refresh, .requestSlot])
    }

    // MARK: Release

    @Test("release ends the link in order, and the end finishes it")
    func release() {
        var fixture = Fixture.streaming()
        #expect(fixture.tell(.release) == [.stopNotify, .disconnect])
        #expect(fixture.link.state == .draining)
        #expect(fixture.tell(.release) == [])
        #expect(fixture.tell(.device(isConnected: false, isResolved: false)) == [.finish])
    }

    @Test("release without an end is over after 5 s")
    func releaseTimeout() {
        var fixture = Fixture.streaming()
        fixture.tell(.release)
        #expect(fixture.wait(.milliseconds(4_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.finish])
    }

    @Test("release waits for StartNotify's answer before it disconnects")
    func releaseWhileSubscribing() {
        var fixture = Fixture.subscribing()
        #expect(fixture.tell(.release) == [])
        #expect(fixture.link.state == .draining)
        #expect(
            fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil)) == [.disconnect])
        var unanswered = Fixture.subscribing()
        unanswered.tell(.release)
        #expect(unanswered.wait(.milliseconds(24_999)) == [])
        #expect(unanswered.wait(.milliseconds(1)) == [.disconnect])
    }

    @Test("release of what is not connected is over at once")
    func releaseIdle() {
        var absent = Fixture.ready()
        #expect(absent.tell(.release) == [.finish])
        var queued = Fixture.ready()
        queued.tell(.sighted)
        #expect(queued.tell(.release) == [.withdrawSlot, .finish])
        var suspended = Fixture()
        #expect(suspended.tell(.release) == [.finish])
        var draining = Fixture.streaming()
        draining.tell(.release)
        #expect(draining.tell(.daemon(isPresent: false)) == [.finish])
    }

    // MARK: Back-off

    @Test("the back-off doubles from 0.25 s to 30 s, with full jitter")
    func backoff() {
        let policy = LinkPolicy()
        var backoff = Backoff(first: policy.backoffBase, longest: policy.backoffMax)
        var random = SeededRandom(seed: 7)
        var bounds: [Int64] = []
        for failures in 1...10 {
            bounds.append(backoff.pause(after: failures).microseconds / 1000)
            let pause = backoff.next(using: &random).microseconds
            #expect((0...bounds[bounds.count - 1] * 1000).contains(pause))
        }
        #expect(bounds == [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000])
        // Full jitter reaches both ends.
        let pauses = (0..<1000).map { _ in backoff.next(using: &random) }
        #expect(pauses.allSatisfy { $0 <= .seconds(30) })
        #expect(pauses.contains { $0 < .seconds(3) } && pauses.contains { $0 > .seconds(27) })
        backoff.reset()
        #expect(backoff.next() == .milliseconds(250))
    }

    @Test("a back-off never overflows")
    func endlessBackoff() {
        let backoff = Backoff(first: .microseconds(Int64.max), longest: .microseconds(Int64.max))
        #expect(backoff.pause(after: 2).microseconds == .max)
        #expect(backoff.pause(after: .max).microseconds == .max)
        #expect(backoff.pause(after: .min).microseconds == .max)
    }

    @Test("a frame ends the back-off")
    func frameResetsBackoff() {
        var fixture = Fixture.connecting {
            $0.backoffBase = .milliseconds(250)
            $0.backoffMax = .seconds(30)
            $0.attemptsUnheardMax = 100
        }
        for _ in 0..<5 {
            fixture.tell(.connectFinished(attempt: fixture.link.attempt, .transientRadio))
            fixture.wait(.seconds(31))
            fixture.tell(.slotGranted)
        }
        #expect(fixture.link.backoff.failures == 5)
        fixture.tell(.device(isConnected: true, isResolved: true))
        fixture.tell(.frame)
        #expect(fixture.link.backoff.failures == 0)
    }

    @Test("no sequence of events makes it trap, and it always ends or waits for something")
    func randomEvents() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed: seed)
        var fixture = Fixture { $0 = LinkPolicy() }
        for step in 0..<20_000 {
            let dice = Int64.random(in: 0...4_000_000, using: &random)
            let attempt = fixture.link.attempt
            let errors: [BlueZErrorClass?] = [nil, nil, nil] + BlueZErrorClass.allCases
            let error = errors[Int(dice / 16) % errors.count]
            let event: SensorLink.Event =
                switch dice % 16 {
                case 0: .daemon(isPresent: dice % 3 != 0)
                case 1: .adapter(isUsable: dice % 3 != 0)
                case 2, 3: .sighted
                case 4, 5: .device(isConnected: true, isResolved: dice % 2 == 0)
                case 6: .device(isConnected: false, isResolved: false)
                case 7: .vanished
                case 8, 9: .slotGranted
                case 10: .connectFinished(attempt: attempt, error)
                case 11: .subscribeFinished(attempt: attempt, error)
                case 12, 13: .frame
                case 14: .contact(dice % 2 == 0)
                default: .tick
                }
            fixture.now += .microseconds(dice % 3_000_000)
            let actions = fixture.tell(event)
            #expect(fixture.link.attempt >= attempt, "seed \(seed) step \(step)")
            if actions.contains(.disconnect) {
                #expect(!fixture.link.isNotifyPending, "seed \(seed) step \(step)")
            }
            let isWaiting =
                fixture.link.nextDeadline != nil || fixture.link.isQueued || fixture.link.wantsScan
            switch fixture.link.state {
            case .suspended(.daemon), .suspended(.adapter): break
            default: #expect(isWaiting, "seed \(seed) step \(step) \(fixture.link.state)")
            }
        }
    }
}
