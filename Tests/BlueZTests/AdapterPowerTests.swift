import Testing

@testable import BlueZ

/// Who powers off owns powering on, in simulated time.
@Suite("Power of an adapter")
struct AdapterPowerTests {
    private static let second: Int64 = 1_000_000

    @Test("a power-cycle goes off, waits 2 s and goes on, whatever the answers")
    func cycle() {
        for isOffSeen in [true, false] {
            var power = AdapterPower(policy: .ifOurs)
            #expect(power.handle(.seen(isPowered: true), at: 0) == nil)
            #expect(power.handle(.cycle, at: 0) == .powerOff)
            #expect(power.isOwed)
            if isOffSeen { #expect(power.handle(.seen(isPowered: false), at: 10) == nil) }
            #expect(power.handle(.offEnded, at: 20) == nil)
            #expect(power.nextDeadline == 20 + AdapterPower.offMicroseconds)
            #expect(power.handle(.tick, at: 20 + AdapterPower.offMicroseconds) == .powerOn)
        }
    }

    @Test("a power-off that bluetoothd carries out long after it timed out is undone")
    func lateExecution() {
        var power = AdapterPower(policy: .ifOurs)
        _ = power.handle(.seen(isPowered: true), at: 0)
        #expect(power.handle(.cycle, at: 0) == .powerOff)
        // bluetoothd hangs: both calls time out after 20 s, again and again.
        var now = 20 * Self.second
        _ = power.handle(.offEnded, at: now)
        while now < 130 * Self.second, let next = power.nextDeadline {
            now = next
            #expect(power.handle(.tick, at: now) == .powerOn)
            now += 20 * Self.second
            _ = power.handle(.onEnded(isDone: false), at: now)
        }
        // It goes on, and does what is queued: off first.
        _ = power.handle(.seen(isPowered: false), at: now + 1)
        let next = power.nextDeadline ?? 0
        #expect(next <= now + AdapterPower.retryMaxMicroseconds)
        #expect(power.handle(.tick, at: next) == .powerOn)
        _ = power.handle(.seen(isPowered: true), at: next + 1)
        _ = power.handle(.onEnded(isDone: true), at: next + 2)
        #expect(power.isOwed, "not before it has been on for a while")
        let settled = power.nextDeadline ?? 0
        #expect(power.handle(.tick, at: settled) == nil)
        #expect(!power.isOwed)
        #expect(power.nextDeadline == nil)
    }

    @Test("an answered power-on that is followed by a late power-off is repeated at once")
    func lateAfterAnswer() {
        var power = AdapterPower(policy: .ifOurs)
        _ = power.handle(.cycle, at: 0)
        _ = power.handle(.offEnded, at: 20 * Self.second)
        _ = power.handle(.tick, at: 22 * Self.second)
        _ = power.handle(.onEnded(isDone: true), at: 23 * Self.second)
        #expect(power.handle(.seen(isPowered: false), at: 24 * Self.second) == .powerOn)
    }

    @Test("what an earlier run switched off is switched on")
    func earlierRun() {
        var power = AdapterPower(policy: .ifOurs, isOwed: true)
        #expect(power.handle(.seen(isPowered: false), at: 0) == .powerOn)
    }

    @Test("an adapter that another program switched off: always, never, or if it was ours")
    func policies() {
        var always = AdapterPower(policy: .always)
        #expect(always.handle(.seen(isPowered: true), at: 0) == nil)
        #expect(always.handle(.seen(isPowered: false), at: 1) == .powerOn)
        for policy in [PowerPolicy.never, .ifOurs] {
            var power = AdapterPower(policy: policy)
            #expect(power.handle(.seen(isPowered: false), at: 0) == nil)
            #expect(power.nextDeadline == nil)
        }
        var never = AdapterPower(policy: .never)
        #expect(never.handle(.cycle, at: 0) == nil)
    }

    @Test("a power-on that fails is repeated, more and more rarely")
    func retries() {
        var power = AdapterPower(policy: .always)
        #expect(power.handle(.seen(isPowered: false), at: 0) == .powerOn)
        var now: Int64 = 0
        var pauses: [Int64] = []
        for _ in 0..<8 {
            _ = power.handle(.onEnded(isDone: false), at: now)
            let next = power.nextDeadline ?? now
            pauses.append((next - now) / Self.second)
            now = next
            #expect(power.handle(.tick, at: now) == .powerOn)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 30, 30, 30])
    }
}

@Suite("A bluetoothd that hangs")
struct DaemonPulseTests {
    private static let second: Int64 = 1_000_000

    @Test("is asked when frames stop, and found out before a strap's link is torn down")
    func hang() {
        var pulse = DaemonPulse(at: 0)
        pulse.expectsFrames = true
        let asked = pulse.nextDeadline ?? 0
        #expect(asked == 4 * Self.second)
        #expect(pulse.tick(at: asked) == true)
        #expect(pulse.isInDoubt)
        #expect(pulse.nextDeadline == nil)
        let overdue = asked + DaemonPulse.answerPatience.microseconds
        #expect(overdue < LinkPolicy().stale.microseconds)
        #expect(pulse.noteAnswer(false, askedAt: asked) == true)
        #expect(pulse.hungSince == 0)
        // It is asked again and again.
        #expect(pulse.tick(at: overdue) == true)
        let again = pulse.noteAnswer(false, askedAt: overdue)
        #expect(!again)
        #expect(pulse.hear(at: 130 * Self.second) == true)
        #expect(!pulse.isInDoubt)
    }

    @Test("is not asked while frames come, and an answer shows that it is well")
    func well() {
        var pulse = DaemonPulse(at: 0)
        pulse.expectsFrames = true
        for second in Int64(1)...100 {
            _ = pulse.hear(at: second * Self.second)
            #expect(pulse.tick(at: second * Self.second + 500_000) == false)
        }
        #expect(pulse.tick(at: 104 * Self.second) == true)
        let hasHung = pulse.noteAnswer(true, askedAt: 104 * Self.second)
        #expect(!hasHung && pulse.hungSince == nil)
    }

    @Test("is not hung if something came after the question")
    func lateAnswer() {
        var pulse = DaemonPulse(at: 0)
        #expect(pulse.tick(at: 20 * Self.second) == true)
        _ = pulse.hear(at: 21 * Self.second)
        let hasHung = pulse.noteAnswer(false, askedAt: 20 * Self.second)
        #expect(!hasHung)
    }
}
