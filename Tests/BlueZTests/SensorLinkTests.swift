import Testing

@testable import BlueZ

/// Every transition and every deadline of a link, in simulated time.
@Suite("Link to a sensor")
struct SensorLinkTests {
    /// A link, its time, and what it asked for.
    struct Bench {
        var link: SensorLink
        var now: Int64 = 1_000_000_000

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
            now += duration.microseconds
            guard let due = link.nextDeadline, due <= now else { return [] }
            return link.handle(.tick, at: now)
        }

        static func ready(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Bench {
            var bench = Bench(change)
            bench.tell(.daemon(isPresent: true))
            bench.tell(.adapter(isUsable: true))
            return bench
        }

        static func connecting(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Bench {
            var bench = ready(change)
            bench.tell(.sighted)
            bench.tell(.slotGranted)
            return bench
        }

        static func resolving(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Bench {
            var bench = connecting(change)
            bench.tell(.connectFinished(attempt: bench.link.attempt, nil))
            return bench
        }

        static func subscribing(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Bench {
            var bench = resolving(change)
            bench.tell(.device(isConnected: true, isResolved: true))
            return bench
        }

        static func streaming(_ change: (inout LinkPolicy) -> Void = { _ in }) -> Bench {
            var bench = subscribing(change)
            bench.tell(.subscribeFinished(attempt: bench.link.attempt, nil))
            bench.tell(.frame)
            // Its cadence is known: a frame a second.
            bench.now += 1_000_000
            bench.tell(.frame)
            return bench
        }
    }

    // MARK: The way up

    @Test("without bluetoothd, then without an adapter, it is suspended; then absent and scanning")
    func beginning() {
        var bench = Bench()
        #expect(bench.link.state == .suspended(.daemon))
        #expect(!bench.link.wantsScan)
        bench.tell(.daemon(isPresent: true))
        #expect(bench.link.state == .suspended(.adapter))
        bench.tell(.adapter(isUsable: true))
        #expect(bench.link.state == .absent)
        #expect(bench.link.wantsScan)
        #expect(bench.link.nextDeadline == nil)
    }

    @Test("a sighting asks for the radio, and the radio makes it connect")
    func sightedToConnecting() {
        var bench = Bench.ready()
        #expect(bench.tell(.sighted) == [.requestSlot])
        #expect(bench.link.state == .seen)
        #expect(bench.tell(.sighted) == [])
        let before = bench.link.attempt
        #expect(bench.tell(.slotGranted) == [.connect(attempt: before + 1)])
        #expect(bench.link.state == .connecting)
    }

    @Test(
        "connect's answer leads to resolving by get, resolved to subscribing, frames to streaming")
    func upToStreaming() {
        var bench = Bench.connecting()
        let attempt = bench.link.attempt
        #expect(bench.tell(.connectFinished(attempt: attempt, nil)) == [.refresh])
        #expect(bench.link.state == .resolving)
        #expect(bench.tell(.device(isConnected: true, isResolved: false)) == [])
        #expect(
            bench.tell(.device(isConnected: true, isResolved: true))
                == [.subscribe(attempt: attempt)])
        #expect(bench.link.state == .subscribing)
        bench.tell(.subscribeFinished(attempt: attempt, nil))
        #expect(bench.link.state == .streaming(lastFrameAt: bench.now))
        bench.now += 1_000_000
        bench.tell(.frame)
        #expect(bench.link.state == .streaming(lastFrameAt: bench.now))
    }

    @Test("Connected may be signalled before the answer, or resolved at once")
    func signalsOvertakeAnswer() {
        var bench = Bench.connecting()
        let attempt = bench.link.attempt
        #expect(bench.tell(.device(isConnected: true, isResolved: false)) == [.refresh])
        #expect(bench.link.state == .resolving)
        #expect(bench.tell(.connectFinished(attempt: attempt, nil)) == [])
        #expect(bench.link.state == .resolving)

        var quick = Bench.connecting()
        #expect(
            quick.tell(.device(isConnected: true, isResolved: true))
                == [.subscribe(attempt: quick.link.attempt)])
    }

    @Test("while resolving the properties are got every half second")
    func refreshing() {
        var bench = Bench.resolving()
        #expect(bench.wait(.milliseconds(499)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.refresh])
        #expect(bench.wait(.milliseconds(500)) == [.refresh])
    }

    @Test("a link that is up already is adopted without a connect, from wherever it waits")
    func adoption() {
        var absent = Bench.ready()
        #expect(absent.tell(.device(isConnected: true, isResolved: false)) == [.refresh])
        #expect(absent.link.state == .resolving)
        #expect(absent.link.reason == .adopted)

        var seen = Bench.ready()
        seen.tell(.sighted)
        let actions = seen.tell(.device(isConnected: true, isResolved: true))
        #expect(actions == [.withdrawSlot, .subscribe(attempt: seen.link.attempt)])
    }

    @Test("the first frame may overtake StartNotify's answer, or stand in for it")
    func frameBeforeAnswer() {
        var bench = Bench.subscribing()
        bench.tell(.frame)
        #expect(bench.link.isStreaming)
        // No disconnect while StartNotify is unanswered, however long the silence.
        #expect(bench.wait(.seconds(20)) == [])
        #expect(bench.link.isStreaming)
        #expect(bench.wait(.seconds(40)).contains(.disconnect))
    }

    @Test("a slot that is granted too late is given back")
    func lateSlot() {
        var bench = Bench.ready()
        #expect(bench.tell(.slotGranted) == [.withdrawSlot])
        bench.tell(.sighted)
        bench.tell(.device(isConnected: true, isResolved: true))
        #expect(bench.tell(.slotGranted) == [.withdrawSlot])
    }

    @Test("answers of older attempts change nothing")
    func staleAnswers() {
        var bench = Bench.connecting()
        let old = bench.link.attempt
        bench.tell(.daemon(isPresent: false))
        bench.tell(.daemon(isPresent: true))
        bench.tell(.sighted)
        bench.tell(.slotGranted)
        #expect(bench.tell(.connectFinished(attempt: old, .auth)) == [])
        #expect(bench.link.state == .connecting)
        bench.tell(.connectFinished(attempt: bench.link.attempt, nil))
        bench.tell(.device(isConnected: true, isResolved: true))
        #expect(bench.tell(.subscribeFinished(attempt: old, .cache)) == [])
        #expect(bench.link.state == .subscribing)
    }

    // MARK: Deadlines

    @Test("connect: 8 s, then the attempt is ended")
    func connectDeadline() {
        var bench = Bench.connecting()
        #expect(bench.wait(.milliseconds(7_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.disconnect])
        #expect(bench.link.state == .seen)
        #expect(bench.link.reason == .connectTimeout)
        // The end of the attempt is waited for, 5 s at most.
        #expect(bench.wait(.milliseconds(4_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("after two attempts unheard it waits to be heard")
    func outOfRange() {
        var bench = Bench.connecting()
        bench.wait(.seconds(8))
        bench.wait(.seconds(5))
        bench.tell(.slotGranted)
        bench.wait(.seconds(8))
        #expect(bench.link.state == .suspended(.outOfRange))
        #expect(bench.link.wantsScan)
        #expect(bench.link.nextDeadline == nil)
        bench.now += 60_000_000
        #expect(bench.tell(.sighted) == [.requestSlot])
    }

    @Test("resolve: 15 s, then the link is ended")
    func resolveDeadline() {
        var bench = Bench.resolving()
        for _ in 0..<29 { bench.wait(.milliseconds(500)) }
        #expect(bench.link.state == .resolving)
        #expect(bench.wait(.milliseconds(500)) == [.disconnect])
        #expect(bench.link.reason == .resolveTimeout)
    }

    @Test("subscribe: overdue after 10 s, but disconnected only 25 s later")
    func subscribeDeadline() {
        var bench = Bench.subscribing()
        bench.wait(.milliseconds(9_999))
        #expect(bench.link.reason == .progress)
        #expect(bench.wait(.milliseconds(1)) == [])
        #expect(bench.link.state == .subscribing)
        #expect(bench.link.reason == .subscribeTimeout)
        #expect(bench.wait(.milliseconds(24_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.disconnect])
        #expect(bench.link.state == .seen)
    }

    @Test("an overdue StartNotify that is answered after all is good")
    func subscribeLate() {
        var bench = Bench.subscribing()
        bench.wait(.seconds(10))
        bench.tell(.subscribeFinished(attempt: bench.link.attempt, nil))
        #expect(bench.link.isStreaming)
    }

    @Test(
        "first frame: 5 s, then it is found anew from scratch; 60 s the next time: not worn, maybe")
    func firstFrameDeadline() {
        var bench = Bench.subscribing()
        bench.tell(.subscribeFinished(attempt: bench.link.attempt, nil))
        #expect(bench.wait(.milliseconds(4_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.disconnect, .forgetDevice])
        #expect(bench.link.reason == .noFirstFrame)
        #expect(bench.link.state == .absent)
        bench.tell(.vanished)
        bench.now += 5_000_000
        #expect(bench.tell(.sighted) == [.requestSlot])
        bench.tell(.slotGranted)
        bench.tell(.device(isConnected: true, isResolved: true))
        bench.tell(.subscribeFinished(attempt: bench.link.attempt, nil))
        #expect(bench.wait(.milliseconds(59_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.disconnect, .forgetDevice])
        #expect(bench.link.muteLinks == 2)
    }

    @Test(
        "a mute strap is found anew as often as it takes, more and more rarely, until a frame comes"
    )
    func muteForLong() {
        var bench = Bench.ready()
        var pauses: [Int64] = []
        for _ in 0..<7 {
            let begun = bench.now
            while bench.link.state != .connecting {
                if bench.link.isQueued { bench.tell(.slotGranted) } else { bench.tell(.sighted) }
                if !bench.link.isQueued, bench.link.state == .seen { bench.wait(.seconds(1)) }
            }
            pauses.append((bench.now - begun) / 1_000_000)
            bench.tell(.device(isConnected: true, isResolved: true))
            bench.tell(.subscribeFinished(attempt: bench.link.attempt, nil))
            #expect(bench.wait(.seconds(60)).contains(.forgetDevice))
            bench.tell(.device(isConnected: false, isResolved: false))
            bench.tell(.vanished)
        }
        #expect(pauses.first == 0)
        #expect(zip(pauses, pauses.dropFirst()).allSatisfy { $0 <= $1 })
        #expect((pauses.last ?? 0) >= 240 && (pauses.last ?? 0) <= 600)
    }

    @Test("a strap with a frame every 20 s keeps its link, and is missed after a minute")
    func rareFrames() {
        var bench = Bench.subscribing()
        bench.tell(.subscribeFinished(attempt: bench.link.attempt, nil))
        bench.wait(.seconds(4))
        bench.tell(.frame)
        for _ in 0..<50 {
            #expect(bench.wait(.milliseconds(19_900)) == [])
            bench.now += 100_000
            bench.tell(.frame)
        }
        #expect(bench.link.isStreaming)
        #expect(bench.link.silenceLimit == 60_000_000)
        #expect(bench.wait(.seconds(60)).contains(.disconnect))
        #expect(bench.link.reason == .stale)
    }

    @Test("after bluetoothd hung, what was sent meanwhile is waited for")
    func awake() {
        var bench = Bench.streaming()
        bench.now += 100_000_000
        bench.tell(.awake)
        #expect(bench.wait(.seconds(9)) == [])
        #expect(bench.link.isStreaming)
    }

    @Test("stale: 10 s worn, 60 s not worn")
    func staleDeadline() {
        var worn = Bench.streaming()
        #expect(worn.wait(.milliseconds(9_999)) == [])
        #expect(worn.wait(.milliseconds(1)) == [.disconnect])
        #expect(worn.link.reason == .stale)

        var bare = Bench.streaming()
        bare.tell(.contact(false))
        #expect(bare.wait(.milliseconds(59_999)) == [])
        #expect(bare.wait(.milliseconds(1)) == [.disconnect])
        #expect(bare.link.reason == .stale)
    }

    @Test("frames push the deadline ahead")
    func framesKeepAlive() {
        var bench = Bench.streaming()
        for _ in 0..<100 {
            bench.wait(.seconds(9))
            bench.tell(.frame)
        }
        #expect(bench.link.isStreaming)
    }

    @Test("a torn-down link is not adopted while it ends")
    func noAdoptionWhileEnding() {
        var bench = Bench.streaming()
        bench.wait(.seconds(10))
        // bluetoothd takes 2 s to disconnect; an advert's signal says "connected" meanwhile.
        #expect(bench.tell(.device(isConnected: true, isResolved: true)) == [])
        #expect(bench.link.state == .seen)
        #expect(bench.tell(.device(isConnected: false, isResolved: false)) == [.requestSlot])
    }

    // MARK: Losses

    @Test(
        "a lost link is tried again at once, from any step",
        arguments: ["resolving", "subscribing", "streaming"])
    func linkLoss(step: String) {
        var bench =
            switch step {
            case "resolving": Bench.resolving()
            case "subscribing": Bench.subscribing()
            default: Bench.streaming()
            }
        let before = bench.link.attempt
        #expect(bench.tell(.device(isConnected: false, isResolved: false)) == [.requestSlot])
        #expect(bench.link.state == .seen)
        #expect(bench.link.reason == .linkLost)
        #expect(bench.link.attempt > before)
    }

    @Test("a device that is removed is absent, whether or not it was connected")
    func removal() {
        var streaming = Bench.streaming()
        #expect(streaming.tell(.vanished) == [])
        #expect(streaming.link.state == .absent)
        #expect(streaming.link.reason == .removed)
        var seen = Bench.ready()
        seen.tell(.sighted)
        #expect(seen.tell(.vanished) == [.withdrawSlot])
        var suspended = Bench()
        suspended.tell(.vanished)
        #expect(suspended.link.state == .suspended(.daemon))
    }

    @Test("when bluetoothd goes nothing is called, and all begins anew when it is back")
    func daemonRestart() {
        for bench in [
            Bench.ready(), .connecting(), .resolving(), .subscribing(), .streaming(),
        ] {
            var bench = bench
            #expect(bench.tell(.daemon(isPresent: false)) == [])
            #expect(bench.link.state == .suspended(.daemon))
            #expect(bench.link.nextDeadline == nil)
            #expect(bench.tell(.sighted) == [])
            bench.tell(.daemon(isPresent: true))
            #expect(bench.link.state == .absent)
        }
    }

    @Test("when the adapter goes off it waits for it")
    func adapterOff() {
        var bench = Bench.streaming()
        #expect(bench.tell(.adapter(isUsable: false)) == [])
        #expect(bench.link.state == .suspended(.adapter))
        #expect(bench.link.reason == .adapterOff)
        bench.tell(.adapter(isUsable: true))
        #expect(bench.link.state == .absent)
        var queued = Bench.ready()
        queued.tell(.sighted)
        #expect(queued.tell(.adapter(isUsable: false)) == [.withdrawSlot])
    }

    // MARK: Errors, by class

    @Test("transient: looks whether it connected after all, and tries again")
    func transientError() {
        var bench = Bench.connecting()
        let actions = bench.tell(
            .connectFinished(attempt: bench.link.attempt, .transientRadio))
        #expect(actions == [.refresh, .requestSlot])
        #expect(bench.link.state == .seen)
        // It had: adopted.
        bench.tell(.device(isConnected: true, isResolved: false))
        #expect(bench.link.state == .resolving)
    }

    @Test("busy: ends the pending attempt, waits; three in a row ask for a reset")
    func busyError() {
        var bench = Bench.connecting()
        var actions = bench.tell(.connectFinished(attempt: bench.link.attempt, .busy))
        #expect(actions == [.disconnect])
        #expect(bench.link.state == .seen)
        for _ in 0..<2 {
            #expect(bench.wait(.seconds(5)) == [.requestSlot])
            bench.tell(.slotGranted)
            actions = bench.tell(.connectFinished(attempt: bench.link.attempt, .busy))
        }
        #expect(actions == [.disconnect, .resetAdapter])
    }

    @Test("not powered: waits for the adapter if that says so too, else for a moment")
    func notPoweredError() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .notPowered))
        #expect(bench.link.state == .seen)
        #expect(bench.wait(.milliseconds(3_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("slots: waits for a place, and tries all the same after a minute")
    func slotsError() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .slots))
        #expect(bench.link.reason == .error(.slots))
        #expect(bench.link.state == .suspended(.adapterFull))
        #expect(bench.link.wantsScan, "another adapter may hear it")
        #expect(bench.wait(.milliseconds(59_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("slots: goes on at once when it is heard where there is a place")
    func slotsFound() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .slots))
        #expect(bench.tell(.sighted) == [.requestSlot])
    }

    @Test("slots: heard where there is no place, it goes on waiting")
    func slotsHeard() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .slots))
        #expect(bench.tell(.sightedWithoutPlace) == [])
        #expect(bench.wait(.seconds(60)) == [.requestSlot])
        bench.tell(.slotGranted)
        bench.tell(.connectFinished(attempt: bench.link.attempt, .slots))
        #expect(bench.link.state == .suspended(.adapterFull))
    }

    @Test("slots: is out of range, not without a place, once two attempts went by unheard")
    func slotsUnheard() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .slots))
        #expect(bench.wait(.seconds(60)) == [.requestSlot])
        bench.tell(.slotGranted)
        bench.tell(.connectFinished(attempt: bench.link.attempt, .slots))
        #expect(bench.link.state == .suspended(.outOfRange))
        #expect(bench.tell(.sightedWithoutPlace) == [.requestSlot])
    }

    @Test("awaited by a person, it does not wait out a back-off")
    func awaited() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .auth))
        #expect(bench.link.state == .seen)
        #expect(bench.wait(.seconds(10)) == [])
        #expect(bench.tell(.awaited) == [.requestSlot])
        #expect(bench.tell(.awaited) == [], "it is waiting for the radio already")
    }

    @Test("gone: absent until it is heard again")
    func goneError() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .gone))
        #expect(bench.link.state == .absent)
        #expect(bench.link.wantsScan)
        #expect(bench.tell(.sighted) == [.requestSlot])
    }

    @Test(
        "auth and permission: 30 s, for a person to look",
        arguments: [
            BlueZErrorClass.auth, .permission,
        ])
    func personErrors(error: BlueZErrorClass) {
        var bench = Bench.subscribing()
        let actions = bench.tell(.subscribeFinished(attempt: bench.link.attempt, error))
        #expect(actions == [.disconnect])
        #expect(bench.link.reason == .error(error))
        bench.tell(.device(isConnected: false, isResolved: false))
        #expect(bench.wait(.milliseconds(29_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("cache: the device is forgotten, and the next time only after half a minute")
    func cacheError() {
        var bench = Bench.subscribing()
        let first = bench.tell(.subscribeFinished(attempt: bench.link.attempt, .cache))
        #expect(first == [.disconnect, .forgetDevice])
        #expect(bench.link.state == .absent)
        bench.tell(.vanished)
        bench.now += 60_000_000
        bench.tell(.sighted)
        bench.tell(.slotGranted)
        bench.tell(.device(isConnected: true, isResolved: true))
        let second = bench.tell(.subscribeFinished(attempt: bench.link.attempt, .cache))
        #expect(second == [.disconnect, .forgetDevice])
        #expect(bench.link.state == .absent)
        bench.tell(.vanished)
        bench.tell(.sighted)
        #expect(bench.link.nextDeadline == bench.now + 30_000_000)
    }

    @Test("daemon: waits for it, or a second if it is there and just did not answer")
    func daemonError() {
        var bench = Bench.connecting()
        bench.tell(.connectFinished(attempt: bench.link.attempt, .daemon))
        #expect(bench.link.state == .seen)
        #expect(bench.wait(.milliseconds(999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("unknown: tried again like a transient one, never fatal")
    func unknownError() {
        var bench = Bench.connecting()
        #expect(
            bench.tell(.connectFinished(attempt: bench.link.attempt, .unknown))
                == [.refresh, .requestSlot])
    }

    // MARK: Release

    @Test("release ends the link in order, and the end finishes it")
    func release() {
        var bench = Bench.streaming()
        #expect(bench.tell(.release) == [.stopNotify, .disconnect])
        #expect(bench.link.state == .draining)
        #expect(bench.tell(.release) == [])
        #expect(bench.tell(.device(isConnected: false, isResolved: false)) == [.finish])
    }

    @Test("release without an end is over after 5 s")
    func releaseTimeout() {
        var bench = Bench.streaming()
        bench.tell(.release)
        #expect(bench.wait(.milliseconds(4_999)) == [])
        #expect(bench.wait(.milliseconds(1)) == [.finish])
    }

    @Test("release waits for StartNotify's answer before it disconnects")
    func releaseWhileSubscribing() {
        var bench = Bench.subscribing()
        #expect(bench.tell(.release) == [])
        #expect(bench.link.state == .draining)
        #expect(
            bench.tell(.subscribeFinished(attempt: bench.link.attempt, nil)) == [.disconnect])
        var unanswered = Bench.subscribing()
        unanswered.tell(.release)
        #expect(unanswered.wait(.milliseconds(24_999)) == [])
        #expect(unanswered.wait(.milliseconds(1)) == [.disconnect])
    }

    @Test("release of what is not connected is over at once")
    func releaseIdle() {
        var absent = Bench.ready()
        #expect(absent.tell(.release) == [.finish])
        var queued = Bench.ready()
        queued.tell(.sighted)
        #expect(queued.tell(.release) == [.withdrawSlot, .finish])
        var suspended = Bench()
        #expect(suspended.tell(.release) == [.finish])
        var draining = Bench.streaming()
        draining.tell(.release)
        #expect(draining.tell(.daemon(isPresent: false)) == [.finish])
    }

    // MARK: Back-off

    @Test("the back-off doubles from 0.25 s to 30 s, with full jitter")
    func backoff() {
        var backoff = Backoff(seed: 7)
        let policy = LinkPolicy()
        var bounds: [Int64] = []
        for _ in 0..<10 {
            bounds.append(backoff.bound(policy) / 1000)
            let pause = backoff.next(policy)
            #expect((0...bounds[bounds.count - 1] * 1000).contains(pause))
        }
        #expect(bounds == [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000])
        for _ in 0..<1000 { #expect(backoff.next(policy) <= 30_000_000) }
        backoff.reset()
        #expect(backoff.bound(policy) == 250_000)
        // Full jitter reaches both ends.
        var spread = Backoff(seed: 1)
        for _ in 0..<9 { _ = spread.next(policy) }
        let pauses = (0..<1000).map { _ in spread.next(policy) }
        #expect(pauses.contains { $0 < 3_000_000 } && pauses.contains { $0 > 27_000_000 })
    }

    @Test("a frame ends the back-off")
    func frameResetsBackoff() {
        var bench = Bench.connecting {
            $0.backoffBase = .milliseconds(250)
            $0.backoffMax = .seconds(30)
            $0.attemptsUnheardMax = 100
        }
        for _ in 0..<5 {
            bench.tell(.connectFinished(attempt: bench.link.attempt, .transientRadio))
            bench.wait(.seconds(31))
            bench.tell(.slotGranted)
        }
        #expect(bench.link.backoff.failures == 5)
        bench.tell(.device(isConnected: true, isResolved: true))
        bench.tell(.frame)
        #expect(bench.link.backoff.failures == 0)
    }

    @Test("no sequence of events makes it trap, and it always ends or waits for something")
    func randomEvents() {
        var random = SystemRandomNumberGenerator()
        let seed = UInt64.random(in: .min ... .max, using: &random)
        var backoff = Backoff(seed: seed)
        let policy = LinkPolicy()
        for _ in 0..<5 { _ = backoff.next(policy) }
        var bench = Bench { $0 = LinkPolicy() }
        for step in 0..<20_000 {
            let dice = backoff.next(policy)
            let attempt = bench.link.attempt
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
            bench.now += dice % 3_000_000
            let actions = bench.tell(event)
            #expect(bench.link.attempt >= attempt, "seed \(seed) step \(step)")
            if actions.contains(.disconnect) {
                #expect(!bench.link.isNotifyPending, "seed \(seed) step \(step)")
            }
            let isWaiting =
                bench.link.nextDeadline != nil || bench.link.isQueued || bench.link.wantsScan
            switch bench.link.state {
            case .suspended(.daemon), .suspended(.adapter): break
            default: #expect(isWaiting, "seed \(seed) step \(step) \(bench.link.state)")
            }
        }
    }
}
