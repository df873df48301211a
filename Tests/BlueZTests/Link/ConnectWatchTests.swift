import Basics
import Testing

@testable import BlueZ

@Suite("An adapter that hears sensors and connects to none")
struct ConnectWatchTests {
    private var watch = ConnectWatch()

    /// Lets attempts fail every ten seconds; gives the first action and when it came.
    private mutating func failOn(
        from start: Int64, until end: Int64, hasLinks: Bool = false
    ) -> (RadioWatch.Action, Int64)? {
        for second in stride(from: start, through: end, by: 10) {
            if let action = watch.fail(hasLinks: hasLinks, at: .seconds(second)) {
                return (action, second)
            }
        }
        return nil
    }

    @Test mutating func isPowerCycledAfterNinetySecondsAndThenItsControllerIsReset() throws {
        let first = try #require(failOn(from: 0, until: 1_000))
        #expect(first == (.powerCycle, 90))
        // It did not help: more patience.
        let second = try #require(failOn(from: 100, until: 1_000))
        #expect(second == (.resetController, 100 + 180))
        let third = try #require(failOn(from: 290, until: 10_000))
        #expect(third == (.resetController, 290 + 360))
    }

    @Test mutating func isNotResetForAFewAttempts() {
        #expect(failOn(from: 0, until: 40) == nil)
        #expect(watch.fail(hasLinks: false, at: .seconds(1_000)) == .powerCycle)
    }

    @Test mutating func isWellAsSoonAsOneSensorIsConnected() throws {
        #expect(failOn(from: 0, until: 80) == nil)
        watch.succeed()
        #expect(try #require(failOn(from: 90, until: 1_000)) == (.powerCycle, 180))
    }

    @Test mutating func keepsItsLinksForTwelveMinutes() throws {
        #expect(try #require(failOn(from: 0, until: 10_000, hasLinks: true)) == (.powerCycle, 720))
    }
}
