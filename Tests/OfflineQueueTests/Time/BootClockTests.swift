import Basics
import Testing

@testable import OfflineQueue

/// What the readings of one boot come to, without a store.
@Suite("The clock of a boot")
struct BootClockTests {
    private let noon = ManualClock.midnight + .seconds(43_200)

    /// A reading `seconds` after the boot of a wall clock that is `ahead` of the truth.
    private func reading(
        _ seconds: Int64, ahead: Duration = .zero, isTrusted: Bool = true,
        error: Duration? = .milliseconds(20)
    ) -> ClockReading {
        ClockReading(
            uptime: .seconds(seconds), wall: noon + .seconds(seconds) + ahead, isTrusted: isTrusted,
            error: isTrusted ? error : nil)
    }

    private func time(_ clock: BootClock, _ seconds: Int64) -> Duration? {
        clock.answer(.seconds(seconds))?.offset.utc(.seconds(seconds)).map {
            $0 - noon - .seconds(seconds)
        }
    }

    @Test func nothingIsKnownBeforeTheFirstTrustedReading() {
        var clock = BootClock()
        #expect(clock.note(reading(5, isTrusted: false)) == nil)
        #expect(clock.answer(.seconds(5)) == nil && !clock.isKnown)
    }

    @Test func theNewestTrustedReadingCountsAfterAStep() throws {
        var clock = BootClock()
        _ = clock.note(reading(10, ahead: .seconds(3_600)))
        _ = clock.note(reading(16, ahead: .seconds(3_600)))
        guard case .stepped(let step)? = clock.note(reading(20)) else {
            Issue.record("no step")
            return
        }
        #expect(step.size == .seconds(-3_600))
        #expect(step.after == .seconds(16) && step.at == .seconds(20))
        _ = clock.note(reading(30, ahead: .seconds(9), isTrusted: false))
        #expect(time(clock, 40) == .zero)
        // What was before it had the other time.
        #expect(time(clock, 12) == .seconds(3_600))
    }

    @Test func anInstantBetweenTwoReadingsThatDisagreeIsAsUncertainAsTheyDiffer() throws {
        var clock = BootClock()
        _ = clock.note(reading(10))
        _ = clock.note(reading(20, ahead: .seconds(40)))
        let between = try #require(clock.answer(.seconds(15)))
        #expect(between.error == .milliseconds(40_020))
        #expect(clock.error(at: .seconds(15), stored: .milliseconds(3)) == .milliseconds(40_003))
        // The readings themselves are none of it.
        #expect(clock.error(at: .seconds(10), stored: .milliseconds(3)) == .milliseconds(3))
        #expect(clock.error(at: .seconds(20), stored: .milliseconds(3)) == .milliseconds(3))
    }

    @Test func aTimeIsLessCertainTheLongerNothingDisciplinesTheClock() {
        var clock = BootClock()
        _ = clock.note(reading(1_000))
        #expect(clock.answer(.seconds(1_000))?.error == .milliseconds(20))
        // 500 in a million of an hour.
        #expect(clock.answer(.seconds(4_600))?.error == .milliseconds(1_820))
        // The same backwards.
        #expect(clock.answer(.zero)?.error == .milliseconds(520))
    }

    @Test func theInaccuracyOfReadingIsNoStep() {
        var clock = BootClock()
        _ = clock.note(reading(10))
        #expect(clock.note(reading(11, ahead: .milliseconds(99))) == nil)
        #expect(time(clock, 11) == .zero)
        #expect(clock.answer(.seconds(11))?.error == .milliseconds(119), "the older offset stays")
        #expect(clock.steps.isEmpty)
    }

    @Test func aJumpOfYearsHoldsWhatFollows() {
        var clock = BootClock()
        _ = clock.note(reading(10))
        _ = clock.note(reading(12))
        let years = Duration.seconds(3 * 365 * 86_400)
        #expect(clock.note(reading(20, ahead: years)) == .jumped(after: .seconds(12)))
        #expect(clock.note(reading(30, ahead: years)) == nil)
        #expect(time(clock, 12) == .zero)
        #expect(clock.answer(.seconds(13)) == nil && !clock.isKnown)
        // The clock is set right again.
        guard case .found? = clock.note(reading(40, ahead: .milliseconds(1))) else {
            Issue.record("not found again")
            return
        }
        #expect(time(clock, 30) == .zero)
    }

    /// The offset before the jump was forgotten, and nothing was said of the difference.
    @Test func aClockThatComesBackFromAJumpWithAnotherTimeHasStepped() throws {
        var clock = BootClock()
        _ = clock.note(reading(10))
        _ = clock.note(reading(20, ahead: .seconds(2 * 365 * 86_400)))
        guard case .stepped(let step)? = clock.note(reading(40, ahead: .seconds(40))) else {
            Issue.record("no step")
            return
        }
        #expect(step.size == .seconds(40) && step.after == .seconds(10) && step.at == .seconds(40))
        #expect(clock.isKnown && time(clock, 10) == .zero && time(clock, 40) == .seconds(40))
        #expect(clock.answer(.seconds(30))?.error == .milliseconds(40_020))
    }

    /// It had the error of the clock that was wrong by years, also once a person had stated the date to the minute.
    @Test func anInstantAfterAJumpIsAsUncertainAsWhoeverGivesItItsTime() {
        var clock = BootClock()
        _ = clock.note(reading(10))
        let years = Duration.seconds(300 * 86_400)
        let wrong = reading(20, ahead: years)
        _ = clock.note(wrong)
        let stored = clock.error(by: wrong)
        #expect(stored == nil)
        var stated = clock
        _ = stated.set(WallOffset(utc: noon + .seconds(30), uptime: .zero), at: .seconds(25))
        #expect(stated.error(at: .seconds(20), stored: stored) == nil)
        _ = clock.note(reading(30))
        #expect(clock.error(at: .seconds(20), stored: stored) == .milliseconds(20))
    }

    @Test func aPersonEndsAJump() {
        var clock = BootClock()
        _ = clock.note(reading(10))
        let years = Duration.seconds(-300 * 86_400)
        _ = clock.note(reading(20, ahead: years))
        let offset = WallOffset(utc: noon + years, uptime: .zero)
        #expect(clock.set(offset, at: .seconds(25))?.size == years)
        #expect(time(clock, 10) == .zero && time(clock, 25) == years)
        #expect(clock.note(reading(30, ahead: years)) == nil)
        #expect(clock.isKnown)
    }

    /// A page of the store a commit would be written for nothing else.
    @Test func confirmationsAreRememberedNowAndThen() {
        var clock = BootClock()
        var remembered = 0
        for second in stride(from: Int64(0), to: 3_600, by: 5)
        where clock.note(reading(second)) != nil { remembered += 1 }
        #expect(remembered == 6)
        // The last one before trust is lost.
        #expect(clock.note(reading(3_600, isTrusted: false)) == .confirmed)
        #expect(clock.note(reading(3_601, isTrusted: false)) == nil)
    }

    @Test func absurdReadingsDoNotTrap() {
        var clock = BootClock()
        for uptime in [Int64.min, .max, 0] {
            for wall in [Int64.min, .max, 0] {
                _ = clock.note(
                    ClockReading(
                        uptime: Uptime(microseconds: uptime), wall: UTC(microseconds: wall),
                        isTrusted: true, error: .microseconds(Int64.max)))
                _ = clock.answer(Uptime(microseconds: .max))
                _ = clock.answer(Uptime(microseconds: .min))
            }
        }
    }
}
