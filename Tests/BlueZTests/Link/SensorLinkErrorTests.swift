import Basics
import Testing

@testable import BlueZ

@Suite("What a link does about an error, by the error's class")
struct SensorLinkErrorTests {
    @Test("transient: looks whether it connected after all, and tries again")
    func transientError() {
        var fixture = LinkFixture.connecting()
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
        var fixture = LinkFixture.connecting()
        var actions = fixture.tell(.connectFinished(attempt: fixture.link.attempt, .busy))
        #expect(actions == [.disconnect])
        #expect(fixture.link.state == .seen)
        for _ in 0..<2 {
            #expect(fixture.wait(.seconds(5)) == [.requestSlot])
            fixture.tell(.slotGranted(isShared: false))
            actions = fixture.tell(.connectFinished(attempt: fixture.link.attempt, .busy))
        }
        #expect(actions == [.disconnect, .resetAdapter])
    }

    @Test("not powered: waits for the adapter if that says so too, else for a moment")
    func notPoweredError() {
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .notPowered))
        #expect(fixture.link.state == .seen)
        #expect(fixture.wait(.milliseconds(3_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("slots: waits for a place, and tries all the same after a minute")
    func slotsError() {
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.link.reason == .error(.slots))
        #expect(fixture.link.state == .suspended(.adapterFull))
        #expect(fixture.link.wantsScan, "another adapter may hear it")
        #expect(fixture.wait(.milliseconds(59_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("slots: goes on at once when it is heard where there is a place")
    func slotsFound() {
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.tell(.sighted) == [.requestSlot])
    }

    @Test("slots: heard where there is no place, it goes on waiting")
    func slotsHeard() {
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.tell(.sightedWithoutPlace) == [])
        #expect(fixture.wait(.seconds(60)) == [.requestSlot])
        fixture.tell(.slotGranted(isShared: false))
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.link.state == .suspended(.adapterFull))
    }

    /// It was tried each 1.3 s: bluetoothd removed it, and it was heard again.
    @Test("slots: a strap that bluetoothd removes when it is refused waits like any other")
    func slotsRemoved() {
        var fixture = LinkFixture.connecting()
        let attempt = fixture.link.attempt
        fixture.tell(.vanished)
        fixture.tell(.connectFinished(attempt: attempt, .slots))
        #expect(fixture.tell(.sightedWithoutPlace) == [])
        #expect(fixture.link.state == .suspended(.adapterFull))
        #expect(fixture.wait(.milliseconds(59_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("a strap that is removed while it is tried is tried again after a back-off")
    func removedBackoff() {
        var fixture = LinkFixture.connecting {
            $0.backoffBase = .seconds(10)
            $0.backoffMax = .seconds(10)
        }
        for _ in 0..<3 {
            fixture.tell(.vanished)
            fixture.tell(.sighted)
            #expect(fixture.link.state == .seen && !fixture.link.isQueued)
            fixture.wait(.seconds(10))
            fixture.tell(.slotGranted(isShared: false))
        }
        #expect(fixture.link.backoff.failures == 3)
    }

    /// It was tried each 30 s for days after the watch had left, and `status` went on about it.
    @Test("classic again and again, without a word of the device: it has to be heard first")
    func classicUnheard() {
        var fixture = LinkFixture.connecting()
        for _ in 1..<fixture.link.policy.attemptsUnheardMax {
            fixture.tell(.connectFinished(attempt: fixture.link.attempt, .classic))
            fixture.wait(fixture.link.policy.personPause)
            fixture.tell(.slotGranted(isShared: false))
        }
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .classic))
        #expect(fixture.link.state == .suspended(.outOfRange))
        fixture.tell(.sighted)
        #expect(fixture.link.state == .seen)
    }

    @Test("classic: bluetoothd is left the device, and a person has to look")
    func classicError() {
        var fixture = LinkFixture.connecting()
        let actions = fixture.tell(.connectFinished(attempt: fixture.link.attempt, .classic))
        #expect(!actions.contains(.forgetDevice))
        #expect(fixture.wait(.milliseconds(29_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("slots: is out of range, not without a place, once two attempts went by unheard")
    func slotsUnheard() {
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.wait(.seconds(60)) == [.requestSlot])
        fixture.tell(.slotGranted(isShared: false))
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .slots))
        #expect(fixture.link.state == .suspended(.outOfRange))
        #expect(fixture.tell(.sightedWithoutPlace) == [.requestSlot])
    }

    @Test("awaited by a person, it does not wait out a back-off")
    func awaited() {
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .auth))
        #expect(fixture.link.state == .seen)
        #expect(fixture.wait(.seconds(10)) == [])
        #expect(fixture.tell(.awaited) == [.requestSlot])
        #expect(fixture.tell(.awaited) == [], "it is waiting for the radio already")
    }

    @Test("gone: absent until it is heard again")
    func goneError() {
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .gone))
        #expect(fixture.link.state == .absent)
        #expect(fixture.link.wantsScan)
        #expect(fixture.tell(.sighted) == [.requestSlot])
    }

    @Test(
        "auth and permission, another program, the policy: 30 s, for a person to look",
        arguments: [
            BlueZErrorClass.auth, .permission, .taken, .denied,
        ])
    func personErrors(error: BlueZErrorClass) {
        var fixture = LinkFixture.subscribing()
        let actions = fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, error))
        #expect(actions == [.disconnect])
        #expect(fixture.link.reason == .error(error))
        fixture.tell(.device(isConnected: false, isResolved: false))
        #expect(fixture.wait(.milliseconds(29_999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("cache: the device is forgotten, and the next time only after half a minute")
    func cacheError() {
        var fixture = LinkFixture.subscribing()
        let first = fixture.tell(.subscribeFinished(attempt: fixture.link.attempt, .cache))
        #expect(first == [.disconnect, .forgetDevice])
        #expect(fixture.link.state == .absent)
        fixture.tell(.vanished)
        fixture.now += .seconds(60)
        fixture.tell(.sighted)
        fixture.tell(.slotGranted(isShared: false))
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
        var fixture = LinkFixture.connecting()
        fixture.tell(.connectFinished(attempt: fixture.link.attempt, .daemon))
        #expect(fixture.link.state == .seen)
        #expect(fixture.wait(.milliseconds(999)) == [])
        #expect(fixture.wait(.milliseconds(1)) == [.requestSlot])
    }

    @Test("unknown: tried again like a transient one, never fatal")
    func unknownError() {
        var fixture = LinkFixture.connecting()
        #expect(
            fixture.tell(.connectFinished(attempt: fixture.link.attempt, .unknown))
                == [.refresh, .requestSlot])
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
        var fixture = LinkFixture.connecting {
            $0.backoffBase = .milliseconds(250)
            $0.backoffMax = .seconds(30)
            $0.attemptsUnheardMax = 100
        }
        for _ in 0..<5 {
            fixture.tell(.connectFinished(attempt: fixture.link.attempt, .transientRadio))
            fixture.wait(.seconds(31))
            fixture.tell(.slotGranted(isShared: false))
        }
        #expect(fixture.link.backoff.failures == 5)
        fixture.tell(.device(isConnected: true, isResolved: true))
        fixture.tell(.frame)
        #expect(fixture.link.backoff.failures == 0)
    }
}
