import Basics
import Testing

@testable import BlueZ

/// Every transition and every deadline of a link, in simulated time.
@Suite("Link to a sensor")
struct SensorLinkTests {
    // MARK: The way up

    @Test("without bluetoothd, then without an adapter, it is suspended; then absent and scanning")
    func beginning() {
        var fixture = LinkFixture()
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
        var fixture = LinkFixture.ready()
        #expect(fixture.tell(.sighted) == [.requestSlot])
        #expect(fixture.link.state == .seen)
        #expect(fixture.tell(.sighted) == [])
        let before = fixture.link.attempt
        #expect(fixture.tell(.slotGranted(isShared: false)) == [.connect(attempt: before + 1)])
        #expect(fixture.link.state == .connecting)
    }

    @Test(
        "connect's answer leads to resolving by get, resolved to subscribing, frames to streaming")
    func upToStreaming() {
        var fixture = LinkFixture.connecting()
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
        var fixture = LinkFixture.connecting()
        let attempt = fixture.link.attempt
        #expect(fixture.tell(.device(isConnected: true, isResolved: false)) == [.refresh])
        #expect(fixture.link.state == .resolving)
        #expect(fixture.tell(.connectFinished(attempt: attempt, nil)) == [])
        #expect(fixture.link.state == .resolving)

        var quick = LinkFixture.connecting()
        #expect(
            quick.tell(.device(isConnected: true, isResolved: true))
                == [.subscribe(attempt: quick.link.attempt)])
    }

    @Test("while resolving the properties are got every half second")
    func refreshing() {
        var fixture = LinkFixture.resolving()
        #expect(fixture.wait(.milliseconds(499)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.refresh])
        #expect(fixture.wait(.milliseconds(500)) == [.refresh])
    }

    @Test("a link that is up already is adopted without a connect, from wherever it waits")
    func adoption() {
        var absent = LinkFixture.ready()
        #expect(absent.tell(.device(isConnected: true, isResolved: false)) == [.refresh])
        #expect(absent.link.state == .resolving)
        #expect(absent.link.reason == .adopted)

        var seen = LinkFixture.ready()
        seen.tell(.sighted)
        let actions = seen.tell(.device(isConnected: true, isResolved: true))
        #expect(actions == [.withdrawSlot, .subscribe(attempt: seen.link.attempt)])
    }

    @Test("the first frame may overtake StartNotify's answer, or stand in for it")
    func frameBeforeAnswer() {
        var fixture = LinkFixture.subscribing()
        fixture.tell(.frame)
        #expect(fixture.link.isStreaming)
        // No disconnect while StartNotify is unanswered, however long the silence.
        #expect(fixture.wait(.seconds(20)) == [])
        #expect(fixture.link.isStreaming)
        #expect(fixture.wait(.seconds(40)).contains(.disconnect))
    }

    @Test("a slot that is granted too late is given back")
    func lateSlot() {
        var fixture = LinkFixture.ready()
        #expect(fixture.tell(.slotGranted(isShared: false)) == [.withdrawSlot])
        fixture.tell(.sighted)
        fixture.tell(.device(isConnected: true, isResolved: true))
        #expect(fixture.tell(.slotGranted(isShared: false)) == [.withdrawSlot])
    }

    @Test("answers of older attempts change nothing")
    func staleAnswers() {
        var fixture = LinkFixture.connecting()
        let old = fixture.link.attempt
        fixture.tell(.daemon(isPresent: false))
        fixture.tell(.daemon(isPresent: true))
        fixture.tell(.sighted)
        fixture.tell(.slotGranted(isShared: false))
        #expect(fixture.tell(.connectFinished(attempt: old, .auth)) == [])
        #expect(fixture.link.state == .connecting)
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, nil))
        fixture.tell(.device(isConnected: true, isResolved: true))
        #expect(fixture.tell(.subscribeFinished(attempt: old, .cache)) == [])
        #expect(fixture.link.state == .subscribing)
    }

    // MARK: Losses

    @Test(
        "a lost link is tried again at once, from any step",
        arguments: ["resolving", "subscribing", "streaming"])
    func linkLoss(step: String) {
        var fixture =
            switch step {
            case "resolving": LinkFixture.resolving()
            case "subscribing": LinkFixture.subscribing()
            default: LinkFixture.streaming()
            }
        let before = fixture.link.attempt
        #expect(fixture.tell(.device(isConnected: false, isResolved: false)) == [.requestSlot])
        #expect(fixture.link.state == .seen)
        #expect(fixture.link.reason == .linkLost)
        #expect(fixture.link.attempt > before)
    }

    @Test("a device that is removed is absent, whether or not it was connected")
    func removal() {
        var streaming = LinkFixture.streaming()
        #expect(streaming.tell(.vanished) == [])
        #expect(streaming.link.state == .absent)
        #expect(streaming.link.reason == .removed)
        var seen = LinkFixture.ready()
        seen.tell(.sighted)
        #expect(seen.tell(.vanished) == [.withdrawSlot])
        var suspended = LinkFixture()
        suspended.tell(.vanished)
        #expect(suspended.link.state == .suspended(.daemon))
    }

    @Test("when bluetoothd goes nothing is called, and all begins anew when it is back")
    func daemonRestart() {
        for fixture in [
            LinkFixture.ready(), .connecting(), .resolving(), .subscribing(), .streaming(),
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
        var fixture = LinkFixture.streaming()
        #expect(fixture.tell(.adapter(isUsable: false)) == [])
        #expect(fixture.link.state == .suspended(.adapter))
        #expect(fixture.link.reason == .adapterOff)
        fixture.tell(.adapter(isUsable: true))
        #expect(fixture.link.state == .absent)
        var queued = LinkFixture.ready()
        queued.tell(.sighted)
        #expect(queued.tell(.adapter(isUsable: false)) == [.withdrawSlot])
    }

    // MARK: Release

    @Test("release ends the link in order, and the end finishes it")
    func release() {
        var fixture = LinkFixture.streaming()
        #expect(fixture.tell(.release) == [.stopNotify, .disconnect])
        #expect(fixture.link.state == .draining)
        #expect(fixture.tell(.release) == [])
        #expect(fixture.tell(.device(isConnected: false, isResolved: false)) == [.finish])
    }

    @Test("release without an end is over after 5 s")
    func releaseTimeout() {
        var fixture = LinkFixture.streaming()
        fixture.tell(.release)
        #expect(fixture.wait(.milliseconds(4_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.finish])
    }

    @Test("release waits for StartNotify's answer before it disconnects")
    func releaseWhileSubscribing() {
        var fixture = LinkFixture.subscribing()
        #expect(fixture.tell(.release) == [])
        #expect(fixture.link.state == .draining)
        #expect(
            fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, nil)) == [.disconnect])
        var unanswered = LinkFixture.subscribing()
        unanswered.tell(.release)
        #expect(unanswered.wait(.milliseconds(24_999)) == [])
        #expect(unanswered.wait(.milliseconds(1)) == [.disconnect])
    }

    @Test("release of what is not connected is over at once")
    func releaseIdle() {
        var absent = LinkFixture.ready()
        #expect(absent.tell(.release) == [.finish])
        var queued = LinkFixture.ready()
        queued.tell(.sighted)
        #expect(queued.tell(.release) == [.withdrawSlot, .finish])
        var suspended = LinkFixture()
        #expect(suspended.tell(.release) == [.finish])
        var draining = LinkFixture.streaming()
        draining.tell(.release)
        #expect(draining.tell(.daemon(isPresent: false)) == [.finish])
    }

    @Test("no sequence of events makes it trap, and it always ends or waits for something")
    func randomEvents() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed: seed)
        var fixture = LinkFixture { $0 = LinkPolicy() }
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
                case 8, 9: .slotGranted(isShared: Bool.random(using: &random))
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

    @Test("notifications that end while the link is up are asked for again over the same link")
    func subscribesAgain() {
        var fixture = LinkFixture.streaming()
        let attempt = fixture.link.attempt
        #expect(fixture.tell(.notificationsEnded) == [.subscribe(attempt: attempt)])
        #expect(fixture.link.state == .subscribing)
        #expect(fixture.tell(.notificationsEnded) == [])
        fixture.tell(.subscribeFinished(attempt: attempt, nil))
        #expect(fixture.link.isStreaming)
        #expect(fixture.link.attempt == attempt)
        // Without a link there is nothing to ask for.
        fixture.tell(.device(isConnected: false, isResolved: false))
        #expect(fixture.tell(.notificationsEnded) == [])
    }
}
