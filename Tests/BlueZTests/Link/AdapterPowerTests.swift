import Basics
import Testing

@testable import BlueZ

/// Who powers off owns powering on, in simulated time.
@Suite("Power of an adapter")
struct AdapterPowerTests {
    @Test("a power-cycle goes off, waits 2 s and goes on, whatever the answers")
    func cycle() {
        for isOffSeen in [true, false] {
            var power = AdapterPower(policy: .ifOurs)
            #expect(power.handle(.seen(isPowered: true), at: .zero) == nil)
            #expect(power.handle(.cycle, at: .zero) == .powerOff)
            #expect(power.isOwed)
            if isOffSeen { #expect(power.handle(.seen(isPowered: false), at: .seconds(10)) == nil) }
            #expect(power.handle(.offEnded, at: .seconds(20)) == nil)
            #expect(power.nextDeadline == Uptime.seconds(20) + AdapterPower.offTime)
            #expect(power.handle(.tick, at: .seconds(20) + AdapterPower.offTime) == .powerOn)
        }
    }

    @Test("a power-off that bluetoothd carries out long after it timed out is undone")
    func lateExecution() {
        var power = AdapterPower(policy: .ifOurs)
        _ = power.handle(.seen(isPowered: true), at: .zero)
        #expect(power.handle(.cycle, at: .zero) == .powerOff)
        // bluetoothd hangs: both calls time out after 20 s, again and again.
        var now = Uptime.seconds(20)
        _ = power.handle(.offEnded, at: now)
        while now < .seconds(130), let next = power.nextDeadline {
            now = next
            #expect(power.handle(.tick, at: now) == .powerOn)
            now += .seconds(20)
            _ = power.handle(.onEnded(isDone: false), at: now)
        }
        // It goes on, and does what is queued: off first.
        _ = power.handle(.seen(isPowered: false), at: now + .microseconds(1))
        let next = power.nextDeadline ?? .zero
        #expect(next <= now + AdapterPower.retry.longest)
        #expect(power.handle(.tick, at: next) == .powerOn)
        _ = power.handle(.seen(isPowered: true), at: next + .microseconds(1))
        _ = power.handle(.onEnded(isDone: true), at: next + .microseconds(2))
        #expect(power.isOwed, "not before it has been on for a while")
        let settled = power.nextDeadline ?? .zero
        #expect(power.handle(.tick, at: settled) == nil)
        #expect(!power.isOwed)
        #expect(power.nextDeadline == nil)
    }

    @Test("an answered power-on that is followed by a late power-off is repeated at once")
    func lateAfterAnswer() {
        var power = AdapterPower(policy: .ifOurs)
        _ = power.handle(.cycle, at: .zero)
        _ = power.handle(.offEnded, at: .seconds(20))
        _ = power.handle(.tick, at: .seconds(22))
        _ = power.handle(.onEnded(isDone: true), at: .seconds(23))
        #expect(power.handle(.seen(isPowered: false), at: .seconds(24)) == .powerOn)
    }

    @Test("a controller that answers its reset late is on within 30 s of being plugged in")
    func lateReset() {
        var power = AdapterPower(policy: .always)
        var now = Uptime.zero
        #expect(power.handle(.seen(isPowered: false), at: now) == .powerOn)
        // The kernel waits 2 s for the answer, then bluetoothd reports the failure.
        var pauses: [Duration] = []
        for _ in 0..<9 {
            now += .seconds(2)
            #expect(power.handle(.onEnded(isDone: false), at: now) == nil)
            let next = power.nextDeadline ?? now
            pauses.append(next - now)
            now = next
            #expect(power.handle(.tick, at: now) == .powerOn)
            if pauses.count == 7 { #expect(now < .seconds(30), "seven repetitions so far") }
        }
        #expect(pauses == [1, 1, 1, 1, 1, 1, 2, 4, 8].map { .seconds($0) })
    }

    @Test("what an earlier run switched off is switched on")
    func earlierRun() {
        var power = AdapterPower(policy: .ifOurs, isOwed: true)
        #expect(power.handle(.seen(isPowered: false), at: .zero) == .powerOn)
    }

    /// It was told every microsecond that its time was over, at full load.
    @Test("an adapter that an earlier run switched off is left alone under never, and not watched")
    func neverOwed() {
        var power = AdapterPower(policy: .never, isOwed: true)
        #expect(!power.isOwed)
        #expect(power.handle(.seen(isPowered: true), at: .zero) == nil)
        #expect(power.handle(.seen(isPowered: false), at: .seconds(1)) == nil)
        #expect(power.handle(.tick, at: .seconds(100)) == nil)
        #expect(power.nextDeadline == nil)
    }

    @Test("an adapter that another program switched off: always, never, or if it was ours")
    func policies() {
        var always = AdapterPower(policy: .always)
        #expect(always.handle(.seen(isPowered: true), at: .zero) == nil)
        #expect(always.handle(.seen(isPowered: false), at: .seconds(1)) == .powerOn)
        for policy in [PowerPolicy.never, .ifOurs] {
            var power = AdapterPower(policy: policy)
            #expect(power.handle(.seen(isPowered: false), at: .zero) == nil)
            #expect(power.nextDeadline == nil)
        }
        var never = AdapterPower(policy: .never)
        #expect(never.handle(.cycle, at: .zero) == nil)
    }

    @Test("a power-on that fails is repeated, more and more rarely")
    func retries() {
        var power = AdapterPower(policy: .always)
        #expect(power.handle(.seen(isPowered: false), at: .zero) == .powerOn)
        var now = Uptime.zero
        var pauses: [Duration] = []
        for _ in 0..<13 {
            _ = power.handle(.onEnded(isDone: false), at: now)
            let next = power.nextDeadline ?? now
            pauses.append(next - now)
            now = next
            #expect(power.handle(.tick, at: now) == .powerOn)
        }
        #expect(pauses == [1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 30, 30, 30].map { .seconds($0) })
    }
}

@Suite("A bluetoothd that hangs")
struct DaemonPulseTests {
    @Test("is asked when frames stop, not while they gather")
    func hang() {
        var pulse = DaemonPulse(at: .zero)
        pulse.expectsFrames = true
        let asked = pulse.nextDeadline ?? .zero
        #expect(asked > .zero + FrameAudience.gatherPauseMax + .seconds(1))
        #expect(pulse.tick(at: asked) == true)
        #expect(pulse.isInDoubt)
        #expect(pulse.nextDeadline == nil)
        let overdue = asked + DaemonPulse.answerPatience
        #expect(pulse.noteAnswer(false, askedAt: asked) == true)
        #expect(pulse.hungSince == .zero)
        // It is asked again and again.
        #expect(pulse.tick(at: overdue) == true)
        let again = pulse.noteAnswer(false, askedAt: overdue)
        #expect(!again)
        #expect(pulse.hear(at: .seconds(130)) == true)
        #expect(!pulse.isInDoubt)
    }

    @Test("is not asked while frames come, and an answer shows that it is well")
    func well() {
        var pulse = DaemonPulse(at: .zero)
        pulse.expectsFrames = true
        for second in Int64(1)...100 {
            _ = pulse.hear(at: .seconds(second))
            #expect(pulse.tick(at: .seconds(second) + .milliseconds(500)) == false)
        }
        #expect(pulse.tick(at: .seconds(106)) == true)
        let hasHung = pulse.noteAnswer(true, askedAt: .seconds(106))
        #expect(!hasHung && pulse.hungSince == nil)
    }

    @Test("is not hung if something came after the question")
    func lateAnswer() {
        var pulse = DaemonPulse(at: .zero)
        #expect(pulse.tick(at: .seconds(20)) == true)
        _ = pulse.hear(at: .seconds(21))
        let hasHung = pulse.noteAnswer(false, askedAt: .seconds(20))
        #expect(!hasHung)
    }
}
